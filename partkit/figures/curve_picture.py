"""Lines of metrics as a still picture, a table and a text.

A panel a metric, each with its own scale, since a loss and an accuracy share neither unit nor range. A line ends in its name, and
has a colour and a marker that belong to its lowest rank, so that rank 2 looks the same in every panel and without colour.
The text holds no times: it is the same in every run that computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from partkit.figures.bundle import figure, table
from partkit.figures.curve import Line, Notes, Numbers, condense
from partkit.figures.palette import LINES, MARKERS, PAGE
from partkit.figures.units import CLOCK_NAMES, axis, count, round_numbers
from partkit.tracing import Trace

XAxis = Literal["step", "seconds"]
WIDTH, LEFT, RIGHT, HEAD, FOOT = 960, 62, 110, 24, 24
MAX_LINES, MAX_ROWS, MAX_POINTS, MARKER_GAP = 16, 40, 800, 90
MOST = 1e280
"""Numbers beyond it, or nearer to 0 than its inverse on a logarithmic scale, are drawn outside the picture."""
SHAPES = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-3.5-3.5h7v7h-7z",
    "triangle": "M0-4.5L4.5 3.5h-9z",
    "diamond": "M0-5L5 0L0 5L-5 0z",
}
"""Outlines of the markers round (0, 0), as SVG paths."""


class Scale(NamedTuple):
    """From numbers to a place between 0 and 1."""

    low: float
    high: float
    log: bool = False

    def __call__(self, numbers: Numbers) -> Numbers:
        """Where the numbers are; NaN for what has no place, such as 0 on a logarithmic scale."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high, at = (np.log10(n) if self.log else np.asarray(n) for n in (self.low, self.high, numbers))
            place: Numbers = np.where(np.isfinite(at), (at - low) / (high - low), np.nan)
        return place

    def ticks(self, rough: int) -> list[float]:
        """About ``rough`` round numbers; on a logarithmic scale powers of ten, or 1, 2, 5 times them, if that gives three."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1) if self.log else ()
        for digits in ((1,), (1, 2, 5)):
            found = [digit * 10.0**k for k in powers for digit in digits if self.low <= digit * 10.0**k <= self.high]
            if len(found) >= 3:
                return found[:: -(-len(found) // max(rough, 3))]
        return list(round_numbers(self.low, self.high, (self.high - self.low) / max(rough, 1)))


def scale(values: Numbers, *, log: bool = False) -> Scale:
    """A scale with room round the finite values, from 0 if that is not far below them.

    Example:
        >>> scale(np.array([0.1, 2.0])).low, scale(np.array([0.9, 1.0])).low > 0.85
        (0.0, True)
    """
    shown = np.clip(values[np.isfinite(values) & ((values > 0) | (not log))], -MOST, MOST)
    low, high = (float(shown.min()), float(shown.max())) if len(shown) else (0.1, 1.0)
    if log:
        low, high = math.log10(max(low, 1 / MOST)), math.log10(max(high, 1 / MOST))
        room = max(0.05 * (high - low), 0.08 if high > low else 0.5)
        return Scale(10.0 ** (low - room), 10.0 ** (high + room), True)
    room = 0.05 * (high - low) or abs(low) * 0.1 or 1.0
    return Scale(0.0 if 0 <= low <= 0.35 * high else low - room, high + room)


def bundle(trace: Trace, names: Sequence[str] = (), *, x: XAxis = "step", log: bool = False, title: str = "") -> dict[str, str]:
    """The mimebundle of a trace's metrics: picture, table, text; under 100 kB."""
    notes = Notes(trace, tuple(names))
    notes.update()
    found = notes.lines()
    band = "band: lowest to highest, line: mean" if any(len(line.values) > MAX_POINTS for line in found) else ""
    head = "; ".join(filter(None, (headline(trace, found), notes.unknown())))
    caption = "; ".join(filter(None, (head, band)))
    words = [f"{line.name} of {line.label}: {_fact(line)}" for line in found[:MAX_LINES]]
    tables = [summary_table(found), step_table(found)] if found else []
    return {
        "text/html": figure(svg(trace, found, names, x=x, log=log), f"Curve of {'; '.join([caption, *words])}", caption, tables, title),
        "text/plain": plain_text(head, found, title),
    }


def headline(trace: Trace, found: list[Line]) -> str:
    """``loss and accuracy, 480 values of 4 ranks``; the same in every run."""
    names = list(dict.fromkeys(line.name for line in found))
    what = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    number = sum(len(line.values) * len(line.ranks) for line in found)
    noted = f"{what}, {count(number, 'value')} of {count(trace.size, 'rank')}" if found else "no metric noted with comm.log"
    return noted + ("" if trace.finished.is_set() else "; still running")


