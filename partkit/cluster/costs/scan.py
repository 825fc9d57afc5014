"""What each scan costs, inclusive or exclusive. p ranks, n bytes on each:

    scan                  messages of rank 0    bytes of rank 0       time
    linear                1                     n                     (p - 1) (alpha + n / beta)
    recursive_doubling    ceil(log2(p))         ceil(log2(p)) n       ceil(log2(p)) (alpha + n / beta)

Reference: Hillis and Steele 1986, "Data parallel algorithms", Communications of the ACM 29(12).
"""

from __future__ import annotations

from partkit.cluster.cost import Cost, CostFunction, nothing
from partkit.cluster.hardware import LOOPBACK, Link


def linear_scan(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every rank but the last sends once, to the next.

    Example:
        >>> linear_scan(10, 4, size=4)[:3]
        ((1, 1, 1, 0), (40, 40, 40, 0), 3)
    """
    if size == 1:
        return nothing(size)
    nbytes, steps = numel * itemsize, size - 1
    return Cost((1,) * steps + (0,), (nbytes,) * steps + (0,), steps, steps * link.seconds(nbytes))


def recursive_doubling_scan(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every rank sends to the rank 1 further on, 2 further on, 4 further on, ... as long as there is one.

    Example:
        >>> recursive_doubling_scan(10, 4, size=5)[:3]
        ((3, 2, 2, 1, 0), (120, 80, 80, 40, 0), 3)
    """
    nbytes, steps = numel * itemsize, (size - 1).bit_length()
    messages = tuple((size - 1 - rank).bit_length() for rank in range(size))
    return Cost(messages, tuple(count * nbytes for count in messages), steps, steps * link.seconds(nbytes))


SCAN: dict[str, CostFunction] = {"linear": linear_scan, "recursive_doubling": recursive_doubling_scan}
"""The cost of each scan, by the name of its algorithm; an exclusive one sends the same messages."""
