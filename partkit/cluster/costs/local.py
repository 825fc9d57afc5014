"""What ranks do beside sending: the bytes that they combine or copy within their own memory.

The closed forms (`partkit.cluster.COSTS`), like simulated ranks, count the time of messages alone. There, on two ranks, sending
everything at once and sending halves twice take equally long for large tensors; but the first adds and copies four times as
much. So the choice of an algorithm (`partkit.collectives.choosing`) looks at this table, too: the gamma term of Thakur et al.,
in bytes. Each rank has a core: what counts is the rank that has most to do. All share two: what counts is all that they do
together. p ranks, n bytes on each, q ranks in a node; rounds are log2(p):

                               the busiest rank        all ranks together
    all_reduce
      naive                    p n                     p^2 n
      reduce_broadcast         (1 + log2(p)) n         (2 p - 1) n
      ring                     (p - 1) / p n           (p - 1) n
      recursive_doubling       (1 + log2(p)) n         p (1 + log2(p)) n
      halving_doubling         (p - 1) / p n           (p - 1) n
      hierarchical             (1 + 1 / q - 1 / p) n   p times that
      double_tree              2 n                     (2 p - 1) n
    reduce_scatter
      ring                     (p - 1) / p n           (p - 1) n
      recursive_halving        n                       p n
    reduce
      flat                     p n                     (2 p - 1) n
      tree                     (1 + log2(p)) n         (2 p - 1) n
    scan, exscan
      linear                   2 n                     (2 p - 1) n
      recursive_doubling       (1 + 2 log2(p)) n       (p + 2 (p log2(p) - p + 1)) n
    all_gather
      ring                     n                       p n
      recursive_doubling       n                       p n
      bruck                    (p + 2) n               p (p + 2) n
    all_to_all
      pairwise                 n / p                   n
      bruck                    (1 + log2(p) / 2) n     p (1 + log2(p) / 2) n

The rows are for powers of two, and hold to the byte where they divide n; for other numbers of ranks the busiest is near, and
all together hold. Operations that are not here move the same bytes whatever the algorithm.

Reference: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from partkit.cluster.costs.all_reduce import ranks_per_node_by_default


class Local(NamedTuple):
    """Bytes that ranks combine or copy."""

    busiest: float
    """By the rank that has most to do."""
    together: float
    """By all ranks."""


def local_bytes(operation: str, algorithm: str, nbytes: int, size: int) -> Local:
    """What ranks combine and copy; 0 where that does not depend on the algorithm.

    Args:
        operation, algorithm: by name, as in `partkit.cluster.COSTS`.
        nbytes: of the tensor that each rank passes in.
        size: number of ranks.

    Example:
        >>> local_bytes("all_reduce", "naive", 100, size=2), local_bytes("all_reduce", "ring", 100, size=2)
        (Local(busiest=200, together=400), Local(busiest=50.0, together=100))
        >>> local_bytes("broadcast", "tree", 100, size=2)
        Local(busiest=0, together=0)
    """
    return LOCAL[operation][algorithm](nbytes, size) if operation in LOCAL and size > 1 else Local(0, 0)


def rounds(size: int) -> int:
    """log2 of the number of ranks, rounded up.

    Example:
        >>> [rounds(size) for size in (1, 2, 6, 8)]
        [0, 1, 3, 3]
    """
    return (size - 1).bit_length()


def places(size: int) -> int:
    """The largest power of two that is no more than the number of ranks; those beyond it are folded in by others first.

    Example:
        >>> [places(size) for size in (1, 2, 6, 8)]
        [1, 2, 4, 8]
    """
    return 1 << (size.bit_length() - 1)


def share(n: int, size: int) -> float:
    """What a rank adds if everybody adds an equal part, and some add those that are folded in, too.

    Example:
        >>> share(600, 4), share(600, 3)
        (450.0, 900.0)
    """
    return (places(size) - 1) / places(size) * n + (n if places(size) < size else 0)


def hierarchical(n: int, size: int, node: int) -> float:
    """Shares in the node and of a chunk between nodes, and the chunk copied; nodes of one rank copy all that they have first.

    Example:
        >>> hierarchical(800, 8, node=2), hierarchical(800, 8, node=1)
        (1100.0, 2300.0)
    """
    return (1 + 1 / node - 1 / size) * n + (n if node == 1 else 0)


def doubled(n: int, size: int) -> int:
    """All that is added by ranks that exchange everything in each round, and by those that fold others in.

    Example:
        >>> doubled(1, 4), doubled(1, 6)
        (12, 14)
    """
    return (places(size) * (1 + rounds(places(size))) + size - places(size)) * n


def scanned(n: int, size: int) -> int:
    """All that is added in a scan by rounds: in round k by those with somebody 2^k places before them, twice; and a copy each.

    Example:
        >>> scanned(1, 4)  # 4 copies, 3 and then 2 ranks
        14
    """
    return (size + 2 * sum(size - (1 << k) for k in range(rounds(size)))) * n


def carried(n: int, size: int) -> int:
    """All that is packed when blocks travel by the bits of their way, each once for each bit, and put in order at last.

    Example:
        >>> carried(8, 4), carried(8, 8)  # 1 + 1 + 2 bits of 4 blocks
        (64, 160)
    """
    return (size + sum(way.bit_count() for way in range(size))) * n


def alike(n: float, size: int) -> Local:
    """All ranks do the same."""
    return Local(n, size * n)


LocalBytes = Callable[[int, int], Local]
"""Bytes of the tensor that each rank passes in, number of ranks -> bytes that ranks combine or copy."""

SCAN: dict[str, LocalBytes] = {
    "linear": lambda n, p: Local(2 * n, (2 * p - 1) * n),
    "recursive_doubling": lambda n, p: Local((1 + 2 * rounds(p)) * n, scanned(n, p)),
}
LOCAL: dict[str, dict[str, LocalBytes]] = {
    "all_reduce": {
        "naive": lambda n, p: alike(p * n, p),
        "reduce_broadcast": lambda n, p: Local((1 + rounds(p)) * n, (2 * p - 1) * n),
        "ring": lambda n, p: Local((p - 1) / p * n, (p - 1) * n),
        "recursive_doubling": lambda n, p: Local((1 + rounds(p)) * n, doubled(n, p)),
        "halving_doubling": lambda n, p: Local(share(n, p), (p - 1) * n),
        "hierarchical": lambda n, p: alike(hierarchical(n, p, ranks_per_node_by_default(p)), p),
        "double_tree": lambda n, p: Local(2 * n, (2 * p - 1) * n),
    },
    "reduce_scatter": {
        "ring": lambda n, p: Local((p - 1) / p * n, (p - 1) * n),
        "recursive_halving": lambda n, p: Local(share(n, p) + n / p, (p - 1 + places(p) / p) * n),
    },
    "reduce": {
        "flat": lambda n, p: Local(p * n, (2 * p - 1) * n),
        "tree": lambda n, p: Local((1 + rounds(p)) * n, (2 * p - 1) * n),
    },
    "scan": SCAN,
    "exscan": SCAN,
    "all_gather": {
        "ring": lambda n, p: alike(n, p),
        "recursive_doubling": lambda n, p: alike(n, p),
        "bruck": lambda n, p: alike((p + 2) * n, p),
    },
    "all_to_all": {
        "pairwise": lambda n, p: Local(n / p, n),
        "bruck": lambda n, p: Local((1 + rounds(p) / 2) * n, carried(n, p)),
    },
}
"""Operation -> algorithm -> what ranks do beside sending."""
