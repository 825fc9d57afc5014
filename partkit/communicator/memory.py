"""What travels is one plain block of memory: how a tensor becomes one, and where a message for a tensor arrives."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from partkit.communicator.naming import describe
from partkit.transport.base import is_plain as is_plain


def packed(x: Tensor) -> Tensor:
    """``x`` as one block of memory, without its history: ``x`` itself if it is one."""
    if is_plain(x):
        return x
    check_dense(x, "x")
    return x.detach().resolve_conj().resolve_neg().contiguous()


def join(blocks: Sequence[Tensor], room: Tensor) -> Tensor:
    """Put flat blocks one after the other into ``room``, which is as long as all of them; returns it.

    Args:
        blocks: one dim each, any sizes, of one dtype.
        room: their elements together; other memory than theirs.

    Example:
        >>> join([torch.tensor([1]), torch.tensor([2, 3])], torch.empty(3, dtype=torch.int64))
        tensor([1, 2, 3])
    """
    return room if is_idle(room) else torch.cat(tuple(blocks), out=room)


def is_idle(x: Tensor) -> bool:
    """Whether operations on ``x`` do nothing but take time, more than with numbers: it has none, and nobody counts operations."""
    return x.is_meta and not torch._C._len_torch_dispatch_stack()


def inbox_for(buffer: Tensor) -> Tensor:
    """Where a message for ``buffer`` arrives: in ``buffer`` itself, if it is one block of memory."""
    if is_plain(buffer):
        return buffer
    check_dense(buffer, "buffer")
    if any(stride == 0 and size > 1 for stride, size in zip(buffer.stride(), buffer.shape, strict=True)):
        raise ValueError(f"buffer {describe(buffer)} is expanded: some of its elements share memory, so it can't be filled")
    return torch.empty(buffer.shape, dtype=buffer.dtype, device=buffer.device)


def check_dense(x: Tensor, argument: str) -> None:
    """Refuse what is no dense tensor."""
    if x.layout is not torch.strided:
        raise ValueError(f"{argument} has layout {x.layout}: only dense tensors travel; convert it with to_dense()")
