"""`WaitFor`: who waits for whom when nothing moves: ranks on a circle, an arrow a wait, the deadly circle thick. Pure.

           (rank 0)                     thick, vermillion, solid    each waits for the next: nobody in it can ever go on
      recv ↗      ↘ recv                thin, dashed                waits for one of these, or for who has left
    (rank 2) <---- (rank 1)             double ring                 look here first
              recv                      square, grey                has finished; rounded, green: busy

The same graph in a table: per rank the operation, the other rank, tag, bytes, source line, and what would have to happen. An image
can't know the page that it is on; this one follows the reader's system, light or dark. Data: `partkit.wait_graph`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, NamedTuple

from partkit.figures.markup import figure, table
from partkit.figures.palette import LINES, PAGE, STYLES, ink
from partkit.rank_state import RankState, name_ranks
from partkit.tracing import Kind
from partkit.wait_graph import Edge, Node, WaitGraph, wait_graph

MOST_RANKS, MOST_LABELS, MOST_ROWS, MOST_LINES = 12, 8, 40, 16
"""Ranks that are drawn; ranks up to which arrows are named in the picture; rows of the table; lines of the text."""
WIDTH, HIGH, NODE, LETTER = 640, 420, 27, 5.8
HEAD = ("rank", "is", "waits for", "tag", "bytes", "at", "what would have to happen")
CIRCLE, OTHER = LINES[1], ("#4b5560", "#a3b0bf")
"""Colours of arrows, on a light and on a dark page."""


class WaitFor:
    """The wait-for graph of a run that can't go on.

    Args:
        source: the error that a world raised (`RanksStuck`), its ``diagnosis``, or the states of all ranks.
        title: shown above it.

    Attributes:
        graph: the same as data.

    Raises:
        TypeError: ``source`` says nothing about ranks that wait.

    Example:
        >>> import torch, partkit as pk
        >>> with pk.SimulatedWorld(3) as world:
        ...     try:
        ...         world.run(lambda comm: comm.recv(torch.empty(4), (comm.rank + 1) % 3))
        ...     except RuntimeError as error:
        ...         picture = WaitFor(error)
        >>> print(str(picture).replace("<doctest", "In ").partition(" at ")[0])
        each waits for the next: 0 -> 1 -> 2 -> 0
        rank 0: recv float32[4] (16 bytes) from rank 1
        >>> picture.graph.circle
        (0, 1, 2)
    """

    def __init__(self, source: Any, title: str = "") -> None:
        told = getattr(source, "diagnosis", source)
        states = getattr(told, "states", told)
        states = tuple(states) if isinstance(states, Iterable) else ()
        if not states or not all(isinstance(state, RankState) for state in states):
            raise TypeError(f"WaitFor(source={source!r}): give the RanksStuck that a world raised, its diagnosis, or a list of RankState")
        self.graph: WaitGraph = wait_graph(states)
        self.title = title

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        shown = self.graph.around(MOST_RANKS)
        left = len(self.graph.nodes) - len(shown.nodes)
        caption = headline(self.graph) + (f"; {left} more not drawn" if left else "")
        return {"text/html": figure(picture(shown), f"Wait-for graph: {caption}", caption, [_table(self.graph)], self.title), "text/plain": str(self)}

    def __str__(self) -> str:
        lines = [headline(self.graph), *_lines(self.graph)]
        return "\n".join([f"{self.title}: {lines[0]}" if self.title else lines[0], *lines[1:]])

    __repr__ = __str__


def headline(graph: WaitGraph) -> str:
    """What the graph shows, in one line.

    Example:
        >>> headline(WaitGraph((), (), (1, 2), (1, 2))), headline(WaitGraph((), (), (), (3,)))
        ('each waits for the next: 1 -> 2 -> 1', 'no circle; look at rank 3 first')
    """
    if graph.circle:
        ring = [str(rank) for rank in (*graph.circle, graph.circle[0])]
        cut = ring if len(ring) <= MOST_LINES else [*ring[:6], f"... {len(ring) - 8} more ...", *ring[-2:]]
        return f"each waits for the next: {' -> '.join(cut)}"
    return "no circle" + (f"; look at {name_ranks(graph.first)} first" if graph.first else "")


def _lines(graph: WaitGraph) -> Iterator[str]:
    """A line for each rank that waits, those in the circle and those to look at first before the others."""
    order = {rank: k for k, rank in enumerate(dict.fromkeys((*graph.circle, *graph.first)))}
    waiting = sorted({edge.src for edge in graph.edges}, key=lambda rank: (order.get(rank, len(order)), rank))
    for rank in waiting[:MOST_LINES]:
        own = [edge for edge in graph.edges if edge.src == rank]
        edge, size = own[0], f" ({own[0].nbytes} bytes)" if own[0].nbytes else ""
        way = "to" if edge.operation == "send" else "from" if edge.operation == "recv" else ", waits for"
        where = f" {way} {name_ranks([e.dst for e in own])}".replace(" ,", ",") + (f" at {edge.site}" if edge.site else "")
        yield f"rank {rank}: {edge.operation} {edge.what}{size}{f' tag {edge.tag!r}' if edge.tag else ''}{where}; {edge.needs}"
    if len(waiting) > MOST_LINES:
        yield f"and {len(waiting) - MOST_LINES} more ranks wait"
    yield from (f"rank {node.rank}: {node.doing}" for node in graph.nodes if node.status != "blocked" and any(e.dst == node.rank for e in graph.edges))


def _table(graph: WaitGraph) -> str:
    rows: list[tuple[object, ...]] = []
    for node in graph.nodes:
        own = [edge for edge in graph.edges if edge.src == node.rank]
        rows += [(node.rank, f"{e.operation} {e.what}", f"rank {e.dst}", e.tag, e.nbytes or "", e.site, e.needs) for e in own]
        rows += [] if own else [(node.rank, node.doing, "", "", "", "", "")]
    more = f" (first {MOST_ROWS} of {len(rows)} rows)" if len(rows) > MOST_ROWS else ""
    return table(HEAD, rows[:MOST_ROWS], f"Who waits for whom{more}")


# -- the picture -----------------------------------------------------------------------------------------------------


class _Spot(NamedTuple):
    x: float
    y: float


def picture(graph: WaitGraph) -> str:
    """The graph as SVG: the circle first, clockwise from the top, then the others by rank.

    Example:
        >>> picture(WaitGraph((Node(0, "finished", ""),), (), (), ()))[:4]
        '<svg'
    """
    order = [*graph.circle, *(node.rank for node in graph.nodes if node.rank not in graph.circle)]
    spots = {rank: _spot(place, len(order)) for place, rank in enumerate(order)}
    size = f'viewBox="0 0 {WIDTH} {HIGH}" width="{WIDTH}" height="{HIGH}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">', _style(), f'<rect width="{WIDTH}" height="{HIGH}"/>']
    pairs = set(zip(graph.circle, (*graph.circle[1:], *graph.circle[:1]), strict=True))
    shared = {rank: words for rank in spots if (words := _same_words([edge for edge in graph.edges if edge.src == rank]))}
    for edge in sorted(graph.edges, key=lambda edge: (edge.src, edge.dst) in pairs):
        named = len(order) <= MOST_LABELS and edge.src not in shared
        parts.append(_arrow(edge, spots, (edge.src, edge.dst) in pairs, named=named, both=_meets(edge, graph)))
    parts += [_beside(spots[rank], words) for rank, words in shared.items() if len(order) <= MOST_LABELS]
    parts += [_node(node, spots[node.rank], node.rank in graph.first) for node in graph.nodes]
    return "".join([*parts, "</svg>"])


def _meets(edge: Edge, graph: WaitGraph) -> bool:
    """Whether there is an arrow back, so that both must bend."""
    return any((other.src, other.dst) == (edge.dst, edge.src) for other in graph.edges)


def _words(edge: Edge) -> str:
    """What the rank waits in."""
    return f"{edge.operation} {''.join(edge.what.partition(']')[:2])}".strip()


def _same_words(own: list[Edge]) -> str:
    """What a rank waits in that waits for several in one call: said once, beside the rank, since on each arrow it could not be read."""
    words = {_words(edge) for edge in own}
    return words.pop() if len(own) > 1 and len(words) == 1 else ""


def _spot(place: int, count: int) -> _Spot:
    """On an ellipse that leaves room for words at both sides; two side by side."""
    turn = 2 * math.pi * place / max(count, 1) - math.pi / (1 if count == 2 else 2)
    wide, tall = (0.0, 0.0) if count == 1 else (WIDTH / 2 - 120, HIGH / 2 - 52)
    return _Spot(WIDTH / 2 + wide * math.cos(turn), HIGH / 2 + tall * math.sin(turn))


def _style() -> str:
    """Classes in the colours of a light page, and of a dark one where the reader's system is dark; heads of arrows."""

    def rules(theme: int) -> str:
        page = PAGE["dark" if theme else "light"]
        looks: dict[Kind, str] = {"compute": ".running", "span": ".finished", "send": ".blocked"}
        paints = {mark: (STYLES[kind].dark if theme else STYLES[kind].light) for kind, mark in looks.items()}
        nodes = "".join(f"{mark}{{fill:{paint.fill};stroke:{paint.edge}}}{mark}-ink{{fill:{ink(paint.fill)}}}" for mark, paint in paints.items())
        circle, other = CIRCLE[theme], OTHER[theme]
        return (
            f"rect{{fill:{page.fill}}}text{{fill:{page.edge}}}.halo{{stroke:{page.fill}}}.ring{{stroke:{page.edge}}}"
            f".circle{{stroke:{circle}}}.other{{stroke:{other}}}#hc{{fill:{circle}}}#ho{{fill:{other}}}{nodes}"
        )

    head = 'viewBox="0 0 10 10" refX="8" refY="5" markerWidth="13" markerHeight="13" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z"/>'
    marks = "".join(f'<marker id="h{name}" {head}</marker>' for name in ("c", "o"))
    return f"<style>{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}</style><defs>{marks}</defs>"


