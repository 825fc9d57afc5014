"""From a difference to the usual mistake behind it, in words. Pure.

Each hint is a guess with a reason: a relation between what the rank has and what it should have that one mistake makes and others
hardly could. The first that holds is told.

    gradient = p x the right one                          summed over p ranks, not divided; or over as many micro-batches
    the same, of a parameter that one rank alone has      summed over micro-batches, not weighted
    ranks differ, their mean is the right gradient        never reduced (or weights averaged instead)
    ranks agree, counts do not                            mean of the ranks' means
    gradient = the right one + that of the step before    zero_grad forgotten
    gradient right, weight wrong, mean of ranks right     optimizer stepped before the reduction
    outputs are those of other rows                       the wrong share of the data
    every number is a float16                             cast on the way
    ...

`HINTS` is the table: what differs -> the functions to try.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from partkit.diagnosis import name_ranks
from partkit.serial_twin.evidence import START
from partkit.serial_twin.pairs import Pair, What


class Clue(NamedTuple):
    """The first pair that differs, and everything around it."""

    pair: Pair
    pairs: Sequence[Pair]
    """All that was compared, in order."""
    wrong: Sequence[Pair]
    """All that differs."""
    counts: Sequence[int]
    """Items of each rank in this step."""
    tolerance: float

    @property
    def mine(self) -> Tensor:
        return torch.zeros_like(self.pair.right) if self.pair.mine is None else self.pair.mine.to(self.pair.right.dtype)

    @property
    def fellows(self) -> list[Pair]:
        """The same tensor on all ranks that hold the same piece of it, this one included."""
        pair = self.pair
        return [p for p in self.pairs if p.moment == pair.moment and p.name == pair.name and p.where == pair.where]

    def near(self, a: Tensor, b: Tensor) -> bool:
        """Whether two tensors are equal up to a few roundings, and not both zero."""
        scale = float(b.abs().max()) if b.numel() else 0.0
        return a.shape == b.shape and scale > 0 and float((a - b).abs().max()) <= 10 * self.tolerance * scale

    def earlier(self, what: What, step: int) -> Pair | None:
        """The same parameter on the same rank in an earlier step."""
        return next((p for p in self.pairs if p.step == step and p.what == what and p.rank == self.pair.rank and p.name == self.pair.name), None)


def hint(clue: Clue) -> str:
    """The first hint whose reason holds."""
    mine = clue.pair.mine
    if mine is not None and mine.shape != clue.pair.right.shape:
        return f"its shape is {list(mine.shape)}, in one process {list(clue.pair.right.shape)}; if the rank holds a part, say which: rows=... or layout=..."
    return next((text for find in HINTS[clue.pair.what] if (text := find(clue))), "")


# -- gradients -------------------------------------------------------------------------------------------------------


def no_gradient(clue: Clue) -> str:
    """Nothing arrived."""
    if clue.pair.mine is not None:
        return ""
    return "no gradient arrived: the layer is cut off from the loss (detach, no_grad, .item()), or its parameters are not those that were used"


def factor(clue: Clue) -> str:
    """The right gradient or loss times a number."""
    right, size, items = clue.pair.right, len(clue.counts), sum(clue.counts)
    times = _ratio(clue.mine, right)
    if not times or abs(times - 1) < 1e-3 or not clue.near(clue.mine, times * right):
        return ""
    over_ranks = () if clue.pair.what == "gradient" and len(clue.fellows) < 2 <= size else _over_ranks(size)
    for number, reason in (
        *over_ranks,
        (items, f"exactly {items} times too large, the number of items: the loss is a sum over them, in one process it is a mean"),
        (items / size, f"exactly {items / size:g} times too large, the items of a rank: the loss is a sum over them, in one process it is a mean"),
        (-1, "the sign is wrong"),
        (round(times), f"exactly {round(times)} times too large: {SUMMED}, if there are as many; weight the loss of each by its share of the batch"),
        (1 / max(1, round(1 / times)), f"exactly {round(1 / times)} times too small: {DIVIDED}, if there are as many"),
    ):
        if number != 1 and number and abs(times / number - 1) < 10 * clue.tolerance + 1e-12:
            return reason
    return f"exactly {times:.6g} times the right one"


SUMMED = "micro-batches, or accumulated steps, were summed without weights"
DIVIDED = "divided once too often, by the number of micro-batches or of accumulated steps"


def _over_ranks(size: int) -> tuple[tuple[float, str], ...]:
    """Factors that come of adding up over ranks; the same number of micro-batches makes the same factor."""
    return (
        (
            size,
            f"exactly {size} times too large, the number of ranks: a sum over ranks that was not divided; divide it by comm.size, or use op='mean'. "
            f"Or {SUMMED}, if there are {size}",
        ),
        (
            1 / size,
            f"exactly {size} times too small, the number of ranks: divided once too often, or a mean where the loss is a sum over the batch. "
            f"Or {DIVIDED}, if there are {size}",
        ),
        (size * size, f"exactly {size * size} times too large, the square of the number of ranks: summed over the ranks twice"),
    )


def _ratio(a: Tensor, b: Tensor) -> float:
    """The number by which ``b`` comes closest to ``a``; 0 for complex numbers, of which no hint is made."""
    if b.is_complex() or not b.any():
        return 0.0
    return float((a.double() * b.double()).sum() / b.double().square().sum())


def never_reduced(clue: Clue) -> str:
    """Ranks differ, but together they are right."""
    parts = [p.mine for p in clue.fellows if p.mine is not None]
    if len(parts) < 2 or all(torch.equal(part, parts[0]) for part in parts):
        return ""
    ways = {"mean": torch.stack(parts).mean(0), "sum": torch.stack(parts).sum(0), "mean, weighted by counts,": _weighted(clue)}
    way = next((way for way, together in ways.items() if clue.near(together, clue.pair.right)), None)
    if way is None:
        return ""
    alone = "" if len({p.name for p in clue.wrong if p.moment == clue.pair.moment}) > 1 else "; the other parameters are right, so this one was forgotten"
    averaged = (
        "; weights are averaged instead, which is the same only for plain SGD: momentum and Adam keep a history on each rank" if _weights_agree(clue) else ""
    )
    return f"each rank has its own gradient, and their {way} is the right one: it was never reduced over the ranks{alone}{averaged}"


def _weighted(clue: Clue) -> Tensor:
    parts = [(p.mine, clue.counts[p.rank]) for p in clue.fellows if p.mine is not None and p.rank is not None]
    return torch.stack([part * count for part, count in parts]).sum(0) / max(sum(count for _, count in parts), 1)


def _weights_agree(clue: Clue) -> bool:
    """Whether the weights of this parameter are equal on all ranks after this step and after the one before."""
    steps = (clue.pair.step, clue.pair.step + 1)
    weights = [[p.mine for p in clue.pairs if p.step == step and p.what == "weight" and p.name == clue.pair.name] for step in steps]
    return all(len(w) < 2 or all(x is not None and w[0] is not None and torch.equal(x, w[0]) for x in w) for w in weights)


def stale(clue: Clue) -> str:
    """The gradient of the step before is still in it."""
    before = clue.earlier("gradient", clue.pair.step - 1)
    if before is None or before.mine is None or not clue.near(clue.mine - before.mine, clue.pair.right):
        return ""
    return "it is the right gradient plus that of the step before: call zero_grad() before each backward"


def mean_of_means(clue: Clue) -> str:
    """All ranks agree on a wrong gradient, and their counts differ."""
    parts = [p.mine for p in clue.fellows if p.mine is not None]
    if len(set(clue.counts)) < 2 or len(parts) < 2 or any(not torch.equal(part, parts[0]) for part in parts):
        return ""
    counts = ", ".join(map(str, clue.counts))
    return f"ranks have different numbers of items ({counts}): the mean of their means is not the mean of all items; weight each by its count"


# -- weights ---------------------------------------------------------------------------------------------------------


def unequal_start(clue: Clue) -> str:
    """Before the first step."""
    if clue.pair.step != START:
        return ""
    parts = [p.mine for p in clue.fellows if p.mine is not None]
    if all(torch.equal(part, parts[0]) for part in parts):
        return "the ranks agree, but the serial run starts from other weights: build both with the same seed, or copy one into the other"
    return "the replicas start unequal: broadcast rank 0's parameters before training, or use the same seed on every rank"


def early_step(clue: Clue) -> str:
    """Gradients are right, weights are not, but their mean is."""
    parts = [p.mine for p in clue.fellows if p.mine is not None]
    agree = all(torch.equal(part, parts[0]) for part in parts)
    if agree or len(parts) < 2 or not any(clue.near(together, clue.pair.right) for together in (torch.stack(parts).mean(0), _weighted(clue))):
        return ""
    return "the gradient is right, and so is the mean of the ranks' weights: each rank stepped with its own gradient; reduce first, then step"


def other_rate(clue: Clue) -> str:
    """The update is the right one times a number."""
    before = clue.earlier("weight", clue.pair.step - 1)
    if before is None or before.mine is None:
        return ""
    update, right = clue.mine - before.mine, clue.pair.right - before.right
    times = _ratio(update, right)
    if not times or float((update - times * right).abs().max()) > 1e-4 * float(right.abs().max()):
        return ""
    return f"the gradient is right, the update is {times:.4g} times the right one: the learning rate of {_whom(clue)} is another"


def other_optimizer(clue: Clue) -> str:
    """Gradients are right, weights are not."""
    return f"the gradient is right, the weight is not: the optimizer of {_whom(clue)} has another setting or history, or the replicas started unequal"


def _whom(clue: Clue) -> str:
    ranks = sorted({p.rank for p in clue.wrong if p.rank is not None and p.moment == clue.pair.moment and p.name == clue.pair.name})
    return "all ranks" if len(ranks) == len(clue.counts) > 1 else name_ranks(ranks)


# -- outputs, loss, buffers --------------------------------------------------------------------------------------------


def other_rows(clue: Clue) -> str:
    """The outputs are right, for other rows."""
    whole = {row: p.right[i] for p in clue.pairs if p.moment == clue.pair.moment and isinstance(p.where, tuple) for i, row in enumerate(p.where)}
    found = [next((row for row, right in whole.items() if clue.near(mine, right)), None) for mine in clue.mine]
    expected = list(clue.pair.where)
    if not found or None in found or found == expected:
        return ""
    return f"these are the outputs of rows {found} of the batch, expected were rows {expected}: this rank works on the wrong share of the data"


def other_forward(clue: Clue) -> str:
    """Nothing more is known."""
    started = "" if any(p.step == START for p in clue.pairs) else "; or the replicas started unequal: note('start', model=model) shows it"
    first = "" if clue.pair.step == min(p.step for p in clue.pairs) else "; weights were right after the step before"
    return (
        "the forward pass differs: other data, other random numbers (dropout), train() against eval(), or a layer such as batch norm that "
        f"normalises by each rank's own share{started}{first}"
    )


def half_precision(clue: Clue) -> str:
    """Every number is a float16 or a bfloat16, those in one process are not."""
    for dtype in (torch.bfloat16, torch.float16):  # most bfloat16 numbers are float16 numbers too
        mine, right = clue.mine, clue.pair.right
        if (
            right.dtype in (torch.float32, torch.float64)
            and torch.equal(mine.to(dtype).to(mine.dtype), mine)
            and float((mine - right).abs().max()) <= 4 * torch.finfo(dtype).eps * float(right.abs().max())
        ):
            name, precision = str(dtype).removeprefix("torch."), torch.finfo(dtype).eps
            return f"every number is exactly a {name}, so it was cast on the way: a relative precision of {precision:.1g} is left"
    return ""


def other_loss(clue: Clue) -> str:
    """Outputs are right, the loss is not."""
    counts = ", ".join(map(str, clue.counts))
    return f"the loss over all ranks (weighted by counts {counts}) is another: another loss function, other targets, or wrong counts"


def own_buffers(clue: Clue) -> str:
    """Buffers of ranks differ, or all from serial."""
    parts = [p.mine for p in clue.fellows if p.mine is not None]
    if any(not torch.equal(part, parts[0]) for part in parts):
        return "each rank keeps its own buffer: broadcast rank 0's, or average them"
    return "the ranks agree on another value: running statistics over a rank's share of the batch are not those of the whole batch"


HINTS: dict[What, tuple[Callable[[Clue], str], ...]] = {
    "output": (other_rows, half_precision, other_forward),
    "loss": (factor, other_loss),
    "gradient": (no_gradient, stale, never_reduced, factor, half_precision, mean_of_means),
    "weight": (unequal_start, early_step, half_precision, other_rate, other_optimizer),
    "buffer": (own_buffers,),
}
"""What differs -> hints to try, the more telling first."""
