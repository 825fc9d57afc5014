"""A block for each rank, all in one piece of memory, so that neighbouring blocks travel as one message without being packed.

To cut or join a tensor along another dim than the first, that dim is moved to the front and back again:

    x [2, 6] along dim 1     front(x, 1) -> 12 elements, column after column     blocks of 2 ranks: [0:6], [6:12]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from torch import Tensor

from partkit.communicator import packed


class Blocks(tuple[Tensor, ...]):
    """A flat tensor cut in consecutive blocks: a tuple of views.

    Args:
        flat: one dim, contiguous.
        numels: elements of each block; together as many as ``flat`` has.

    Attributes:
        flat: the tensor itself.
        starts: where each block begins, and where the last one ends.

    Example:
        >>> import torch
        >>> blocks = Blocks(torch.arange(6), [3, 2, 1])
        >>> blocks[1], blocks.over(range(0, 2))
        (tensor([3, 4]), tensor([0, 1, 2, 3, 4]))
    """

    flat: Tensor
    starts: tuple[int, ...]

    def __new__(cls, flat: Tensor, numels: Sequence[int]) -> Blocks:
        self = super().__new__(cls, flat.split_with_sizes(list(numels)))
        self.flat, self.starts = flat, tuple(accumulate(numels, initial=0))
        return self

    def over(self, places: range) -> Tensor:
        """Neighbouring blocks as one."""
        return self.flat[self.starts[places.start] : self.starts[places.stop]]

    def like(self, flat: Tensor) -> Blocks:
        """Other memory of the same size, cut in the same way."""
        return Blocks(flat, [block.numel() for block in self])

    def grouped(self, groups: Sequence[range]) -> Blocks:
        """Fewer, larger blocks of the same memory: one for each group of neighbours."""
        return Blocks(self.flat, [self.starts[group.stop] - self.starts[group.start] for group in groups])


def front(x: Tensor, dim: int) -> Tensor:
    """``x`` as a flat tensor in which ``dim`` varies slowest; only to be read: it may be ``x`` itself.

    Example:
        >>> import torch
        >>> front(torch.tensor([[1, 2], [3, 4]]), dim=1)
        tensor([1, 3, 2, 4])
    """
    return packed(x.movedim(dim, 0) if dim else x).view(-1)


def back(flat: Tensor, shape: Sequence[int], dim: int, extent: int) -> Tensor:
    """The inverse of `front`: the tensor of ``shape`` with ``extent`` along ``dim``, contiguous.

    Example:
        >>> import torch
        >>> back(torch.tensor([1, 3, 2, 4]), (2, 9), dim=1, extent=2)
        tensor([[1, 2],
                [3, 4]])
    """
    rest = (*shape[:dim], *shape[dim + 1 :])
    joined = flat.view(extent, *rest)
    return joined.movedim(0, dim).contiguous() if dim else joined
