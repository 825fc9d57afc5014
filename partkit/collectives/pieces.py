"""Pieces of unequal size along one dim: who knows how large the others' are.

What joins pieces must know how much will come before it can receive. The argument ``sizes`` says so:

    sizes            the ranks' pieces along dim                       extra messages
    None             all as large as this rank's own                   none
    [3, 3, 2, 2]     known beforehand, by `block_sizes` for example    none
    "ask"            the ranks tell each other first                   those of the same algorithm for one int64 of each rank
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import Literal

from torch import Tensor

from partkit.communicator import Communicator, describe
from partkit.partition import block_sizes

Sizes = Sequence[int] | Literal["ask"] | None
"""What a caller may say about the ranks' pieces."""


def check_sizes(operation: str, x: Tensor, dim: int, sizes: Sizes, comm: Communicator) -> tuple[int, ...] | None:
    """Each rank's extent along ``dim``; None if the ranks must be asked.

    Raises:
        ValueError: there is not one size for each rank, or this rank's is not that of ``x``.
    """
    if sizes is None:
        return (x.shape[dim],) * comm.size
    if isinstance(sizes, str):
        if sizes != "ask":
            raise ValueError(f"{operation}(sizes={sizes!r}): sizes is each rank's extent along dim {dim}, or 'ask', or None for equal pieces")
        return None
    extents = _one_for_each(operation, dim, sizes, comm)
    mine = extents[comm.rank]
    if mine != x.shape[dim]:
        raise ValueError(f"{operation}(sizes={list(extents)}): rank {comm.rank} passes {describe(x)}, its size along dim {dim} is {x.shape[dim]}, not {mine}")
    return extents


def check_cut(operation: str, x: Tensor, dim: int, sizes: Sequence[int] | None, comm: Communicator) -> tuple[tuple[int, ...], str]:
    """Each rank's extent along ``dim`` when ``x`` is cut, by ``sizes`` or in blocks; and in words what must agree between ranks.

    Raises:
        ValueError: there is not one size for each rank, or they do not add up to that of ``x``.
    """
    if sizes is None:
        return block_sizes(x.shape[dim], comm.size), f"dim {dim}"
    extents = _one_for_each(operation, dim, sizes, comm)
    if sum(extents) != x.shape[dim]:
        raise ValueError(f"{operation}(sizes={list(extents)}) of {describe(x)}: they add up to {sum(extents)}, but x has {x.shape[dim]} along dim {dim}")
    return extents, f"dim {dim} in {list(extents)}"


def _one_for_each(operation: str, dim: int, sizes: Sequence[int], comm: Communicator) -> tuple[int, ...]:
    return check_counts(operation, "sizes", sizes, comm, f"give the extent along dim {dim} of each")


def check_counts(operation: str, argument: str, sizes: Sequence[int], comm: Communicator, wanted: str = "give a number for each") -> tuple[int, ...]:
    """Sizes as whole numbers, one for each rank.

    Raises:
        TypeError: they are no list of whole numbers: half of 5 is not 2.
        ValueError: there is not one for each rank, or one is negative.
    """
    try:
        counts = tuple(index(size) for size in sizes)
    except TypeError:
        raise TypeError(f"{operation}({argument}={sizes!r}): {wanted} of the {comm.size} ranks, in a list of whole numbers (n // 2, not n / 2)") from None
    if len(counts) != comm.size or min(counts) < 0:
        raise ValueError(f"{operation}({argument}={list(counts)}): {wanted} of the {comm.size} ranks, at least 0")
    return counts


def must_agree(x: Tensor, dim: int, sizes: Sizes) -> str:
    """What ranks that join pieces must have in common, in words; for `Communicator.collective`.

    Example:
        >>> import torch
        >>> must_agree(torch.ones(2, 3), dim=0, sizes=[2, 5])
        'float32[?, 3] of sizes [2, 5]'
    """
    if sizes is None:
        return f"{describe(x)} (pieces of one size; for others pass sizes=[...] or sizes='ask')"
    dtype, _ = describe(x).split("[")
    extents: list[int | str] = list(x.shape)
    extents[dim] = "?"
    return f"{dtype}[{', '.join(map(str, extents))}] of sizes {sizes if isinstance(sizes, str) else list(map(int, sizes))}"


def with_extent(shape: Sequence[int], dim: int, extent: int) -> tuple[int, ...]:
    """A shape with another extent along ``dim``.

    Example:
        >>> with_extent((2, 3, 4), dim=1, extent=7)
        (2, 7, 4)
    """
    return (*shape[:dim], extent, *shape[dim + 1 :])


@lru_cache(maxsize=1024)
def numels(shape: tuple[int, ...], dim: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Number of elements of each piece, of ``sizes`` along ``dim``. Remembered: small tensors are cut alike again and again.

    Example:
        >>> numels((2, 3), dim=0, sizes=(2, 5))
        (6, 15)
    """
    rest = prod(shape[:dim]) * prod(shape[dim + 1 :])
    return tuple(size * rest for size in sizes)
