"""Evidence of all ranks beside that of one process: what differs, first things first. Pure.

Two tensors are equal if no entry differs by more than tolerance * scale. The scale is the largest magnitude in the serial
tensor, or a tenth of the largest in any serial tensor of that kind and step, if that is more: a gradient that is zero but for
rounding has no scale of its own. nan equals nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from partkit.serial_twin.evidence import Observation, Piece
from partkit.serial_twin.hints import Clue, hint
from partkit.serial_twin.pairs import Combine, Missing, Pair, What, pairs

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.complex64: 1e-5, torch.complex128: 1e-9}
"""By dtype of the serial tensor; other dtypes must be equal."""


class Rules(NamedTuple):
    """What counts as equal."""

    combine: Combine = "mean"
    """How the ranks' losses make the loss of all."""
    tolerance: float | None = None
    """Relative to the scale of the tensor; None: `TOLERANCES`."""
    bit_equal: bool = False
    """Whether outputs, gradients, weights and buffers must have the same bits."""
    buffers: bool = False
    """Whether buffers are compared."""


class Difference(NamedTuple):
    """One tensor on one rank that is not what it is in one process."""

    step: int
    """Number of the step; -1 before the first."""
    what: What
    rank: int | None
    """None if it is not one rank's: the loss of all ranks together, or something that no rank noted."""
    name: str
    """Name of the parameter or buffer; empty for loss and outputs."""
    parallel: float
    """The entry with the largest error, on the rank ..."""
    serial: float
    """... and in one process."""
    place: tuple[int, ...]
    """Where that entry is in the serial tensor."""
    error: float
    """Largest absolute difference of an entry."""
    allowed: float
    """Largest absolute difference that counts as equal."""
    hint: str = ""
    """The usual mistake behind it; only the first difference has one, for it is the cause of most others."""

    @property
    def layer(self) -> str:
        """The module that holds the parameter: ``0`` for ``0.weight``; empty for the model itself."""
        return self.name.rpartition(".")[0]


class Comparison(NamedTuple):
    """What `compare` found."""

    differences: tuple[Difference, ...]
    num_compared: dict[What, int]
    """Tensors compared, by kind."""
    largest_error: dict[What, float]
    """Largest error relative to the scale of its tensor, by kind."""


def compare(ranks: Sequence[Sequence[Observation]], serial: Sequence[Observation], rules: Rules | None = None) -> Comparison:
    """Compare everything; hints come with the differences.

    Args:
        ranks: what each rank noted, by rank.
        serial: what the one process noted.
        rules: what counts as equal; by default `Rules`'s own defaults.

    Example:
        >>> right, wrong = (Observation(0, loss=torch.tensor(loss)) for loss in (2.0, 4.0))
        >>> compare([[wrong], [wrong]], [right]).differences[0].error
        2.0
    """
    rules = rules or Rules()
    todo = list(pairs(ranks, serial, combine=rules.combine, buffers=rules.buffers))
    differences: list[Difference] = []
    wrong: list[Pair] = []
    num_compared: dict[What, int] = {}
    largest: dict[What, float] = {}
    for item in todo:
        if isinstance(item, Missing):
            differences.append(Difference(item.step, "missing", item.rank, item.name, nan, nan, (), inf, 0.0, item.reason))
            continue
        difference = _differ(item, rules)
        num_compared[item.what] = num_compared.get(item.what, 0) + 1
        largest[item.what] = max(largest.get(item.what, 0.0), difference.error / (item.scale or 1.0))
        if _is_wrong(difference, item, rules):
            differences.append(difference)
            wrong.append(item)
    if differences and differences[0].what != "missing":
        counts = [next((seen.count for seen in rank if seen.step == wrong[0].step), 0) for rank in ranks]
        clue = Clue(wrong[0], [p for p in todo if isinstance(p, Pair)], wrong, counts, tolerance(wrong[0], rules))
        differences[0] = differences[0]._replace(hint=hint(clue))
    return Comparison(tuple(differences), num_compared, largest)


def tolerance(pair: Pair, rules: Rules) -> float:
    """The relative tolerance for a pair."""
    return TOLERANCES.get(pair.right.dtype, 0.0) if rules.tolerance is None else rules.tolerance


def _differ(pair: Pair, rules: Rules) -> Difference:
    """The largest error of a pair, if large or not."""
    allowed = tolerance(pair, rules) * max(pair.scale, torch.finfo(torch.float64).eps)
    blank = Difference(pair.step, pair.what, pair.rank, pair.name, nan, nan, (), inf, allowed)
    mine, right = torch.zeros_like(pair.right) if pair.mine is None else pair.mine, pair.right
    if mine.shape != right.shape:
        return blank
    if right.numel() == 0:
        return blank._replace(error=0.0)
    errors = _errors(mine, right)
    worst = int(errors.argmax())
    values = [abs(complex(x.reshape(-1)[worst])) if x.is_complex() else float(x.reshape(-1)[worst]) for x in (mine, right)]
    return blank._replace(parallel=values[0], serial=values[1], place=_place(worst, pair), error=float(errors[worst]))


def _errors(mine: Tensor, right: Tensor) -> Tensor:
    wide = torch.complex128 if right.is_complex() else torch.float64
    a, b = mine.reshape(-1).to(wide), right.reshape(-1).to(wide)
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a - b).abs()).nan_to_num(inf)


def _is_wrong(difference: Difference, pair: Pair, rules: Rules) -> bool:
    if rules.bit_equal and pair.what != "loss" and pair.mine is not None:
        return pair.mine.dtype != pair.right.dtype or difference.error > 0
    return difference.error > difference.allowed


def _place(position: int, pair: Pair) -> tuple[int, ...]:
    """From a position in the rank's piece, flattened, to the index in the serial tensor."""
    local = [int(i) for i in np.unravel_index(position, tuple(pair.right.shape))] if pair.right.dim() else []
    if not isinstance(pair.where, Piece):
        return (pair.where[local[0]], *local[1:])
    starts = [r[i] for r, i in zip(pair.where.ranges, local, strict=False)]
    place = (*starts, *local[len(starts) :])
    return tuple(int(i) for i in np.unravel_index(place[0], pair.whole)) if pair.where.flat else place
