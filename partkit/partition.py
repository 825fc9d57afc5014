"""Who holds which index. One rule for data, weights, domains and checkpoints.

``n`` items over ``size`` ranks: every rank gets ``n // size`` of them, and the first ``n % size`` ranks get one more.
Pieces are contiguous, in rank order, and differ by at most one; with more ranks than items the last ranks hold nothing.

        n=10, size=4        rank 0    rank 1    rank 2   rank 3
                            0 1 2     3 4 5      6 7      8 9

``torch.chunk`` cuts differently (10 over 4 gives 3, 3, 3, 1; 5 over 4 gives 2, 2, 1 and nothing); partkit never uses it.
"""

from __future__ import annotations

from functools import lru_cache


def block_range(n: int, size: int, rank: int) -> range:
    """The indices out of ``range(n)`` that ``rank`` of ``size`` holds.

    Raises:
        ValueError: ``n`` is negative, ``size`` below 1, or ``rank`` outside ``0 .. size - 1``.

    Example:
        >>> [len(block_range(5, 4, rank)) for rank in range(4)]
        [2, 1, 1, 1]
    """
    if n < 0 or size < 1 or not 0 <= rank < size:
        raise ValueError(f"block_range(n={n}, size={size}, rank={rank}): needs n >= 0, size >= 1 and 0 <= rank < size")
    small, extra = divmod(n, size)
    start = rank * small + min(rank, extra)
    return range(start, start + small + (rank < extra))


@lru_cache(maxsize=1024)
def block_sizes(n: int, size: int) -> tuple[int, ...]:
    """How many items each rank holds. Remembered: collectives on small tensors cut alike again and again, between waits.

    Example:
        >>> block_sizes(10, 4)
        (3, 3, 2, 2)
    """
    block_range(n, size, 0)  # raises where there is none
    small, extra = divmod(n, size)
    return (small + 1,) * extra + (small,) * (size - extra)


def block_owner(n: int, size: int, index: int) -> int:
    """The rank that holds ``index``.

    Raises:
        IndexError: ``index`` is outside ``range(n)``.

    Example:
        >>> [block_owner(5, 4, index) for index in range(5)]
        [0, 0, 1, 2, 3]
    """
    if not 0 <= index < n:
        raise IndexError(f"index {index} is outside range({n})")
    small, extra = divmod(n, size)
    in_large_blocks = extra * (small + 1)
    return index // (small + 1) if index < in_large_blocks else extra + (index - in_large_blocks) // small