def _arrow(edge: Edge, spots: dict[int, _Spot], in_circle: bool, *, named: bool, both: bool) -> str:
    """From the rim of one rank to the rim of the other, bent to its left if there is an arrow back, its name on a patch of paper."""
    a, b = spots[edge.src], spots[edge.dst]
    dx, dy = b.x - a.x, b.y - a.y
    far = math.hypot(dx, dy) or 1.0
    ux, uy = dx / far, dy / far
    bend = 0.18 * far + 14 if both else 0.0
    middle = _Spot((a.x + b.x) / 2 + uy * bend, (a.y + b.y) / 2 - ux * bend)
    starts, ends = _rim(a, middle, NODE + 3), _rim(b, middle, NODE + 8)
    name, look = ("c", 'class="circle" stroke-width="3.4"') if in_circle else ("o", 'class="other" stroke-width="1.6" stroke-dasharray="6 4"')
    line = f'<path d="M{starts.x:.1f} {starts.y:.1f}Q{middle.x:.1f} {middle.y:.1f} {ends.x:.1f} {ends.y:.1f}" fill="none" {look} marker-end="url(#h{name})"/>'
    if not named and edge.what:
        return line
    near = 0.32 if both else 0.5  # nearer to the rank that waits where arrows go both ways
    parts = ((1 - near) ** 2, 2 * near * (1 - near), near**2)
    at = _Spot(*(sum(k * spot[axis] for k, spot in zip(parts, (starts, middle, ends), strict=True)) for axis in (0, 1)))
    at = at if edge.what else _Spot(WIDTH / 2, HIGH / 2)
    return line + _written(_words(edge), at, "middle")


