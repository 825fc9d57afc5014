"""What must equal what: every tensor that a rank noted, beside its piece of the serial one. Pure.

Within a step, what comes first in the computation comes first here: a wrong output makes the loss wrong, a wrong loss the
gradients, wrong gradients the weights. Gradients come from the last layer to the first, as backward makes them. So the first
pair that differs is the one closest to the mistake.

    step   what       part                                    must equal
    start  weight     each parameter, on each rank            its piece of the serial one
    0      output     each rank's rows                        the same rows of the serial outputs
    0      loss       mean over ranks, weighted by counts     the serial loss
    0      gradient   each parameter, last layer first        its piece of the serial gradient; none counts as zeros
    0      weight     each parameter                          its piece of the serial weight after the step
    0      buffer     each buffer, if asked for               the serial buffer
    1      ...

What one side has noted and the other has not, and parts of a tensor that no rank holds, are `Missing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from partkit.serial_twin.evidence import START, Observation, Piece

What = Literal["output", "loss", "gradient", "weight", "buffer", "missing"]
Combine = Literal["mean", "sum"]
Noted = Mapping[int, Observation]
"""What ranks noted of one step, by rank."""


class Pair(NamedTuple):
    """A rank's tensor and what it must equal."""

    step: int
    what: What
    rank: int | None
    """None for the loss of all ranks together."""
    name: str
    """Of the parameter or buffer; empty for outputs and loss."""
    mine: Tensor | None
    right: Tensor
    """The piece of the serial tensor that the rank should have."""
    where: Piece | tuple[int, ...]
    """Which piece; of outputs, which rows."""
    whole: tuple[int, ...]
    """Shape of the serial tensor."""
    scale: float
    """Magnitude that errors are measured by."""

    @property
    def moment(self) -> tuple[int, What]:
        """Step and what: pairs of one moment are looked at together."""
        return self.step, self.what


class Missing(NamedTuple):
    """Something that only one side noted."""

    step: int
    rank: int | None
    name: str
    reason: str


def pairs(
    ranks: Sequence[Sequence[Observation]], serial: Sequence[Observation], *, combine: Combine = "mean", buffers: bool = False
) -> Iterator[Pair | Missing]:
    """Everything that must be equal, in the order of the table above.

    Args:
        ranks: what each rank noted, by rank.
        serial: what the one process noted.
        combine: how the ranks' losses make the loss of all.
        buffers: whether buffers must be equal.
    """
    by_step = [{seen.step: seen for seen in rank} for rank in ranks]
    expected = {seen.step: seen for seen in serial}
    for step in sorted(expected.keys() | {step for rank in by_step for step in rank}):
        if step not in expected:
            yield Missing(step, None, "", "only the ranks noted this step, not the serial run")
            continue
        yield from (Missing(step, rank, "", "only the serial run noted this step, not this rank") for rank, seen in enumerate(by_step) if step not in seen)
        noted = {rank: seen[step] for rank, seen in enumerate(by_step) if step in seen}
        yield from _outputs(noted, expected[step])
        yield from _loss(noted, expected[step], combine)
        if step != START:
            yield from _tensors("gradient", noted, expected[step])
        yield from _tensors("weight", noted, expected[step])
        if buffers:
            yield from _tensors("buffer", noted, expected[step])


def _outputs(noted: Noted, right: Observation) -> Iterator[Pair | Missing]:
    having = {rank: seen for rank, seen in noted.items() if seen.outputs is not None}
    if right.outputs is None or not having:
        yield from _one_sided("outputs", bool(having), right.outputs is not None, right.step)
        return
    next_row, whole = 0, right.outputs.unsqueeze(0) if right.outputs.dim() == 0 else right.outputs
    for rank, seen in having.items():
        mine = seen.outputs.reshape(whole.shape) if seen.outputs is not None and seen.outputs.dim() == 0 else seen.outputs
        assert mine is not None
        rows = seen.rows
        if rows is None:  # all of them, or the ranks' shares one after the other
            first = 0 if len(mine) == len(whole) else next_row
            rows = tuple(range(first, first + len(mine)))
            next_row = first + len(mine)
        if rows and max(rows) >= len(whole):
            yield Missing(right.step, rank, "outputs", f"this rank has output row {max(rows)}; the serial run has only {len(whole)} rows")
            continue
        yield Pair(right.step, "output", rank, "", mine, whole[list(rows)], rows, tuple(whole.shape), _magnitude(whole))


