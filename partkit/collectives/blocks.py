"""From a tensor of any number of dims to blocks in one piece of memory (`partkit.communicator.blocks`), and back.

To cut or join a tensor along another dim than the first, that dim is moved to the front and back again:

    x [2, 6] along dim 1     front(x, 1) -> 12 elements, column after column     blocks of 2 ranks: [0:6], [6:12]
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from partkit.communicator import Blocks as Blocks
from partkit.communicator import packed


def front(x: Tensor, dim: int) -> Tensor:
    """``x`` as a flat tensor in which ``dim`` varies slowest; only to be read: it may be ``x`` itself.

    Example:
        >>> import torch
        >>> front(torch.tensor([[1, 2], [3, 4]]), dim=1)
        tensor([1, 3, 2, 4])
    """
    joined = packed(x.movedim(dim, 0) if dim else x)
    return joined if joined.dim() == 1 else joined.view(-1)


def back(flat: Tensor, shape: Sequence[int], dim: int, extent: int) -> Tensor:
    """The inverse of `front`: the tensor of ``shape`` with ``extent`` along ``dim``, contiguous.

    Example:
        >>> import torch
        >>> back(torch.tensor([1, 3, 2, 4]), (2, 9), dim=1, extent=2)
        tensor([[1, 2],
                [3, 4]])
    """
    if len(shape) == 1:
        return flat
    joined = flat.view(extent, *shape[:dim], *shape[dim + 1 :])
    return joined.movedim(0, dim).contiguous() if dim else joined
