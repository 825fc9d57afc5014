"""What each gather costs. p ranks, n bytes on each, to rank 0:

    gather    messages of another rank    bytes of rank 1    time
    flat      1                           n                  (p - 1) (alpha + n / beta)
    tree      1                           n                  ceil(log2(p)) alpha + (p - 1) n / beta

In the tree a rank sends the blocks of all ranks below it together with its own. Empty blocks are sent too.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
section 4; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

from partkit.cluster.cost import Cost, CostFunction
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.trees import binomial_span


def flat_gather(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every rank sends its block to the root, which receives one after the other.

    Example:
        >>> flat_gather(10, 4, size=4)[:3]
        ((0, 1, 1, 1), (0, 40, 40, 40), 3)
    """
    nbytes, others = numel * itemsize, size - 1
    return Cost((0,) + (1,) * others, (0,) + (nbytes,) * others, others, others * link.seconds(nbytes))


def tree_gather(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every rank sends all blocks of its subtree at once. The root receives without a pause.

    Example:
        >>> tree_gather(10, 4, size=6)[:3]
        ((0, 1, 1, 1, 1, 1), (0, 40, 80, 40, 80, 40), 3)
    """
    nbytes, others, rounds = numel * itemsize, size - 1, (size - 1).bit_length()
    sent = tuple(binomial_span(rank, size) * nbytes for rank in range(1, size))
    return Cost((0,) + (1,) * others, (0, *sent), rounds, rounds * link.latency + others * nbytes / link.bandwidth)


GATHER: dict[str, CostFunction] = {"flat": flat_gather, "tree": tree_gather}
"""The cost of each explicit gather, by the name of its algorithm."""
