"""Where the ranks and links of a cluster are on a page: nodes as boxes, fast links inside, slow ones between. Pure; draws nothing.

    topology       ranks                                    links to be seen and chosen
    none           one box                                  a bus in it: any two ranks
    Islands        a box for each innermost island          a bus in each box; a way out of each box, out of each group of boxes
    Torus          a grid (of three axes: planes in a row)  one to each neighbour along an axis; along the third by its planes
    LinkMatrix     a circle                                 one between any two ranks, up to `MOST_PAIRS` of them

A bus is drawn instead of a line for each pair because all of them are equal: 8 ranks of a node have 28 pairs. What is drawn says what is
asked: which link a message takes. (Lines of a torus are no wires that messages share: `partkit.cluster.Torus` has none.)

`layout` tries sizes of a rank, from large to small, until all have room; so 8 ranks have numbers, and 512 are dots in 64 boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil, cos, pi, sin, sqrt
from typing import NamedTuple

from partkit.cluster import Cluster, Islands, Link, LinkMatrix, Torus
from partkit.figures.units import nbytes, seconds

SIDES = (44, 34, 26, 20, 15, 11, 8, 6, 4)
"""Pixels of a rank's square, tried in this order."""
HIGH = 430
MOST_PAIRS = 66
_GAP, _PAD = 10, 8


class Place(NamedTuple):
    """A rank's square."""

    x: float
    y: float
    side: float


class Box(NamedTuple):
    """Ranks that share a link."""

    x: float
    y: float
    wide: float
    high: float
    name: str


class Wire(NamedTuple):
    """A link, or many equal ones, that can be chosen."""

    name: str
    path: str
    """For the ``d`` of an SVG path."""
    src: tuple[int, ...]
    dst: tuple[int, ...]
    """The same as ``src`` for what lies between ranks of one box."""
    link: Link


class Map(NamedTuple):
    """All of it, in pixels."""

    wide: float
    high: float
    places: tuple[Place, ...]
    """By rank."""
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    rails: tuple[str, ...] = ()
    """Lines that only show where ways out meet."""


def layout(cluster: Cluster, size: int, wide: float = 960) -> Map:
    """Lay out ``size`` ranks of a cluster.

    Args:
        cluster: whose topology says what is near to what.
        size: number of ranks.
        wide: pixels that there are.

    Example:
        >>> from partkit.cluster import clusters
        >>> found = layout(clusters.H100_NODES, 16)
        >>> [box.name for box in found.boxes], [wire.name for wire in found.wires]
        (['ranks 0-7', 'ranks 8-15'], ['inside ranks 0-7', 'inside ranks 8-15', 'out of ranks 0-7', 'out of ranks 8-15'])
    """
    topology = cluster.topology
    draw: Callable[[Cluster, int, int, float], Map] = _grid if isinstance(topology, Torus) else _boxes
    if isinstance(topology, LinkMatrix) and size * (size - 1) // 2 <= MOST_PAIRS and size > 2:
        draw = _circle
    maps = (draw(cluster, size, side, wide) for side in SIDES)
    found = next((one for one in maps if one.wide <= wide and one.high <= HIGH), None)
    return draw(cluster, size, SIDES[-1], wide) if found is None else found


def figures(link: Link) -> str:
    """``450 GB/s, 2 us``.

    Example:
        >>> figures(Link(2e-6, 450e9))
        '450 GB/s, 2 us'
    """
    return f"{nbytes(int(link.bandwidth)) if link.bandwidth < 1e18 else 'no end of bytes'}/s, {seconds(link.latency)}"


def legend(sheet: Map, wide: float = 960) -> str:
    """The figures of each kind of link: ``links inside: 450 GB/s, 2 us; out of: 50 GB/s, 5 us``.

    Example:
        >>> from partkit.cluster import clusters
        >>> legend(layout(clusters.H100_NODES, 16))
        'links inside: 450 GB/s, 2 us; links out of: 50 GB/s, 5 us'
        >>> legend(layout(clusters.H100_NODES, 16), 360)
        'links inside: 450 GB/s, 2 us; and 1 more'
    """
    kinds: dict[tuple[str, str], None] = {}
    for wire in sheet.wires:
        kinds[wire.name.rpartition(" rank")[0] if wire.name[0] != "r" else "between", figures(wire.link)] = None
    lines = [f"links {kind}: {text}" for kind, text in kinds]
    room = max(1, int(wide / 250))
    return "; ".join(lines[:room]) + (f"; and {len(lines) - room} more" if len(lines) > room else "")


