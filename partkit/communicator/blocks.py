"""A block for each rank, all in one piece of memory, so that neighbouring blocks travel as one message without being packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import overload

from torch import Tensor

TOGETHER = 16
"""So many views are made at once."""


class Blocks(Sequence[Tensor]):
    """A flat tensor cut in consecutive blocks. Views are made when they are asked for: a block for each of hundreds of ranks costs
    nothing until it travels. Who goes from neighbour to neighbour, as rings do, gets some that were made together, for half the price.

    Args:
        flat: one dim, contiguous.
        numels: elements of each block; together as many as ``flat`` has.

    Attributes:
        flat: the tensor itself.
        numels: elements of each block.
        starts: where each block begins, and where the last one ends.

    Example:
        >>> import torch
        >>> blocks = Blocks(torch.arange(6), [3, 2, 1])
        >>> blocks[1], blocks.over(range(0, 2))
        (tensor([3, 4]), tensor([0, 1, 2, 3, 4]))
    """

    __slots__ = ("_first", "_last", "_views", "flat", "numels", "starts")

    def __init__(self, flat: Tensor, numels: Sequence[int]) -> None:
        self.flat = flat
        self.numels = tuple(numels)
        self.starts = _starts(self.numels)
        self._views: tuple[Tensor, ...] = ()  # of neighbouring blocks, from this one on:
        self._first, self._last = 0, -2  # and which block was asked for last
        if self.starts[-1] != flat.numel():
            raise ValueError(f"Blocks of {list(self.numels)} elements: together {self.starts[-1]}, but the tensor has {flat.numel()}")

    def __len__(self) -> int:
        return len(self.numels)

    @overload
    def __getitem__(self, place: int) -> Tensor: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Tensor, ...]: ...
    def __getitem__(self, place: int | slice) -> Tensor | tuple[Tensor, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        if 0 <= place - self._first < len(self._views):
            return self._views[place - self._first]
        place = range(len(self.numels))[place]
        last, self._last = self._last, place
        if abs(place - last) != 1:
            return self.flat[self.starts[place] : self.starts[place + 1]]
        self._first = place // TOGETHER * TOGETHER
        numels = self.numels[self._first : self._first + TOGETHER]
        self._views = self.over(range(self._first, self._first + len(numels))).split_with_sizes(numels)
        return self._views[place - self._first]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.flat.split_with_sizes(self.numels))

    def over(self, places: range) -> Tensor:
        """Neighbouring blocks as one."""
        return self.flat[self.starts[places.start] : self.starts[places.stop]]

    def like(self, flat: Tensor) -> Blocks:
        """Other memory of the same size, cut in the same way."""
        return Blocks(flat, self.numels)

    def grouped(self, groups: Sequence[range]) -> Blocks:
        """Fewer, larger blocks of the same memory: one for each group of neighbours."""
        if len(groups) == len(self.numels):
            return self
        return Blocks(self.flat, [self.starts[group.stop] - self.starts[group.start] for group in groups])


@lru_cache(maxsize=128)
def _starts(numels: tuple[int, ...]) -> tuple[int, ...]:
    """Where each block begins, and where the last one ends; remembered, since the same call is mostly made again."""
    return tuple(accumulate(numels, initial=0))
