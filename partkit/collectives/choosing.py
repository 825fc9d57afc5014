"""Which algorithm is fastest, by the cost model, and why. Pure: no rank is asked.

    >>> choose("all_reduce", nbytes=64, size=8, link=Link(latency=50e-6, bandwidth=2e9)).best == "ring"
    False

All ranks must choose alike, so the choice depends on nothing but operation, bytes, number of ranks and link.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from partkit.cluster import COSTS, LOOPBACK, Link


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
    """Algorithm -> its time in the model, fastest first."""

    @property
    def best(self) -> str:
        """The fastest; of equals the one with its name first in the table of costs."""
        return next(iter(self.seconds))

    def __repr__(self) -> str:
        head = f"{self.operation} of {self.nbytes:,} bytes on {self.size} ranks; a message: {self.link.latency:g} s + bytes / {self.link.bandwidth:g} bytes/s"
        fastest = self.seconds[self.best]
        rows = [
            f"  {name:24} {1e6 * t:14,.1f} us" + ("   <- chosen" if name == self.best else f"   {t / fastest:6.2f} times" if fastest else "")
            for name, t in self.seconds.items()
        ]
        return "\n".join([head, *rows])


def choose(operation: str, nbytes: int, size: int, link: Link = LOOPBACK) -> Choice:
    """The fastest algorithm in the alpha-beta model; what ``algorithm="auto"`` does.

    Args:
        operation: "all_reduce", "broadcast", ...
        nbytes: of the tensor that each rank passes in.
        size: number of ranks.
        link: between any two of them.

    Raises:
        ValueError: there is no such operation.

    Example:
        >>> choose("all_reduce", nbytes=1000, size=2, link=Link(latency=1.0, bandwidth=1000.0)).seconds["naive"]
        2.0
    """
    if operation not in COSTS:
        raise ValueError(f"choose(operation={operation!r}): operation is one of {', '.join(map(repr, COSTS))}")
    return _choose(operation, int(nbytes), int(size), link)


@lru_cache(maxsize=4096)
def _choose(operation: str, nbytes: int, size: int, link: Link) -> Choice:
    seconds = {name: cost(nbytes, 1, size, link).seconds for name, cost in COSTS[operation].items()}
    return Choice(operation, nbytes, size, link, dict(sorted(seconds.items(), key=lambda item: float(f"{item[1]:.9g}"))))  # the last digits are rounding
