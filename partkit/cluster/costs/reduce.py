"""What each reduction to one rank costs. p ranks, n bytes on each, to rank 0:

    reduce    messages of another rank    bytes of another rank    time
    flat      1                           n                        (p - 1) (alpha + n / beta)
    tree      1                           n                        ceil(log2(p)) (alpha + n / beta)

Every rank but the root sends once; what differs is how many receive at the same time.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
section 4; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

from partkit.cluster.cost import Cost, CostFunction
from partkit.cluster.hardware import LOOPBACK, Link


def flat_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """The root receives from one rank after the other.

    Example:
        >>> flat_reduce(10, 4, size=4)[:3]
        ((0, 1, 1, 1), (0, 40, 40, 40), 3)
    """
    return _one_message_each(numel * itemsize, size, size - 1, link)


def tree_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """In each round half of the ranks that are left hand what they have to the other half.

    Example:
        >>> tree_reduce(10, 4, size=6)[:3]
        ((0, 1, 1, 1, 1, 1), (0, 40, 40, 40, 40, 40), 3)
    """
    return _one_message_each(numel * itemsize, size, (size - 1).bit_length(), link)


def _one_message_each(nbytes: int, size: int, steps: int, link: Link) -> Cost:
    return Cost((0,) + (1,) * (size - 1), (0,) + (nbytes,) * (size - 1), steps, steps * link.seconds(nbytes))


REDUCE: dict[str, CostFunction] = {"flat": flat_reduce, "tree": tree_reduce}
"""The cost of each explicit reduction to one rank, by the name of its algorithm."""
