"""A cluster, what is wrong with it, and what that costs: as a still picture, a table and a text; and the parts of it for a browser.

    +ranks 0-7-----------+  +ranks 8-15----------+       makespan 1.2 ms before, 4.1 ms after
    | 0  1  2  3         |  | 8  9 10 11         |        |      _  _  _  _
    | 4  5  6  7         |  |12 13 14 15         |        |_  _  #  #  #  #      a column for each rank: when it is done;
    |====450 GB/s========|  |====================|        |#  #  #  #  #  #      a line on it: when it was, before
    +---------:----------+  +----------+---------+
     x4 slow  :________________________|  50 GB/s

Drawn once, for both: shapes have classes, whose colours are in a style sheet; the still picture brings one for white paper, a browser has
one that follows the page. What can be chosen has its target as ``data-target`` (`partkit.figures.cluster_trouble`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from partkit.figures.bundle import figure, table
from partkit.figures.cluster_map import Map, Place, figures, legend
from partkit.figures.cluster_trouble import Session, Trouble, device_figures
from partkit.figures.units import axis, count, seconds
from partkit.tracing import Trace

WIDTH, CHART, LEFT, HEAD, FOOT = 960, 190, 70, 34, 34
MOST_COLUMNS, MAX_ROWS, LEGEND = 64, 40, 26
STYLE = (
    "text{font:13px sans-serif;fill:#1f2328}.k-box{fill:#eef1f4;stroke:#8b949e}.k-rank{fill:#fff;stroke:#1f2328}.k-name{text-anchor:middle;font-size:12px}"
    ".k-wire{stroke:#0072b2;fill:none}.k-rail{stroke:#0072b2;fill:none;stroke-width:1.5}.k-hit{stroke:transparent;fill:none;stroke-width:14}"
    ".k-slow{stroke:#d55e00;fill:none;stroke-width:4;stroke-dasharray:7 3}"
    ".k-badge{fill:#d55e00;stroke:#fff}.k-badge-text{fill:#fff;font-weight:700;text-anchor:middle}"
    ".k-dead{stroke:#1f2328;stroke-width:3}.k-gone{fill:#8b949e;stroke:#1f2328}.k-same{fill:#0072b2}.k-late{fill:#d55e00}.k-early{fill:#009e73}"
    ".k-before{stroke:#1f2328;stroke-width:2;fill:none}.k-grid{stroke:#1f2328;opacity:.15}.k-line{stroke:#1f2328;fill:none}.k-right{text-anchor:end}"
    ".k-middle{text-anchor:middle}"
)
"""For white paper."""


class Outcome(NamedTuple):
    """How a run on a cluster ended."""

    ends: tuple[float, ...]
    """Seconds after which each rank was done, or stood still for ever."""
    error: str = ""
    """Why it did not end well; empty if it did."""

    @property
    def makespan(self) -> float:
        """Seconds until all ranks were done, or until nothing moved any more."""
        return max(self.ends, default=0.0)


def outcome(trace: Trace, error: str = "") -> Outcome:
    """When each rank was done.

    Example:
        >>> from partkit.tracing import Event
        >>> outcome(Trace.from_events([Event(0, "compute", 0.0, 1.0), Event(1, "compute", 0.0, 3.0)])).ends
        (1.0, 3.0)
    """
    rows, ends = trace.columns, np.zeros(trace.size)
    np.maximum.at(ends, rows["rank"], rows["end"])
    return Outcome(tuple(ends.tolist()), error)


def headline(name: str, session: Session, before: Outcome | None, after: Outcome | None) -> str:
    """What there is, what is wrong, what it costs."""
    head = f"{name}, {count(session.size, 'rank')}"
    wrong = "; ".join(session.told)
    if before is None:
        return f"{head}; {wrong}" if wrong else head
    head = f"{head}: makespan {seconds(before.makespan)}"
    if not wrong or after is None:
        return head + (f"; {before.error}" if before.error else "")
    if after.error:
        return f"{head}; with {wrong}: {after.error}"
    return f"{head}; with {wrong}: {seconds(after.makespan)}, {after.makespan / before.makespan:.3g} times as long" if before.makespan else head


# -- the map ---------------------------------------------------------------------------------------------------------


def map_markup(sheet: Map, wide: float = WIDTH) -> str:
    """Boxes, links, ranks: what does not change."""
    return "".join(_map_parts(sheet, wide))


def _map_parts(sheet: Map, wide: float) -> Iterator[str]:
    roomy = sheet.places[0].side >= 15
    for box in sheet.boxes:
        yield f'<rect class="k-box" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.wide:.1f}" height="{box.high:.1f}" rx="4"/>'
        if roomy and box.wide > 7 * len(box.name):
            yield f'<text x="{box.x + 6:.1f}" y="{box.y + 13:.1f}" style="font-size:11px">{box.name}</text>'
    for rail in sheet.rails:
        yield f'<path class="k-rail" d="{rail}"/>'
    fastest = max((wire.link.bandwidth for wire in sheet.wires), default=1.0)
    for number, wire in enumerate(sheet.wires):
        thick = 2.0 + 4.0 * min(1.0, wire.link.bandwidth / fastest) if sheet.places[0].side > 8 else 1.5
        yield f'<g data-target="wire {number}"><path class="k-wire" stroke-width="{thick:.1f}" d="{wire.path}"/><path class="k-hit" d="{wire.path}"/></g>'
    for rank, (x, y, side) in enumerate(sheet.places):
        name = f'<text class="k-name" x="{x + side / 2:.1f}" y="{y + side / 2 + 4:.1f}">{rank}</text>' if side >= 20 else ""
        square = f'x="{x:.1f}" y="{y:.1f}" width="{side:g}" height="{side:g}" rx="{min(4, side / 4):g}"'
        yield f'<g data-target="rank {rank}"><rect class="k-rank" {square}/>{name}</g>'
    yield f'<text x="6" y="{sheet.high + 14:.1f}">{legend(sheet, wide)}</text>'


def marks_markup(session: Session, sheet: Map) -> str:
    """What is wrong, laid over the map."""
    return "".join(mark for trouble in session.troubles for mark in _mark(session, trouble, sheet))


def _mark(session: Session, trouble: Trouble, sheet: Map) -> Iterator[str]:
    kind, numbers = session.check(trouble.target)
    if kind == "wire":
        path = sheet.wires[numbers[0]].path
        yield f'<path class="k-slow" d="{path}"/>'
        x, y = (float(part) for part in path[1:].replace("V", " ").replace("H", " ").replace("h", " ").replace("L", " ").replace("v", " ").split()[:2])
        yield _badge(x + 14, y, trouble.factor)
        return
    ends = [sheet.places[number] for number in numbers]
    x, y = (sum(getattr(place, name) + place.side / 2 for place in ends) / len(ends) for name in ("x", "y"))
    if kind == "pair":
        a, b = (_middle(place) for place in ends)
        yield f'<path class="k-slow" d="M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}"/>'
    elif trouble.at is not None:
        half = ends[0].side / 2 + 2
        yield f'<rect class="k-gone" x="{x - half + 2:.1f}" y="{y - half + 2:.1f}" width="{ends[0].side:g}" height="{ends[0].side:g}"/>'
        left, right, top, bottom = (f"{edge:.1f}" for edge in (x - half, x + half, y - half, y + half))
        yield f'<path class="k-dead" d="M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}"/>'
        return
    else:
        half = ends[0].side / 2 + (4 if kind == "links" else 1)
        yield f'<rect class="k-slow" x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half:.1f}" height="{2 * half:.1f}"/>'
        x, y = x + ends[0].side / 2, y - ends[0].side / 2
    yield _badge(x, y, trouble.factor)


def _middle(place: Place) -> tuple[float, float]:
    return place.x + place.side / 2, place.y + place.side / 2


def _badge(x: float, y: float, factor: float) -> str:
    text = f"\N{MULTIPLICATION SIGN}{factor:.3g}"
    wide = 9 + 7 * len(text)
    return (
        f'<rect class="k-badge" x="{x - wide / 2:.1f}" y="{y - 9:.1f}" width="{wide}" height="17" rx="8"/>'
        f'<text class="k-badge-text" x="{x:.1f}" y="{y + 4:.1f}" style="font-size:11px">{text}</text>'
    )


# -- when each rank is done ------------------------------------------------------------------------------------------


def chart_markup(before: Outcome, after: Outcome | None, wide: float) -> str:
    """A column for each rank, as high as it takes; many ranks become one outline."""
    return "".join(_chart_parts(before, before if after is None else after, wide, after is not None))


def _chart_parts(before: Outcome, after: Outcome, wide: float, both: bool) -> Iterator[str]:
    most = 1.05 * max(before.makespan, after.makespan) or 1.0
    right, bottom, size = wide - 12, CHART - FOOT, len(after.ends)
    each, scale = (right - LEFT) / size, (CHART - FOOT - HEAD) / most
    words = f"makespan {seconds(before.makespan)}"
    if both:
        words += f" before, stopped after {seconds(after.makespan)}" if after.error else f" before, {seconds(after.makespan)} after"
    if wide >= 500:
        yield '<text x="8" y="16" style="font-weight:600">When each rank is done</text>'
    yield f'<text class="k-right" x="{right:.0f}" y="16">{words}</text>'
    marks = axis(0.0, most, 4)
    for tick, label in zip(marks.ticks, marks.labels, strict=True):
        y = bottom - tick * scale
        yield f'<path class="k-grid" d="M{LEFT} {y:.1f}H{right:.1f}"/>'
        yield f'<text class="k-right" x="{LEFT - 6}" y="{y + 4:.1f}">{label} {marks.unit if tick else ""}</text>'
    yield from _columns(before, after, each, scale, bottom) if size <= MOST_COLUMNS else _outline(before, after, each, scale, bottom)
    step = 1
    while each * step < 26:
        step *= 2
    for rank in range(0, size, step):
        yield f'<text class="k-middle" x="{LEFT + (rank + 0.5) * each:.1f}" y="{bottom + 15}">{rank}</text>'
    yield f'<path class="k-line" d="M{LEFT} {HEAD}V{bottom}H{right:.1f}"/><text class="k-right" x="{right:.0f}" y="{bottom + 29}">rank</text>'


def _columns(before: Outcome, after: Outcome, each: float, scale: float, bottom: float) -> Iterator[str]:
    for rank, (old, new) in enumerate(zip(before.ends, after.ends, strict=True)):
        x, thick = LEFT + (rank + 0.1) * each, each * 0.8
        high, kind = new * scale, _kind(old, new, after.error)
        yield f'<rect data-target="rank {rank}" class="{kind}" x="{x:.1f}" y="{bottom - high:.1f}" width="{thick:.1f}" height="{high:.1f}"/>'
        yield f'<path class="k-before" d="M{x - each * 0.1:.1f} {bottom - old * scale:.1f}h{each:.1f}"/>'


def _kind(old: float, new: float, error: str) -> str:
    if error:
        return "k-gone"
    return "k-same" if abs(new - old) <= 1e-9 * max(old, new) else "k-late" if new > old else "k-early"


def _outline(before: Outcome, after: Outcome, each: float, scale: float, bottom: float) -> Iterator[str]:
    for kind in ("k-same", "k-late", "k-early", "k-gone"):
        ends = [(rank, new) for rank, (old, new) in enumerate(zip(before.ends, after.ends, strict=True)) if _kind(old, new, after.error) == kind]
        bars = "".join(f"M{LEFT + rank * each:.1f} {bottom}v{-new * scale:.1f}h{each:.2f}V{bottom}z" for rank, new in ends)
        yield f'<path class="{kind}" d="{bars}"/>' if bars else ""
    steps = "".join(f"V{bottom - old * scale:.1f}h{each:.3f}" for old in before.ends)
    yield f'<path class="k-before" d="M{LEFT} {bottom - before.ends[0] * scale:.1f}{steps}"/>'


# -- the bundle ------------------------------------------------------------------------------------------------------


def bundle(name: str, session: Session, before: Outcome | None, after: Outcome | None, title: str = "") -> dict[str, str]:
    """The mimebundle of a cluster: picture, table, text."""
    head, sheet = headline(name, session, before, after), session.sheet
    high = sheet.high + LEGEND + (CHART if before is not None else 0)
    chart = f'<g transform="translate(0 {sheet.high + LEGEND:.1f})">{chart_markup(before, after, WIDTH)}</g>' if before is not None else ""
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high:.0f}" width="{WIDTH}" height="{high:.0f}"><style>{STYLE}</style>'
        f'<rect width="{WIDTH}" height="{high:.0f}" fill="#fff"/>{map_markup(sheet)}{marks_markup(session, sheet)}{chart}</svg>'
    )
    ranks, links = rank_rows(session, before, after), link_rows(session)
    tables = [table(ranks[0], ranks[1:], "Ranks"), *([table(links[0], links[1:], "Links")] if len(links) > 1 else [])]
    text = "\n".join([f"{title}: {head}" if title else head, *_aligned(ranks), *(_aligned(links) if len(links) > 1 else ())])
    return {"text/html": figure(svg, f"Cluster: {head}", head, tables, title), "text/plain": text}


def rank_rows(session: Session, before: Outcome | None, after: Outcome | None) -> list[tuple[str, ...]]:
    """A row for ranks that are alike: device, when they are done, what is wrong."""
    told: dict[int, list[str]] = {}
    for trouble, words in zip(session.troubles, session.told, strict=True):
        kind, numbers = session.check(trouble.target)
        if kind in ("rank", "links"):
            told.setdefault(numbers[0], []).append(("its links " if kind == "links" else "") + words.partition(": ")[2])
    groups: dict[tuple[str, ...], list[int]] = {}
    for rank in range(session.size):
        ends = [seconds(one.ends[rank]) if one is not None else "" for one in (before, after if session.troubles else None)]
        groups.setdefault((device_figures(session.cluster.device_of(rank)), *ends, ", ".join(told.get(rank, []))), []).append(rank)
    rows = [(_spelled(ranks), *cells) for cells, ranks in groups.items()]
    more = [(f"and {count(sum(len(ranks) for ranks in list(groups.values())[MAX_ROWS:]), 'more rank')}", "", "", "", "")] if len(rows) > MAX_ROWS else []
    return _used([("ranks", "device", "done after", "with trouble", "what is wrong"), *rows[:MAX_ROWS], *more])


def link_rows(session: Session) -> list[tuple[str, ...]]:
    """A row for each kind of link, and for each one with which something is wrong."""
    told = dict(zip((trouble.target for trouble in session.troubles), session.told, strict=True))
    kinds: dict[tuple[str, str], list[str]] = {}
    for number, wire in enumerate(session.sheet.wires):
        kinds.setdefault((figures(wire.link), told.get(f"wire {number}", "").partition(": ")[2]), []).append(wire.name)
    rows = [(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} like it", *cells) for cells, names in kinds.items()]
    rows += [(session.name(target), "", words.partition(": ")[2]) for target, words in told.items() if target.startswith("pair")]
    return _used([("links", "figures", "what is wrong"), *rows[:MAX_ROWS]])


def _spelled(ranks: Sequence[int]) -> str:
    """``0-7, 9``."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and parts[-1][-1] == rank - 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    shown = ["-".join(map(str, part)) for part in parts[:6]]
    return ", ".join(shown) + (f" ... ({len(ranks)})" if len(parts) > 6 else "")


def _used(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Without the columns that are empty."""
    keep = [k for k in range(len(rows[0])) if any(row[k] for row in rows[1:])]
    return [tuple(row[k] for k in keep) for row in rows]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip() for row in rows]
