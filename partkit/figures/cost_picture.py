"""The costs of a collective's algorithms as a still picture, a table and a text: curves of the model, dots of a run.

Both axes are logarithmic. A line has a colour and a dash pattern, and its name at its end; the strip above says which algorithm is the
fastest where; a ring marks a crossover; a dashed line up marks the size that the table is for. A dot is the median of calls in a
trace, with a bar from the first to the third quartile. Lines are called "model" and dots "measured here" or "simulated", so that
neither is taken for the other. On a wall clock the text holds no times of the dots: it is the same in every run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from partkit.figures.bundle import figure, table
from partkit.figures.cost_explorer import SIZES, Model, cost_row
from partkit.figures.cost_points import WORDS, Point
from partkit.figures.curve_picture import SHAPES, Scale, spread
from partkit.figures.palette import LINES, MARKERS, PAGE, ink
from partkit.figures.units import count, seconds
from partkit.figures.units import nbytes as in_bytes
from partkit.tracing import Clock

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 960, 470, 78, 170, 34, 44
DASHES = ("", "9 4", "3 3", "10 3 3 3")
"""Of lines, as in SVG. As many as have no common divisor with the colours: 20 lines differ."""


class Look(NamedTuple):
    """How an algorithm is drawn, on a light and on a dark page."""

    light: str
    dark: str
    dash: str
    marker: str


class View(NamedTuple):
    """What is shown.

    Attributes:
        points: of any operation and number of ranks; those of the model's are drawn.
        nbytes: the size that the table is for.
        clock: of the points.
    """

    model: Model
    points: Sequence[Point]
    nbytes: int
    clock: Clock = "wall"

    @property
    def shown(self) -> list[Point]:
        """The points that belong to the curves."""
        return [point for point in self.points if (point.operation, point.ranks) == (self.model.operation, self.model.ranks)]

    @property
    def names(self) -> list[str]:
        """The algorithms: those with a model, then others that have a point."""
        return list(dict.fromkeys([*(curve.algorithm for curve in self.model.curves), *(point.algorithm for point in self.shown)]))


def look(number: int) -> Look:
    """Of algorithm ``number`` in the table of costs; those without a model come after all others.

    Example:
        >>> look(0).dash, look(1).dash
        ('', '9 4')
    """
    return Look(*LINES[number % len(LINES)], DASHES[number % len(DASHES)], SHAPES[MARKERS[number % len(MARKERS)]])


def bundle(view: View, title: str = "") -> dict[str, str]:
    """The mimebundle: picture, table, text.

    Example:
        >>> from partkit.cluster import Link
        >>> from partkit.figures.cost_explorer import model
        >>> found = bundle(View(model("barrier", 8, Link(latency=1e-5, bandwidth=1e9)), [], 1000))
        >>> print(found["text/plain"])
        model of barrier, 8 ranks, latency 10 us, bandwidth 1 GB/s
        fastest: dissemination at all sizes
        at 1 kB
            algorithm  messages  bytes  steps     time
        dissemination         3      3      3    30 us
    """
    head, fastest = headline(view), f"fastest: {_bands(view.model)}"
    rows = [("algorithm", "messages", "bytes", "steps", "time"), *_rows(view)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    text = [f"{title}: {head}" if title else head, fastest, f"at {in_bytes(view.nbytes)}", *lines]
    caption = f"{head}; {fastest}"
    return {"text/html": figure(svg(view), f"Costs: {caption}", caption, _tables(view), title), "text/plain": "\n".join(text)}


def headline(view: View) -> str:
    """What is the model and what is not, in a line that is the same in every run of the same program."""
    found, shown = view.model, view.shown
    link = f"latency {seconds(found.link.latency)}, bandwidth {rate(found.link.bandwidth)}"
    dots = f"; {WORDS[view.clock]}: {count(sum(point.runs for point in shown), 'call')} as {count(len(shown), 'dot')}" if shown else ""
    shared = "" if found.link.channels is None else f", {count(found.link.channels, 'shared channel')}"
    return f"model of {found.operation}, {count(found.ranks, 'rank')}, {link}{shared}{dots}"


def rate(bandwidth: float) -> str:
    """Bytes per second with three digits.

    Example:
        >>> rate(2e9), rate(math.inf)
        ('2 GB/s', 'without limit')
    """
    return f"{in_bytes(round(bandwidth))}/s" if math.isfinite(bandwidth) else "without limit"


def _bands(found: Model) -> str:
    """``naive up to 12 kB, then ring``."""
    if len(found.bands) == 1:
        return f"{found.bands[0].name} at all sizes"
    parts = [f"{band.name} up to {in_bytes(round(band.high))}" for band in found.bands[:-1]]
    return ", then ".join([*parts, found.bands[-1].name])


def _rows(view: View) -> list[tuple[str, ...]]:
    """Costs at the chosen size."""
    rows = (cost_row(curve.algorithm, view.model.cost(curve.algorithm, view.nbytes)) for curve in view.model.curves)
    return [(row["name"], f"{row['messages']:,}", f"{row['bytes']:,}", f"{row['steps']:,}", seconds(row["seconds"])) for row in rows]


def _tables(view: View) -> Iterator[str]:
    head = ("algorithm", "messages of a rank", "bytes of a rank", "steps", "time in the model")
    yield table(head, _rows(view), f"At {in_bytes(view.nbytes)}; of ranks that differ, the one that sends most")
    if view.shown:
        rows = [
            (p.algorithm, in_bytes(p.nbytes), p.runs, seconds(p.median), f"{seconds(p.low)} to {seconds(p.high)}")
            for p in sorted(view.shown, key=lambda p: (p.nbytes, p.algorithm))
        ]
        yield table(("algorithm", "size", "calls", "median", "middle half"), rows, WORDS[view.clock].capitalize())


# -- the picture -----------------------------------------------------------------------------------------------------


class _Paper(NamedTuple):
    """Scales, and where they are."""

    across: Scale
    up: Scale

    def x(self, nbytes: float) -> float:
        return LEFT + math.log(nbytes / self.across.low) / math.log(self.across.high / self.across.low) * (WIDTH - LEFT - RIGHT)

    def y(self, time: float) -> float:
        bottom = HEIGHT - FOOT
        return bottom - math.log(time / self.up.low) / math.log(self.up.high / self.up.low) * (bottom - TOP)


def time_scale(view: View) -> Scale:
    """From below the shortest time to above the longest, whole powers of ten."""
    times = [float(t) for curve in view.model.curves for t in curve.seconds[[0, -1]] if t > 0]
    times += [t for point in view.shown for t in (point.low, point.high) if t > 0]
    low, high = min(times, default=1e-6), max(times, default=1.0)
    return Scale(10.0 ** math.floor(math.log10(low * 0.8)), 10.0 ** math.ceil(math.log10(high * 1.1)), True)


def svg(view: View) -> str:
    """The picture, for white paper."""
    paper, page = _Paper(Scale(float(SIZES[0]), float(SIZES[-1]), True), time_scale(view)), PAGE["light"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="13" fill="{page.edge}"><rect width="{WIDTH}" height="{HEIGHT}" fill="{page.fill}"/>',
        *_frame(paper),
        *_strip(view, paper),
        *_curves(view, paper),
        *_crossovers(view.model, paper),
        *_dots(view, paper),
        "</svg>",
    ]
    return "".join(parts)


def _frame(paper: _Paper) -> Iterator[str]:
    """Grid, numbers and names of the axes."""
    right, bottom = WIDTH - RIGHT, HEIGHT - FOOT
    for k in range(round(math.log10(paper.across.low)), round(math.log10(paper.across.high)) + 1):
        x = paper.x(10.0**k)
        yield f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#000" opacity=".13"/><text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{size_tick(k)}</text>'
    for k in range(round(math.log10(paper.up.low)), round(math.log10(paper.up.high)) + 1):
        y = paper.y(10.0**k)
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#000" opacity=".13"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4.5:.1f}" text-anchor="end">{seconds(10.0**k)}</text>'
    yield f'<path d="M{LEFT} {TOP}V{bottom}H{right}" stroke="{PAGE["light"].edge}" fill="none"/>'
    yield f'<text x="{(LEFT + right) / 2:g}" y="{HEIGHT - 8}" text-anchor="middle" font-weight="600">bytes of the tensor</text>'
    yield f'<text transform="translate(16 {(TOP + bottom) / 2:g}) rotate(-90)" text-anchor="middle" font-weight="600">time</text>'


def size_tick(power: int) -> str:
    """A power of ten of bytes: ``1 B``, ``10 kB``."""
    return f"{10 ** (power % 3)} {('', 'k', 'M', 'G', 'T')[power // 3]}B"


def _strip(view: View, paper: _Paper) -> Iterator[str]:
    """Which algorithm is the fastest where."""
    yield f'<text x="{LEFT - 8}" y="{TOP - 12}" text-anchor="end" font-weight="600">fastest</text>'
    for band in view.model.bands:
        x, wide = paper.x(band.low), paper.x(band.high) - paper.x(band.low)
        color = look(view.names.index(band.algorithm)).light
        yield f'<rect x="{x:.1f}" y="{TOP - 28}" width="{max(wide - 1, 0.5):.1f}" height="22" fill="{color}"/>'
        yield f'<rect x="{x:.1f}" y="{TOP}" width="{max(wide - 1, 0.5):.1f}" height="{HEIGHT - FOOT - TOP}" fill="{color}" opacity=".06"/>'
        name = next((name for name in (band.name, band.algorithm) if wide > 7.5 * len(name) + 8), "")  # of equals the first, if there is no room for all
        if name:
            yield f'<text x="{x + wide / 2:.1f}" y="{TOP - 12.5}" text-anchor="middle" font-weight="600" fill="{ink(color)}">{name}</text>'


def _curves(view: View, paper: _Paper) -> Iterator[str]:
    """The lines and their names, and the size that the table is for."""
    x = paper.x(view.nbytes)
    yield f'<path d="M{x:.1f} {TOP}V{HEIGHT - FOOT}" stroke="#000" stroke-dasharray="2 4"/>'
    ends = []
    for number, curve in enumerate(view.model.curves):
        places = [f"{paper.x(size):.1f} {paper.y(time):.1f}" for size, time in zip(SIZES.tolist(), curve.seconds.tolist(), strict=True) if time > 0]
        style = look(number)
        if places:
            yield f'<path d="M{"L".join(places)}" stroke="{style.light}" stroke-width="2.5" stroke-dasharray="{style.dash}" fill="none"/>'
        ends.append(paper.y(float(curve.seconds[-1])) if curve.seconds[-1] > 0 else float(HEIGHT - FOOT))
    for number, y in enumerate(spread(ends, 17.0, float(HEIGHT - FOOT))):
        if math.isfinite(y):
            style, start = look(number), WIDTH - RIGHT + 4
            yield f'<path d="M{start} {y:.1f}h26" stroke="{style.light}" stroke-width="2.5" stroke-dasharray="{style.dash}"/>'
            if view.shown:
                yield f'<path transform="translate({start + 13} {y:.1f})" d="{style.marker}" fill="{style.light}"/>'
            yield f'<text x="{start + 32}" y="{y + 4.5:.1f}">{view.model.curves[number].algorithm}</text>'
    yield f'<text x="{WIDTH - RIGHT + 28}" y="{HEIGHT - FOOT + 17}" font-weight="600">lines: model</text>'


def _crossovers(found: Model, paper: _Paper) -> Iterator[str]:
    """A ring and the size where the fastest algorithm changes."""
    for crossover in found.crossovers:
        x, y = paper.x(crossover.nbytes), paper.y(crossover.seconds)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="#000" stroke-width="2"/>'
        halo = 'stroke="#fff" stroke-width="4" paint-order="stroke"'
        yield f'<text x="{x - 8:.1f}" y="{y - 10:.1f}" text-anchor="end" font-weight="600" {halo}>{in_bytes(round(crossover.nbytes))}</text>'


def _dots(view: View, paper: _Paper) -> Iterator[str]:
    """The points, and what they are."""
    for point in view.shown:
        style, x = look(view.names.index(point.algorithm)), paper.x(min(max(point.nbytes, SIZES[0]), SIZES[-1]))
        yield f'<path d="M{x:.1f} {paper.y(point.low):.1f}V{paper.y(point.high):.1f}" stroke="{style.light}" stroke-width="3" opacity=".5"/>'
        yield f'<path transform="translate({x:.1f} {paper.y(point.median):.1f})" d="{style.marker}" fill="{style.light}" stroke="#fff"/>'
    if view.shown:
        start = WIDTH - RIGHT + 4
        yield f'<text x="{start + 24}" y="{HEIGHT - FOOT + 34}" font-weight="600">dots: {WORDS[view.clock]}</text>'
        extra = [name for name in view.names if name not in {curve.algorithm for curve in view.model.curves}]
        for k, name in enumerate(extra):
            style = look(view.names.index(name))
            yield f'<path transform="translate({start + 13} {TOP - 22 + 17 * k})" d="{style.marker}" fill="{style.light}"/>'
            yield f'<text x="{start + 32}" y="{TOP - 17.5 + 17 * k}">{name} (no model)</text>'
