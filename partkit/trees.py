"""Trees over ranks: who hands on to whom.

The binomial tree over p ranks, rank 0 at its root. A rank's parent is its number without the lowest bit that is set. Below a
rank are the ranks that follow it, without a gap: a rank's subtree is one range, so its blocks are one piece of memory.

    p = 6     0 --+-- 1                       rank    parent    children    subtree
                  +-- 2 ----- 3                0        -        1 2 4       0 ... 5
                  +-- 4 ----- 5                2        0        3           2 3
                                               4        0        5           4 5

From the root down, the farthest child first, a message is everywhere after ceil(log2 p) rounds: in each round every rank that
has it sends it to one that has not. Up to the root, the nearest child first, it is the same film backwards.

Reference: Chan, Heimlich, Purkayastha and van de Geijn 2007, "Collective communication: theory, practice, and experience",
section 4 (minimum-spanning-tree algorithms).
"""

from __future__ import annotations


def binomial_parent(rank: int) -> int:
    """The rank above; of rank 0, the root, rank 0 itself.

    Example:
        >>> [binomial_parent(rank) for rank in range(8)]
        [0, 0, 0, 2, 0, 4, 4, 6]
    """
    return rank & (rank - 1)


def binomial_span(rank: int, size: int) -> int:
    """How many ranks the subtree of ``rank`` holds: itself and those that follow it.

    Example:
        >>> [binomial_span(rank, 6) for rank in range(6)]
        [6, 1, 2, 1, 2, 1]
    """
    return min(rank & -rank, size - rank) if rank else size


def binomial_children(rank: int, size: int) -> tuple[int, ...]:
    """The ranks right below ``rank``, the nearest first.

    Example:
        >>> binomial_children(0, 6), binomial_children(4, 6), binomial_children(5, 6)
        ((1, 2, 4), (5,), ())
    """
    return tuple(rank + 2**k for k in range((binomial_span(rank, size) - 1).bit_length()))
