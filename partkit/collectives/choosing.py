"""Which algorithm is fastest, by the cost model, and why. Pure: no rank is asked.

    >>> choose("all_reduce", nbytes=64, size=8, link=Link(latency=50e-6, bandwidth=2e9)).best == "ring"
    False

What counts is the time of the messages, `partkit.cluster.COSTS`, and that of what a rank combines and copies meanwhile
(`partkit.cluster.costs.local`), each byte of which is two read and one written. The second is small, but where messages take
equally long it decides.

Ranks of one machine have no links of their own: a message keeps two of its cores busy, the sender's and the receiver's, so that two
cores carry one message at a time (`Link`: ``channels``), or let two ranks add. Then all that ranks do together takes at least its sum,
however well an algorithm spreads it over them: the bound by work, beside that by the longest chain (span). Broadcast, 4 ranks:

                     longest chain                   sum of all, one at a time
    flat             3 (alpha + n / beta)            3 (alpha + n / beta)             <- nobody waits for a core to hand on
    tree             2 (alpha + n / beta)            3 (alpha + n / beta)
    chain            (2 + s) (alpha + n / (s beta))  3 (s alpha + n / beta)

On links of their own the chain wins for large tensors, on two cores all but the chain. Measured there, 8 MB: 8.5, 7.9, 11.6 ms; 1 MB on 8
ranks: 5.8, 6.8, 12.4 ms. Of equals the simplest is taken, which stands first in the table.

All ranks must choose alike, so the choice depends on nothing but operation, bytes, number of ranks and the cluster.

Reference: the work law and the span law in Cormen, Leiserson, Rivest and Stein 2009, "Introduction to Algorithms", section 27.1.
"""

from __future__ import annotations

import math
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
    """Algorithm -> the time of its messages if each has a link to itself; that which is fastest in all comes first."""
    local: dict[str, float]
    """Algorithm -> the time in which the busiest rank combines and copies."""
    work: dict[str, float]
    """Algorithm -> the time of all messages, and of all that all ranks combine and copy, on the cores that they share; 0 where each has its own."""

    @property
    def best(self) -> str:
        """The fastest; of equals the one with its name first in the table of costs."""
        return next(iter(self.seconds))

    def total(self, name: str) -> float:
        """The time of an algorithm, in seconds: of its longest chain, or of all that ranks do on shared cores, whichever takes longer.

        Args:
            name: of the algorithm.

        Example:
            >>> found = choose("broadcast", nbytes=1000, size=4, link=Link(latency=1.0, bandwidth=1000.0, channels=1))
            >>> found.total("tree"), found.seconds["tree"], found.work["tree"]
            (6.0, 4.0, 6.0)
        """
        return max(self.seconds[name] + self.local[name], self.work[name])

    def __repr__(self) -> str:
        head = f"{self.operation} of {self.nbytes:,} bytes on {self.size} ranks; a message: {self.link.latency:g} s + bytes / {self.link.bandwidth:g} bytes/s"
        shared, fastest = any(self.work.values()), self.total(self.best)
        rows = [f"  {'':24} {'messages':>14}     + {'adding, copying':>15}{'   or all on shared cores' if shared else ''}"]
        for name, messages in self.seconds.items():
            times = self.total(name) / fastest if fastest else 1.0
            verdict = "   <- chosen" if name == self.best else f"   {times:6.2f} times"
            work = f"{1e6 * self.work[name]:22,.1f} us" if shared else ""
            rows.append(f"  {name:24} {1e6 * messages:14,.1f} us  + {1e6 * self.local[name]:12,.1f} us{work}{verdict}")
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
        ValueError: there is no such operation; a number is too small.

    Example:
        >>> choose("all_reduce", nbytes=1000, size=2, link=Link(latency=1.0, bandwidth=1000.0)).seconds["naive"]
        2.0
        >>> print(choose("all_reduce", nbytes=8_000_000, size=2).best)  # naive and recursive doubling send for as long, and add more
        ring
        >>> choose("broadcast", nbytes=8_000_000, size=4).best, choose("broadcast", nbytes=8_000_000, size=4, link=Link(2e-4, 1e9)).best
        ('flat', 'chain')
    """
    if operation not in COSTS:
        raise ValueError(f"choose(operation={operation!r}): operation is one of {', '.join(map(repr, COSTS))}")
    if nbytes < 0 or size < 1:
        raise ValueError(f"choose(nbytes={nbytes!r}, size={size!r}): nbytes is at least 0, size (the number of ranks) at least 1")
    return _choose(operation, int(nbytes), int(size), link, memory_bandwidth)


@lru_cache(maxsize=4096)
def _choose(operation: str, nbytes: int, size: int, link: Link, memory_bandwidth: float) -> Choice:
    costs = {name: cost(nbytes, 1, size, link) for name, cost in COSTS[operation].items()}
    beside = {name: local_bytes(operation, name, nbytes, size) for name in costs}
    a_byte, cores = 3 / memory_bandwidth, 2 * (link.channels or math.inf)
    local = {name: a_byte * beside[name].busiest for name in costs}
    work = {name: costs[name].work(link) + a_byte * beside[name].together / cores for name in costs}
    found = Choice(operation, nbytes, size, link, {name: cost.seconds for name, cost in costs.items()}, local, work)
    order = sorted(costs, key=lambda name: float(f"{found.total(name):.9g}"))  # the last digits are rounding
    return found._replace(seconds={name: found.seconds[name] for name in order})