def _beside(spot: _Spot, words: str) -> str:
    """Above the uppermost rank, below the others; outwards, as far as the frame has room."""
    aside, wide = spot.x - WIDTH / 2, LETTER * len(words)
    if abs(aside) < NODE:
        return _written(words, _Spot(spot.x, spot.y + (-NODE - 16 if spot.y < HIGH / 2 else NODE + 18)), "middle")
    left = min(spot.x, WIDTH - 6 - wide) if aside > 0 else max(6.0, spot.x - wide)
    return _written(words, _Spot(left, spot.y + NODE + 18), "start")


def _written(words: str, at: _Spot, anchor: str) -> str:
    """Words on a patch of paper."""
    text, words = f'x="{at.x:.1f}" y="{at.y + 4:.1f}" text-anchor="{anchor}"', escape(words)
    return f'<text {text} class="halo" stroke-width="5" stroke-linejoin="round">{words}</text><text {text}>{words}</text>'


def _rim(spot: _Spot, towards: _Spot, away: float) -> _Spot:
    far = math.hypot(towards.x - spot.x, towards.y - spot.y) or 1.0
    return _Spot(spot.x + (towards.x - spot.x) * away / far, spot.y + (towards.y - spot.y) * away / far)


def _node(node: Node, spot: _Spot, first: bool) -> str:
    """A disc for a rank that waits, a square for one that has finished, a rounded square for one that is busy."""
    x, y, r = spot.x, spot.y, NODE

    def shape(size: float, look: str) -> str:
        corner = {"blocked": size, "finished": 3.0, "running": size / 2}[node.status]
        return f'<path d="{_square(x, y, size, corner)}" {look}/>'

    ring = shape(r + 5, 'class="ring" fill="none" stroke-width="2.4"') if first else ""
    words = {"blocked": "waits", "finished": "finished", "running": "busy"}[node.status]
    text = f'x="{x:.1f}" text-anchor="middle" class="{node.status}-ink"'
    inside = f'<text y="{y - 1:.1f}" {text} font-weight="600">rank {node.rank}</text><text y="{y + 13:.1f}" {text} font-size="11">{words}</text>'
    look = f'class="{node.status}" stroke-width="1.6"'
    return f"{ring}{shape(r, look)}{inside}"


def _square(x: float, y: float, half: float, corner: float) -> str:
    """A square with round corners; with corners as large as its half it is a disc."""
    side, arc = 2 * (half - corner), f"a{corner:.1f} {corner:.1f} 0 0 1"
    return (
        f"M{x - half + corner:.1f} {y - half:.1f}h{side:.1f}{arc} {corner:.1f} {corner:.1f}v{side:.1f}{arc} {-corner:.1f} {corner:.1f}"
        f"h{-side:.1f}{arc} {-corner:.1f} {-corner:.1f}v{-side:.1f}{arc} {corner:.1f} {-corner:.1f}z"
    )
