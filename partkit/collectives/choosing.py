"""Which algorithm is fastest, by the cost model, and why. Pure: no rank is asked.

    >>> choose("all_reduce", nbytes=64, size=8, link=Link(latency=50e-6, bandwidth=2e9)).best == "ring"
    False

What counts is the time of the messages, `partkit.cluster.COSTS`, and that of what a rank combines and copies meanwhile
(`partkit.cluster.costs.local`), each byte of which is two read and one written. The second is small, but where messages take
equally long it decides.

All ranks must choose alike, so the choice depends on nothing but operation, bytes, number of ranks, link and memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from partkit.cluster import COSTS, LAPTOP_CORE, LOOPBACK, Link
from partkit.cluster.costs.local import local_bytes


class Choice(NamedTuple):
    """What was chosen, and what else there was.

    Example:
        >>> choose("all_reduce", nbytes=1_000_000, size=4, link=Link(latency=1e-6, bandwidth=1e9)).best
        'halving_doubling'
    """

    operation: str
    nbytes: int
    """Bytes of the tensor that each rank passes in."""
    size: int
    link: Link
    seconds: dict[str, float]
    """Algorithm -> the time of its messages; that which is fastest in all comes first."""
    local: dict[str, float]
    """Algorithm -> the time in which the busiest rank combines and copies."""

    @property
    def best(self) -> str:
        """The fastest; of equals the one with its name first in the table of costs."""
        return next(iter(self.seconds))

    def __repr__(self) -> str:
        head = f"{self.operation} of {self.nbytes:,} bytes on {self.size} ranks; a message: {self.link.latency:g} s + bytes / {self.link.bandwidth:g} bytes/s"
        fastest = self.seconds[self.best] + self.local[self.best]
        rows = [f"  {'':24} {'messages':>14}     + {'adding, copying':>15}"]
        for name, messages in self.seconds.items():
            times = (messages + self.local[name]) / fastest if fastest else 1.0
            verdict = "   <- chosen" if name == self.best else f"   {times:6.2f} times"
            rows.append(f"  {name:24} {1e6 * messages:14,.1f} us  + {1e6 * self.local[name]:12,.1f} us{verdict}")
        return "\n".join([head, *rows])


def choose(operation: str, nbytes: int, size: int, link: Link = LOOPBACK, memory_bandwidth: float = LAPTOP_CORE.memory_bandwidth) -> Choice:
    """The fastest algorithm in the alpha-beta model, with what ranks add and copy; what ``algorithm="auto"`` does.

    Args:
        operation: "all_reduce", "broadcast", ...
        nbytes: of the tensor that each rank passes in.
        size: number of ranks.
        link: between any two of them.
        memory_bandwidth: bytes per second between a rank's memory and its arithmetic units (`Device`).

    Raises:
        ValueError: there is no such operation.

    Example:
        >>> choose("all_reduce", nbytes=1000, size=2, link=Link(latency=1.0, bandwidth=1000.0)).seconds["naive"]
        2.0
        >>> print(choose("all_reduce", nbytes=8_000_000, size=2).best)  # naive and recursive doubling send for as long, and add more
        ring
    """
    if operation not in COSTS:
        raise ValueError(f"choose(operation={operation!r}): operation is one of {', '.join(map(repr, COSTS))}")
    return _choose(operation, int(nbytes), int(size), link, memory_bandwidth)


@lru_cache(maxsize=4096)
def _choose(operation: str, nbytes: int, size: int, link: Link, memory_bandwidth: float) -> Choice:
    seconds = {name: cost(nbytes, 1, size, link).seconds for name, cost in COSTS[operation].items()}
    local = {name: 3 * local_bytes(operation, name, nbytes, size) / memory_bandwidth for name in seconds}
    order = sorted(seconds, key=lambda name: float(f"{seconds[name] + local[name]:.9g}"))  # the last digits are rounding
    return Choice(operation, nbytes, size, link, {name: seconds[name] for name in order}, local)