def named(ranks: tuple[int, ...]) -> str:
    """``rank 3``, ``ranks 0-7``: ranks in a row."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}-{ranks[-1]}"


def columns(number: int) -> int:
    """As many columns as make a grid of this many cells wider than high, without a rest if that can be.

    Example:
        >>> [columns(number) for number in (1, 2, 7, 8, 64, 509, 512)]
        [1, 2, 3, 4, 8, 23, 32]
    """
    root = sqrt(number)
    return next((c for c in range(ceil(root), int(2 * root) + 1) if number % c == 0), ceil(root))


# -- boxes -----------------------------------------------------------------------------------------------------------


class _Sheet:
    """What has been drawn so far, with a corner to which the next thing is relative."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self.boxes: list[Box] = []
        self.inner: list[Wire] = []
        self.outer: list[Wire] = []
        self.rails: list[str] = []

    def map(self, wide: float, high: float) -> Map:
        return Map(wide, high, tuple(self.places[rank] for rank in sorted(self.places)), tuple(self.boxes), (*self.inner, *self.outer), tuple(self.rails))


def _boxes(cluster: Cluster, size: int, side: int, wide: float) -> Map:
    levels = cluster.topology.levels if isinstance(cluster.topology, Islands) else ()
    sheet = _Sheet()
    right, bottom = _block(sheet, cluster, tuple(range(size)), [*(number for number, _ in levels if number < size)], side, (4, 6), wide - 4)
    return sheet.map(right, bottom + 4)


