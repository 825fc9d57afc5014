"""Which ranks are linked by what: islands of fast links, a torus, or any matrix.

Islands((8, nvlink))                    ranks 0-7 share a node, 8-15 the next, ...
Islands((8, nvlink), (256, rail))       and nodes share a pod of 256 ranks; beyond that: the cluster's own link
Torus((4, 4, 4), ici)                   each rank has 6 neighbours; a message further away takes a latency for each hop
LinkMatrix(((a, b), (c, d)))            the link from rank r to rank s is row r, column s
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from partkit.cluster.hardware import Link


class Topology(Protocol):
    """Knows the link between any two ranks."""

    def link(self, src: int, dst: int) -> Link | None:
        """The link from ``src`` to ``dst``; None for the cluster's own."""

    def check(self, size: int) -> None:
        """Raise ValueError if there is no room for ``size`` ranks."""


@dataclass(frozen=True, init=False)
class Islands:
    """Groups of neighbouring ranks with links of their own, the innermost first.

    Args:
        *levels: ``(ranks in a group, link inside)``, smaller groups first; each size divides the next.

    Example:
        >>> from partkit.cluster import Link
        >>> islands = Islands((2, Link(1e-6, 1e11)), (4, Link(2e-6, 1e10)))
        >>> [islands.link(0, r).latency if islands.link(0, r) else "the cluster's" for r in (1, 3, 4)]
        [1e-06, 2e-06, "the cluster's"]
    """

    levels: tuple[tuple[int, Link], ...]

    def __init__(self, *levels: tuple[int, Link]) -> None:
        sizes = [size for size, _ in levels]
        if not sizes or sizes[0] < 1 or any(outer % inner or outer <= inner for inner, outer in pairwise(sizes)):
            raise ValueError(f"Islands of {sizes} ranks: give sizes from small to large, each a multiple of the one before")
        object.__setattr__(self, "levels", tuple(levels))

    def link(self, src: int, dst: int) -> Link | None:
        """The link of the smallest island that holds both."""
        return next((link for size, link in self.levels if src // size == dst // size), None)

    def check(self, size: int) -> None:
        """Islands go on for ever."""


@dataclass(frozen=True)
class Torus:
    """Ranks on a grid whose ends meet, in row-major order. A message goes the shortest way, at a latency for each hop.

    Links on the way are not shared out: messages that cross do not slow each other down.

    Args:
        shape: ranks along each axis.
        hop: the link between neighbours.

    Example:
        >>> from partkit.cluster import Link
        >>> torus = Torus((4, 4), Link(1e-6, 1e11))
        >>> torus.hops(0, 3), torus.hops(0, 10), torus.link(0, 10).latency
        (1, 4, 4e-06)
    """

    shape: tuple[int, ...]
    hop: Link

    def hops(self, src: int, dst: int) -> int:
        """Links on the shortest way."""
        total = 0
        for extent in reversed(self.shape):
            (src, a), (dst, b) = divmod(src, extent), divmod(dst, extent)
            total += min((a - b) % extent, (b - a) % extent)
        return total

    def link(self, src: int, dst: int) -> Link | None:
        """All hops as one link."""
        from partkit.cluster.hardware import Link

        return Link(self.hop.latency * self.hops(src, dst), self.hop.bandwidth)

    def check(self, size: int) -> None:
        """One rank a place."""
        if size > prod(self.shape):
            raise ValueError(f"a torus of {' x '.join(map(str, self.shape))} has {prod(self.shape)} places, too few for {size} ranks")


@dataclass(frozen=True, init=False)
class LinkMatrix:
    """Any link from any rank to any other.

    Args:
        rows: ``rows[src][dst]`` is the link from ``src`` to ``dst``; None for the cluster's own. The two directions may differ.

    Example:
        >>> from partkit.cluster import Link
        >>> up, down = Link(0.01, 1e6), Link(0.01, 1e7)
        >>> LinkMatrix([[None, up], [down, None]]).link(1, 0).bandwidth
        10000000.0
    """

    rows: tuple[tuple[Link | None, ...], ...]

    def __init__(self, rows: Sequence[Sequence[Link | None]]) -> None:
        if not rows or any(len(row) != len(rows) for row in rows):
            raise ValueError(f"LinkMatrix of rows of {[len(row) for row in rows]}: give as many rows as columns, one of each a rank")
        object.__setattr__(self, "rows", tuple(map(tuple, rows)))

    def link(self, src: int, dst: int) -> Link | None:
        """As the matrix says."""
        return self.rows[src][dst]

    def check(self, size: int) -> None:
        """One row a rank."""
        if size > len(self.rows):
            raise ValueError(f"the matrix of links is for {len(self.rows)} ranks, too few for {size}")
