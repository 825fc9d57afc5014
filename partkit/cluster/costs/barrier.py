"""What a barrier costs: a byte from everyone in each round, ceil(log2 p) rounds.

barrier          messages per rank    bytes per rank    time
dissemination    ceil(log2 p)         ceil(log2 p)      ceil(log2 p) (alpha + 1 / beta)
"""

from __future__ import annotations

from partkit.cluster.cost import Cost, CostFunction
from partkit.cluster.hardware import LOOPBACK, Link


def dissemination_barrier(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """In round k everyone signals the rank 2^k further on. A barrier has no tensor: ``numel`` and ``itemsize`` do not count.

    Example:
        >>> dissemination_barrier(0, 1, size=5)[:3]
        ((3, 3, 3, 3, 3), (3, 3, 3, 3, 3), 3)
    """
    rounds = (size - 1).bit_length()
    return Cost((rounds,) * size, (rounds,) * size, rounds, rounds * link.seconds(1))


BARRIER: dict[str, CostFunction] = {"dissemination": dissemination_barrier}
"""The closed form of each barrier, by the name of its algorithm."""