def _loss(noted: Noted, right: Observation, combine: Combine) -> Iterator[Pair | Missing]:
    losses = [(seen.loss, seen.count) for seen in noted.values() if seen.loss is not None]
    if right.loss is None or not losses:
        yield from _one_sided("loss", bool(losses), right.loss is not None, right.step)
        return
    combined = combined_loss([loss for loss, _ in losses], [count for _, count in losses], combine)
    yield Pair(right.step, "loss", None, "", combined, right.loss, Piece(), (), max(_magnitude(right.loss), 0.1))


def combined_loss(losses: Sequence[Tensor], counts: Sequence[int], combine: Combine) -> Tensor:
    """The loss over all ranks' items, from each rank's.

    Example:
        >>> combined_loss([torch.tensor(4.0), torch.tensor(1.0)], [1, 3], "mean")
        tensor(1.7500, dtype=torch.float64)
    """
    if combine == "sum":
        return torch.stack([loss.double() for loss in losses]).sum()
    if all(torch.equal(loss, losses[0]) for loss in losses):
        return losses[0]
    terms = [(loss.double(), count) for loss, count in zip(losses, counts, strict=True) if count > 0]
    return torch.stack([loss * count for loss, count in terms]).sum() / sum(count for _, count in terms)


def _tensors(what: What, noted: Noted, right: Observation) -> Iterator[Pair | Missing]:
    ranks, expected = {rank: tensors_of(seen, what) for rank, seen in noted.items()}, tensors_of(right, what)
    if not expected or not any(ranks.values()):
        yield from _one_sided(f"{what}s", any(ranks.values()), bool(expected), right.step)
        return
    floor = 0.1 * max(map(_magnitude, expected.values()))
    for name in reversed(list(expected)) if what == "gradient" else expected:
        tensor = expected[name]
        whole = torch.zeros_like(right.weights[name]) if tensor is None else tensor
        holders = {rank: noted[rank].layout.get(name, Piece()) for rank in ranks if name in ranks[rank]}
        if not _covered(whole, list(holders.values())):
            yield Missing(right.step, None, name, f"parts of this {what} are on no rank" if holders else f"no rank noted this {what}")
        for rank, piece in holders.items():
            yield Pair(right.step, what, rank, name, ranks[rank][name], piece.of(whole), piece, tuple(whole.shape), max(_magnitude(whole), floor))
    for rank, tensors in ranks.items():
        unknown = [name for name in tensors if name not in expected]
        yield from (Missing(right.step, rank, name, f"the serial model has no {what} of this name; it has {', '.join(expected)}") for name in unknown)


def tensors_of(seen: Observation, what: What) -> Mapping[str, Tensor | None]:
    """The named tensors of one kind."""
    kinds: dict[What, Mapping[str, Tensor | None]] = {"gradient": seen.gradients, "weight": seen.weights, "buffer": seen.buffers}
    return kinds[what]


def _covered(whole: Tensor, pieces: list[Piece]) -> bool:
    """Whether the pieces together are the whole tensor."""
    mask = torch.zeros(whole.shape, dtype=torch.bool)
    for piece in pieces:
        piece.of(mask).fill_(True)
    return bool(pieces) and bool(mask.all())


def _one_sided(what: str, on_ranks: bool, in_serial: bool, step: int) -> Iterator[Missing]:
    if on_ranks != in_serial:
        yield Missing(step, None, "", f"only the {'ranks' if on_ranks else 'serial run'} noted {what}")


def _magnitude(x: Tensor | None) -> float:
    return float(x.abs().nan_to_num(0.0).max()) if x is not None and x.numel() else 0.0