def _block(sheet: _Sheet, cluster: Cluster, ranks: tuple[int, ...], sizes: list[int], side: int, at: tuple[float, float], room: float) -> tuple[float, float]:
    """Draw ranks with what groups them, at a corner; gives the opposite corner."""
    if not sizes:
        return _leaf(sheet, cluster, ranks, side, at)
    if len(ranks) <= sizes[-1]:  # one group, so there is no way out of it
        return _block(sheet, cluster, ranks, sizes[:-1], side, at, room)
    (right, bottom), x, number = at, at[0], sizes[-1]
    groups = [ranks[first : first + number] for first in range(0, len(ranks), number)]
    trial = _block(_Sheet(), cluster, groups[0], sizes[:-1], side, (0, 0), room)
    across = max(1, min(len(groups), int((room - 14) // (trial[0] + _GAP))))
    across = ceil(len(groups) / ceil(len(groups) / across))
    ends = []
    for row in range(0, len(groups), across):
        left, top = x + 14, bottom
        ways = []
        for group in groups[row : row + across]:
            corner = _block(sheet, cluster, group, sizes[:-1], side, (left, top), room)
            ways.append((left + (corner[0] - left) / 2, corner[1], group))
            left, bottom, right = corner[0] + _GAP, max(bottom, corner[1]), max(right, corner[0])
        rail = bottom + 9
        for middle, start, group in ways:
            away = tuple(rank for rank in ranks if rank not in range(group[0], group[-1] + 1))
            sheet.outer.append(Wire(f"out of {named(group)}", f"M{middle:.1f} {start:.1f}V{rail:.1f}", group, away, cluster.between(group[0], away[0])))
        begin = x + 4 if across < len(groups) else ways[0][0]  # rows of groups meet at their left
        sheet.rails.append(f"M{begin:.1f} {rail:.1f}H{ways[-1][0]:.1f}")
        ends.append(rail)
        bottom = rail + 9
    if len(ends) > 1:
        sheet.rails.append(f"M{x + 4:.1f} {ends[0]:.1f}V{ends[-1]:.1f}")
    return right, bottom


def _leaf(sheet: _Sheet, cluster: Cluster, ranks: tuple[int, ...], side: int, at: tuple[float, float]) -> tuple[float, float]:
    """Ranks in a box, with a bus below them if any two have the same link."""
    (x, y), across = at, columns(len(ranks))
    step, pad, bus = side + max(2, side // 6), max(3, min(_PAD, side // 3)), max(5, side // 3)
    head = 14 if side >= 15 else 0
    for k, rank in enumerate(ranks):
        sheet.places[rank] = Place(x + pad + k % across * step, y + pad + head + k // across * step, side)
    wide, high = 2 * pad + across * step - (step - side), 2 * pad + head + ceil(len(ranks) / across) * step + bus
    sheet.boxes.append(Box(x, y, wide, high, named(ranks)))
    if len(ranks) > 1:
        line = y + high - pad - bus / 2
        sheet.inner.append(Wire(f"inside {named(ranks)}", f"M{x + pad:.1f} {line:.1f}h{wide - 2 * pad:.1f}", ranks, ranks, cluster.between(ranks[0], ranks[1])))
    return x + wide, y + high


# -- grids and circles -----------------------------------------------------------------------------------------------


def _grid(cluster: Cluster, size: int, side: int, wide: float) -> Map:
    """A torus: rows and columns, planes in a row; lines to the next along the last two axes, and round the ends."""
    torus = cluster.topology
    assert isinstance(torus, Torus)
    *planes, rows, across = (1, 1, *torus.shape)[-max(2, len(torus.shape)) :]
    step, each = side * 1.6, rows * across
    plane_wide, plane_high = across * step + side, rows * step + side
    number = 1
    for extent in planes:
        number *= extent
    beside = max(1, min(number, int(wide // (plane_wide + _GAP))))
    sheet = _Sheet()
    for rank in range(size):
        plane, (row, column) = rank // each, divmod(rank % each, across)
        corner = plane % beside * (plane_wide + _GAP), 14 + plane // beside * (plane_high + _GAP + 14)
        sheet.places[rank] = Place(corner[0] + side + column * step, corner[1] + side + row * step, side)
        if rank % each == 0:
            sheet.boxes.append(Box(*corner, plane_wide, plane_high, f"plane {plane}" if number > 1 else "torus"))
    for rank in range(size):
        sheet.inner += _to_neighbours(cluster, sheet.places, rank, rows, across)
    return sheet.map(beside * (plane_wide + _GAP), 18 + ceil(number / beside) * (plane_high + _GAP + 14))


def _to_neighbours(cluster: Cluster, places: dict[int, Place], rank: int, rows: int, across: int) -> Iterator[Wire]:
    """The links to the right and down; where an axis ends, round to its begin, as a stub on both sides."""
    first, (row, column) = rank - rank % (rows * across), divmod(rank % (rows * across), across)
    for extent, place, other, turned in (
        (across, column, first + row * across + (column + 1) % across, False),
        (rows, row, first + (row + 1) % rows * across + column, True),
    ):
        if extent < 2 or other not in places or (extent == 2 and place == 1):
            continue
        a, b = places[rank], places[other]
        middle, reach = a.side / 2, a.side * 0.6
        if place + 1 < extent:
            path = f"M{a.x + middle:.1f} {a.y + a.side:.1f}V{b.y:.1f}" if turned else f"M{a.x + a.side:.1f} {a.y + middle:.1f}H{b.x:.1f}"
        elif turned:
            path = f"M{a.x + middle:.1f} {a.y + a.side:.1f}v{reach:.1f}M{b.x + middle:.1f} {b.y:.1f}v{-reach:.1f}"
        else:
            path = f"M{a.x + a.side:.1f} {a.y + middle:.1f}h{reach:.1f}M{b.x:.1f} {b.y + middle:.1f}h{-reach:.1f}"
        yield Wire(f"rank {rank} to rank {other}", path, (rank,), (other,), cluster.between(rank, other))


def _circle(cluster: Cluster, size: int, side: int, wide: float) -> Map:
    """Any two ranks have a link of their own."""
    radius = max(side * size / 3.2, 2.4 * side, 50.0)
    middle = radius + side
    turns = [2 * pi * rank / size - pi / 2 for rank in range(size)]
    centres = [(middle + radius * cos(turn), middle + radius * sin(turn)) for turn in turns]
    places = tuple(Place(x - side / 2, y - side / 2, side) for x, y in centres)
    return Map(2 * middle, 2 * middle, places, (), tuple(_pairs(cluster, centres)))


def _pairs(cluster: Cluster, centres: list[tuple[float, float]]) -> Iterable[Wire]:
    for a, (x, y) in enumerate(centres):
        for b in range(a + 1, len(centres)):
            to = centres[b]
            yield Wire(f"rank {a} to rank {b}", f"M{x:.1f} {y:.1f}L{to[0]:.1f} {to[1]:.1f}", (a,), (b,), cluster.between(a, b))