def plain_text(head: str, found: list[Line], title: str = "") -> str:
    """The head, then per line the number of values, the first, the last, the minimum and its step, with four digits.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "metric", t, t, tag="loss", value=1 / (1 + t)) for t in range(3)])
        >>> print(bundle(trace)["text/plain"])
        loss, 3 values of 1 rank
        metric   ranks  values  first    last  minimum  at step
          loss  rank 0       3      1  0.3333   0.3333        3
    """
    head = f"{title}: {head}" if title else head
    if not found:
        return head
    rows = [("metric", "ranks", "values", "first", "last", "minimum", "at step"), *(_row(line) for line in found[:MAX_LINES])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    more = [f"... and {count(len(found) - MAX_LINES, 'line')} more"] if len(found) > MAX_LINES else []
    return "\n".join([head, *("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows), *more])


def summary_table(found: list[Line]) -> str:
    """HTML: what `plain_text` says."""
    head = ("metric", "ranks", "values", "first", "last", "minimum", "at step")
    return table(head, map(_row, found[:MAX_LINES]), count(len(found), "line"))


def step_table(found: list[Line]) -> str:
    """HTML: a row a step, evenly chosen if there are many, a column a line."""
    longest = max(len(line.values) for line in found)
    steps = np.unique(np.linspace(1, longest, min(longest, MAX_ROWS)).round().astype(int)).tolist()
    shown = found[:MAX_LINES]
    rows = [(step, *(digits(line.values[step - 1]) if step <= len(line.values) else "" for line in shown)) for step in steps]
    caption = "Values" if len(steps) == longest else f"Values at {len(steps)} of {longest:,} steps"
    return table(("step", *(f"{line.name}, {line.label}" for line in shown)), rows, caption)


def digits(value: float) -> str:
    """Four significant digits.

    Example:
        >>> digits(2.302585), digits(12345.678), digits(float("nan"))
        ('2.303', '12346', 'nan')
    """
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def _row(line: Line) -> tuple[str, ...]:
    finite = np.flatnonzero(np.isfinite(line.values))
    lowest = int(finite[line.values[finite].argmin()]) if len(finite) else 0
    return (line.name, line.label, f"{len(line.values):,}", *(digits(line.values[i]) for i in (0, -1, lowest)), f"{lowest + 1:,}")


def _fact(line: Line) -> str:
    _, _, number, first, last, lowest, step = _row(line)
    return f"{number} values from {first} to {last}, minimum {lowest} at step {step}"


# -- the picture -----------------------------------------------------------------------------------------------------


def svg(trace: Trace, found: list[Line], names: Sequence[str] = (), *, x: XAxis = "step", log: bool = False) -> str:
    """The panels, for white paper."""
    panels = list(dict.fromkeys([*names, *(line.name for line in found)])) or [""]
    tall = panel_height(len(panels))
    height = len(panels) * tall + 20
    times = np.concatenate([line.times for line in found]) if found else np.zeros(0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" fill="{PAGE["light"].edge}"><rect width="{WIDTH}" height="{height}" fill="{PAGE["light"].fill}"/>'
    ]
    for i, name in enumerate(panels):
        own = [line for line in found if line.name == name]
        longest = max((len(line.values) for line in own), default=1)
        across = scale(times) if x == "seconds" else Scale(1.0 if longest > 1 else 0.0, max(longest, 2))
        up = scale(np.concatenate([line.values for line in own]) if own else np.zeros(0), log=log)
        parts += [f'<g transform="translate(0 {i * tall})">', *_frame(name, across, up, tall, x, empty=not own), *_lines(own, across, up, tall, x), "</g>"]
    unit = f"{axis(across.low, across.high, 8).unit}, {CLOCK_NAMES[trace.clock]}" if x == "seconds" else "step"
    return "".join([*parts, f'<text x="{WIDTH - RIGHT}" y="{height - 8}" text-anchor="end">{unit}</text></svg>'])


def panel_height(number: int) -> int:
    """Pixels for each of some panels."""
    return max(120, {1: 260, 2: 180}.get(number, 150))


def _frame(name: str, across: Scale, up: Scale, tall: int, x: XAxis, *, empty: bool) -> Iterator[str]:
    """Heading, grid and numbers of the axes."""
    bottom, wide = tall - FOOT, WIDTH - LEFT - RIGHT
    yield f'<text x="{LEFT - 46}" y="15" font-weight="600">{escape(name)}{", logarithmic" if up.log else ""}</text>'
    for tick in up.ticks((bottom - HEAD) // 40):
        y = bottom - float(up(np.array(tick))) * (bottom - HEAD)
        yield f'<path d="M{LEFT} {y:.1f}h{wide}" stroke="#000" opacity=".13"/><text x="{LEFT - 8}" y="{y + 4.5:.1f}" text-anchor="end">{tick:.5g}</text>'
    marks = axis(across.low, across.high, 8)
    labels = marks.labels if x == "seconds" else tuple(f"{tick:,.0f}" for tick in marks.ticks)
    for tick, label in zip(marks.ticks, labels, strict=True):
        at = LEFT + float(across(np.array(tick))) * wide
        if x == "seconds" or tick == round(tick):
            yield f'<path d="M{at:.1f} {HEAD}V{bottom + 4}" stroke="#000" opacity=".13"/>'
            yield f'<text x="{at:.1f}" y="{bottom + 17}" text-anchor="middle">{label}</text>'
    yield f'<path d="M{LEFT} {HEAD}V{bottom}h{wide}" stroke="{PAGE["light"].edge}" fill="none"/>'
    if empty:
        yield f'<text x="{LEFT + wide / 2}" y="{(HEAD + bottom) / 2 + 4}" text-anchor="middle">no values</text>'


def _lines(own: list[Line], across: Scale, up: Scale, tall: int, x: XAxis) -> Iterator[str]:
    """Bands, then lines with their markers, then their names at their ends."""
    bottom, wide = tall - FOOT, WIDTH - LEFT - RIGHT
    bands, strokes, ends = [], [], []
    for line in own:
        at, value = line.times if x == "seconds" else np.arange(1.0, len(line.values) + 1), line.values
        color, marker = look(line)
        if len(value) > MAX_POINTS:
            at, low, value, high = condense(at, value, max(8, MAX_POINTS // (len(own) + 1)))
            edges = (bottom - np.clip(up(side), 0, 1) * (bottom - HEAD) for side in (low, high))
            bands.append(f'<path d="{_outline(LEFT + across(at) * wide, *edges)}" fill="{color}" opacity=".22"/>')
        xs, ys = LEFT + across(at) * wide, bottom - up(value) * (bottom - HEAD)
        strokes.append(f'<path d="{_path(xs, ys)}" stroke="{color}" stroke-width="2" stroke-linejoin="round" fill="none"/>')
        strokes += [_mark(marker, color, xs[i], ys[i]) for i in _marked(xs, ys, line.ranks[0])]
        ends.append(float(ys[np.isfinite(ys)][-1]) if np.isfinite(ys).any() else math.nan)
    yield from (*bands, *strokes)
    for line, y in zip(own, spread(ends, 15.0, bottom), strict=True):
        if math.isfinite(y):
            color, marker = look(line)
            yield f'{_mark(marker, color, WIDTH - RIGHT + 12, y)}<text x="{WIDTH - RIGHT + 22}" y="{y + 4.5:.1f}">{line.label}</text>'


def _mark(marker: str, color: str, x: float, y: float) -> str:
    return f'<path transform="translate({x:.1f} {y:.1f})" d="{SHAPES[marker]}" fill="{color}"/>'


def look(line: Line) -> tuple[str, str]:
    """Colour on white and name of the marker."""
    rank = line.ranks[0]
    return LINES[rank % len(LINES)][0], MARKERS[rank % len(MARKERS)]


def spread(places: list[float], gap: float, bottom: float) -> list[float]:
    """The places moved apart until neighbours have ``gap`` between them; NaN for those that find no room above ``bottom``.

    Example:
        >>> spread([10.0, 12.0, 50.0], 15.0, 100.0)
        [3.5, 18.5, 50.0]
    """
    order = sorted((i for i, y in enumerate(places) if math.isfinite(y)), key=lambda i: places[i])
    out = [math.nan] * len(places)
    groups: list[list[int]] = []
    for i in order[: int(bottom // gap)]:
        groups.append([i])
        while len(groups) > 1 and _top(groups[-1], places, gap, bottom) < _top(groups[-2], places, gap, bottom) + gap * len(groups[-2]):
            last = groups.pop()
            groups[-1] += last
    for group in groups:
        for k, i in enumerate(group):
            out[i] = _top(group, places, gap, bottom) + gap * k
    return out


def _top(group: list[int], places: list[float], gap: float, bottom: float) -> float:
    """Where the first of neighbours that touch is, if their middle is where they want to be."""
    tall = gap * (len(group) - 1)
    return max(0.0, min(bottom - tall, sum(places[i] for i in group) / len(group) - tall / 2))


def _path(xs: Numbers, ys: Numbers) -> str:
    """An SVG path with gaps where a point has no place."""
    out, pen = [], "M"
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if math.isfinite(y):
            out.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L" if math.isfinite(y) else "M"
    return "".join(out)


def _outline(xs: Numbers, lows: Numbers, highs: Numbers) -> str:
    """The SVG path round a band: there along the top, back along the bottom."""
    shown = np.isfinite(lows) & np.isfinite(highs)
    return _path(np.concatenate((xs[shown], xs[shown][::-1])), np.concatenate((highs[shown], lows[shown][::-1])))


def _marked(xs: Numbers, ys: Numbers, rank: int) -> list[int]:
    """Points that get a marker: all of a few, else one every `MARKER_GAP` pixels, at other places for each rank."""
    shown = np.flatnonzero(np.isfinite(ys))
    if len(shown) * 24 <= WIDTH - LEFT - RIGHT:
        found: list[int] = shown.tolist()
        return found
    slot = np.floor((xs[shown] - LEFT + rank % 4 * MARKER_GAP / 4) / MARKER_GAP)
    first: list[int] = shown[np.flatnonzero(np.diff(slot, prepend=-1.0))].tolist()
    return first
