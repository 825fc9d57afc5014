"""What ranks do beside sending: the bytes that a rank combines or copies within its own memory.

The closed forms (`partkit.cluster.COSTS`), like simulated ranks, count the time of messages alone. There, on two ranks, sending
everything at once and sending halves twice take equally long for large tensors; but the first adds and copies four times as
much. So the choice of an algorithm (`partkit.collectives.choosing`) looks at this table, too: the gamma term of Thakur et al.,
in bytes, of the rank that has most to do. p ranks, n bytes on each, q ranks in a node:

    all_reduce                                            scan, exscan
      naive                 p n                             linear                2 n
      reduce_broadcast      (1 + log2(p)) n                 recursive_doubling    (1 + 2 log2(p)) n
      ring                  (p - 1) / p n                 all_gather
      recursive_doubling    (1 + log2(p)) n                 ring                  n
      halving_doubling      (p - 1) / p n                   recursive_doubling    n
      hierarchical          (1 + 1 / q - 1 / p) n           bruck                 (p + 2) n
      double_tree           2 n                           all_to_all
    reduce_scatter                                          pairwise              n / p
      ring                  (p - 1) / p n                   bruck                 (1 + log2(p) / 2) n
      recursive_halving     n                             reduce
                                                            flat                  p n
                                                            tree                  (1 + log2(p)) n

The rows are for powers of two, and hold to the byte where they divide n; for other numbers of ranks they are near. Operations
that are not here move the same bytes whatever the algorithm.

Reference: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

from collections.abc import Callable

from partkit.cluster.costs.all_reduce import ranks_per_node_by_default

LocalBytes = Callable[[int, int], float]
"""Bytes of the tensor that each rank passes in, number of ranks -> bytes that the busiest rank combines or copies."""


def rounds(size: int) -> int:
    """log2 of the number of ranks, rounded up.

    Example:
        >>> [rounds(size) for size in (1, 2, 6, 8)]
        [0, 1, 3, 3]
    """
    return (size - 1).bit_length()


def share(n: int, size: int) -> float:
    """What a rank adds if everybody adds an equal part; those beyond a power of two are added by others first.

    Example:
        >>> share(600, 4), share(600, 3)
        (450.0, 900.0)
    """
    places = 1 << (size.bit_length() - 1)
    return (places - 1) / places * n + (n if places < size else 0)


def hierarchical(n: int, size: int, node: int) -> float:
    """Shares in the node and of a chunk between nodes, and the chunk copied; nodes of one rank copy all that they have first.

    Example:
        >>> hierarchical(800, 8, node=2), hierarchical(800, 8, node=1)
        (1100.0, 2300.0)
    """
    return (1 + 1 / node - 1 / size) * n + (n if node == 1 else 0)


SCAN: dict[str, LocalBytes] = {"linear": lambda n, p: 2 * n, "recursive_doubling": lambda n, p: (1 + 2 * rounds(p)) * n}
LOCAL: dict[str, dict[str, LocalBytes]] = {
    "all_reduce": {
        "naive": lambda n, p: p * n,
        "reduce_broadcast": lambda n, p: (1 + rounds(p)) * n,
        "ring": lambda n, p: (p - 1) / p * n,
        "recursive_doubling": lambda n, p: (1 + rounds(p)) * n,
        "halving_doubling": lambda n, p: share(n, p),
        "hierarchical": lambda n, p: hierarchical(n, p, ranks_per_node_by_default(p)),
        "double_tree": lambda n, p: 2 * n,
    },
    "reduce_scatter": {"ring": lambda n, p: (p - 1) / p * n, "recursive_halving": lambda n, p: share(n, p) + n / p},
    "reduce": {"flat": lambda n, p: p * n, "tree": lambda n, p: (1 + rounds(p)) * n},
    "scan": SCAN,
    "exscan": SCAN,
    "all_gather": {"ring": lambda n, p: n, "recursive_doubling": lambda n, p: n, "bruck": lambda n, p: (p + 2) * n},
    "all_to_all": {"pairwise": lambda n, p: n / p, "bruck": lambda n, p: (1 + rounds(p) / 2) * n},
}
"""Operation -> algorithm -> what the busiest rank does beside sending."""


def local_bytes(operation: str, algorithm: str, nbytes: int, size: int) -> float:
    """Bytes that the busiest rank combines or copies; 0 where that does not depend on the algorithm.

    Example:
        >>> local_bytes("all_reduce", "naive", 100, size=2), local_bytes("all_reduce", "ring", 100, size=2)
        (200, 50.0)
        >>> local_bytes("broadcast", "tree", 100, size=2)
        0
    """
    return LOCAL[operation][algorithm](nbytes, size) if operation in LOCAL and size > 1 else 0
