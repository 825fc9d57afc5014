"""Numbers that say where they come from: whose data is in a result, how often, and from which element.

Rank r puts the mark 10^r + (i + 1) / 4096 in element i. Marks stay readable when they are moved, and when they are added up,
since float64 adds them without rounding. With four ranks, element 2 (3 / 4096 is 0.00073...):

    value                what it says
    10.00073             rank 1's element 2
    1111.00293           element 2 of every rank, added up: 4 * 3 / 4096 = 0.00293
    1011.00220           the same without the part of rank 2
    1211.00366           the same with the part of rank 2 twice
    277.75073            no sum of marks: something was divided, or memory was read that nobody had filled
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from partkit.diagnosis import name_ranks

PLACES = 4096
MOST_ELEMENTS = 40
"""Of an input; so that the places of nine ranks, each counted nine times, stay below 1."""


class Source(NamedTuple):
    """What a mark, or a sum of marks, is made of."""

    counts: tuple[int, ...]
    """How often each rank's element is in it."""
    place: int
    """Which element, from 0."""

    @property
    def ranks(self) -> list[int]:
        """Ranks whose data is in it."""
        return [rank for rank, count in enumerate(self.counts) if count]

    def __str__(self) -> str:
        element = f"element {self.place} of {name_ranks(self.ranks)}"
        return element if sum(self.counts) == 1 else f"the sum of {element}"


def marked(rank: int, shape: Sequence[int]) -> Tensor:
    """A rank's input: each element says whose it is, and which.

    Raises:
        ValueError: there are too many elements.

    Example:
        >>> marked(1, (2,)) * 4096
        tensor([40961., 40962.], dtype=torch.float64)
    """
    numel = torch.Size(shape).numel()
    if numel > MOST_ELEMENTS:
        raise ValueError(f"marked(shape={list(shape)}): at most {MOST_ELEMENTS} elements can be told apart when they are added up")
    return (10.0**rank + torch.arange(1, numel + 1, dtype=torch.float64) / PLACES).view(*shape)


def read(value: float, size: int) -> Source | None:
    """What a value says, among ``size`` ranks; None if it is no sum of marks.

    Example:
        >>> read(float(marked(0, (3,))[2] + 2 * marked(3, (3,))[2]), size=4)
        Source(counts=(1, 0, 0, 2), place=2)
        >>> read(277.75, size=4) is None
        True
    """
    scaled = value * PLACES
    if not 0 < scaled < PLACES * 10.0**size or scaled != int(scaled):
        return None
    whole, places = divmod(int(scaled), PLACES)
    counts = tuple(whole // 10**rank % 10 for rank in range(size))
    total = sum(counts)
    readable = total and places % total == 0 and 0 < places // total <= MOST_ELEMENTS
    return Source(counts, places // total - 1) if readable else None


def explain(result: Tensor, right: Tensor, size: int) -> str:
    """What is wrong with a result of the right shape; empty if nothing.

    Args:
        result: what came out, any shape.
        right: what had to, the same shape; made of marks.
        size: number of ranks.

    Example:
        >>> explain(marked(2, (2,)), marked(0, (2,)), size=4)
        'element 0 (2 of 2 elements are wrong): it holds element 0 of rank 2, it must hold element 0 of rank 0'
    """
    got, want = result.flatten(), right.flatten()
    wrong = torch.nonzero(got != want).flatten().tolist()
    if not wrong:
        return ""
    place = wrong[0]
    where = f"element {place}" + (f" ({len(wrong)} of {len(got)} elements are wrong)" if len(wrong) > 1 else "")
    must = read(float(want[place]), size)
    if must is None:
        raise ValueError(f"explain(right={right}): element {place} is no sum of marks")
    found = _difference(float(got[place]), read(float(got[place]), size), must)
    order = "; all elements are there, but not in their places" if torch.equal(got.sort().values, want.sort().values) else ""
    return f"{where}: {found}{order}"


def _difference(value: float, got: Source | None, must: Source) -> str:
    """One wrong element beside the right one, in words."""
    if value == 0:
        return f"it holds 0, so nothing has come in here; it must hold {must}"
    if got is None:
        doubt = "was something divided, or a buffer read before it was filled?" if sum(must.counts) > 1 else "was a buffer read before it was filled?"
        return f"{value:g} is no sum of whole parts; {doubt}"
    if got.counts == must.counts or sum(must.counts) == 1:
        return f"it holds {got}, it must hold {must}"
    missing = [rank for rank, count in enumerate(must.counts) if count > got.counts[rank]]
    double = [rank for rank, count in enumerate(must.counts) if count < got.counts[rank]]
    told = [f"the part of {name_ranks(missing)} is missing"] if missing else []
    told += [f"the part of {name_ranks(double)} was added more than once"] if double else []
    return " and ".join(told)
