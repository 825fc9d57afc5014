"""A trace as one still SVG image, small whatever the trace: at most 40 kB for a million events as for a hundred.

    up to 400 events   every bar with its outline and name, every message an arrow
    more               per lane and kind the stretches of pixels that are busy, merged until the whole is small enough:
                       "m4 0h2m7 0h3": skip 4, draw 2, skip 7, draw 3

More than `MAX_ROWS` ranks share rows. What was merged is said in the picture's note. Colours are for white paper, since an image
cannot know the page that it is on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from partkit.figures.lanes import LANES, MAX_RANKS, Lanes
from partkit.figures.palette import PAGE, STYLES, ink
from partkit.figures.units import axis, clock_name, seconds
from partkit.figures.units import nbytes as in_bytes
from partkit.tracing import KIND_CODE, KINDS, Columns, Kind, Trace
from partkit.tracing.memory import PREFIX

WIDTH, GUTTER, TOP, AXIS = 960, 62, 26, 36
MAX_BARS, MAX_ARROWS, MAX_LABELS, MAX_PATHS, MAX_ROWS, MAX_OUTLINES = 400, 150, 150, 26_000, 64, 100
_ORDER: tuple[Kind, ...] = ("span", "collective", "compute", "send", "recv", "metric")
"""What is painted first."""


class Picture(NamedTuple):
    """A still picture."""

    svg: str
    note: str
    """What the picture leaves out; empty if nothing."""


Outline = Sequence[Sequence[float]]
"""``(row of trace.columns, start, end)`` for each stretch."""


class _Layout(NamedTuple):
    rows: Columns
    places: npt.NDArray[np.int64]
    """Row of the picture * LANES + lane, for each event."""
    fold: int
    """Ranks that share a row."""
    num_rows: int
    lanes: list[int]
    """Lanes that are used."""
    begin: float
    scale: float
    """Pixels a second."""
    height: float

    @property
    def plot(self) -> float:
        return WIDTH - GUTTER - 10

    def x(self, time: float) -> float:
        return GUTTER + (time - self.begin) * self.scale

    def y(self, place: int) -> tuple[float, float]:
        """Top and height of a lane."""
        row, lane = divmod(place, LANES)
        each = self.height / self.num_rows
        gap = 6 if each > 16 else 1
        tall = (each - gap) / len(self.lanes)
        return TOP + row * each + gap / 2 + self.lanes.index(lane) * tall, tall


def timeline_svg(trace: Trace, outlined: Outline = ()) -> Picture:
    """Draw a trace.

    Args:
        trace: in any clock.
        outlined: stretches of bars that get a thick outline: the critical path (`partkit.figures.path`).

    Example:
        >>> from partkit.tracing import Event
        >>> timeline_svg(Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="forward")])).svg[:4]
        '<svg'
    """
    trace, outlined = _without_memory(trace, outlined)
    layout = _lay_out(trace)
    notes = [f"each row shows {layout.fold} ranks"] if layout.fold > 1 else []
    if len(layout.rows) <= MAX_BARS:
        drawing = [*_bars(layout), *_arrows(layout, trace), *_labels(layout, trace)]
    else:
        drawing, merged = _stretches(layout)
        notes.append(f"bars closer than {seconds(merged)} are merged")
    drawing += _outlines(layout, outlined)
    page = PAGE["light"]
    height = TOP + layout.height + AXIS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_number(height)}" width="{WIDTH}" height="{_number(height)}" '
        f'font-family="sans-serif" font-size="12" fill="{page.edge}">',
        f'<rect width="{WIDTH}" height="{_number(height)}" fill="{page.fill}"/>',
        *_patterns(),
        *_legend(set(layout.rows["kind"].tolist())),
        *_frame(layout, trace),
        *drawing,
        "</svg>",
    ]
    return Picture("".join(parts), "; ".join(notes))


def _without_memory(trace: Trace, outlined: Outline) -> tuple[Trace, Outline]:
    """Numbers about memory have a picture of their own (`partkit.figures.memory`), and would fill a lane of this one with marks."""
    about_memory = [number for number, text in enumerate(list(trace.strings)) if text.startswith(PREFIX)]
    rows = trace.columns
    kept = (rows["kind"] != KIND_CODE["metric"]) | ~np.isin(rows["tag"], about_memory)
    if kept.all():
        return trace, outlined
    shown = Trace.from_columns(rows[kept], trace.strings, size=trace.size, clock=trace.clock)
    shown.replayed = trace.replayed
    number = np.cumsum(kept) - 1
    return shown, [(int(number[int(row)]), start, end) for row, start, end in outlined]


def _lay_out(trace: Trace) -> _Layout:
    rows = trace.columns
    rows = rows[rows["rank"] < MAX_RANKS]
    place = Lanes(min(max(trace.size, 1), MAX_RANKS)).place(rows, trace.strings).astype(np.int64)
    fold = -(-max(trace.size, 1) // MAX_ROWS)
    lanes = [lane for lane, used in enumerate(np.bincount(place % LANES, minlength=LANES)) if used] or [0]
    num_rows = -(-max(trace.size, 1) // fold)
    begin = min(0.0, float(rows["start"].min())) if len(rows) else 0.0
    length = (float(rows["end"].max()) - begin if len(rows) else 0.0) or 1.0
    height = float(min(max(num_rows * max(30, 17 * len(lanes) + 8), 60), max(400, num_rows * (len(lanes) + 1) * 2)))
    return _Layout(rows, place // LANES // fold * LANES + place % LANES, fold, num_rows, lanes, begin, (WIDTH - GUTTER - 10) / length, height)


def _frame(layout: _Layout, trace: Trace) -> Iterator[str]:
    """Row names and the axis."""
    each, bottom = layout.height / layout.num_rows, TOP + layout.height
    step = max(1, -(-14 // max(1, int(each))))
    stripes = (f"M{GUTTER} {_number(TOP + row * each)}h{_number(layout.plot)}v{_number(each)}H{GUTTER}z" for row in range(0, layout.num_rows, 2))
    if each > 5:
        yield f'<path d="{"".join(stripes)}" opacity=".05"/>'
    for row in range(layout.num_rows):
        if row % step == 0:
            yield f'<text x="{GUTTER - 8}" y="{_number(TOP + (row + 0.5) * each + 4)}" text-anchor="end">rank {row * layout.fold}</text>'
    marks = axis(layout.begin, layout.begin + layout.plot / layout.scale, 8)
    for tick, label in zip(marks.ticks, marks.labels, strict=True):
        x = _number(layout.x(tick))
        yield f'<path d="M{x} {TOP}V{_number(bottom + 4)}" stroke="#000" opacity=".15"/>'
        yield f'<text x="{x}" y="{_number(bottom + 17)}" text-anchor="middle">{label}</text>'
    yield f'<path d="M{GUTTER} {_number(bottom)}h{_number(layout.plot)}" stroke="#1f2328"/>'
    yield f'<text x="{WIDTH - 10}" y="{_number(bottom + 32)}" text-anchor="end">{marks.unit}, {clock_name(trace)}</text>'


def _patterns() -> Iterator[str]:
    """Fill and hatch of each kind, under the name of its letter."""
    yield "<defs>"
    size = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse"'
    yield f'<marker id="head" {size} orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
    for style in STYLES.values():
        lines = {"": "", "/": "M0 8L8 0", "\\": "M0 0L8 8", "x": "M0 8L8 0M0 0L8 8"}[style.hatch]
        hatch = f'<path d="{lines}" stroke="{style.light.edge}" opacity=".5"/>' if lines else ""
        tile = f'<rect width="8" height="8" fill="{style.light.fill}"/>{hatch}'
        yield f'<pattern id="{style.letter}" width="8" height="8" patternUnits="userSpaceOnUse">{tile}</pattern>'
    yield "</defs>"


def _legend(held: set[int]) -> Iterator[str]:
    """The letter and the name of each kind that the trace holds."""
    x = GUTTER
    for kind in (kind for kind in KINDS if KIND_CODE[kind] in held):
        style = STYLES[kind]
        yield f'<rect x="{x}" y="4" width="18" height="15" fill="url(#{style.letter})" stroke="{style.light.edge}"/>'
        yield f'<text x="{x + 9}" y="15.5" text-anchor="middle" font-size="11" font-weight="600" fill="{ink(style.light.fill)}">{style.letter}</text>'
        yield f'<text x="{x + 23}" y="16">{kind}</text>'
        x += 44 + 7 * len(kind)


def _boxes(layout: _Layout) -> list[tuple[float, float, float, float]]:
    """x, y, width, height of each event."""
    out = []
    for row, place in zip(layout.rows, layout.places.tolist(), strict=True):
        y, tall = layout.y(place)
        least = 3.0 if row["kind"] == KIND_CODE["metric"] else 1.0  # a metric is a moment
        out.append((layout.x(float(row["start"])), y, max(least, float(row["end"] - row["start"]) * layout.scale), max(1.0, tall - 1)))
    return out


def _bars(layout: _Layout) -> Iterator[str]:
    boxes = _boxes(layout)
    for kind in _ORDER:
        chosen = [box for box, code in zip(boxes, layout.rows["kind"].tolist(), strict=True) if code == KIND_CODE[kind]]
        path = "".join(f"M{_number(x)} {_number(y)}h{_number(w)}v{_number(h)}h{_number(-w)}z" for x, y, w, h in chosen)
        if path:
            yield f'<path d="{path}" fill="url(#{STYLES[kind].letter})" stroke="{STYLES[kind].light.edge}"/>'


def _labels(layout: _Layout, trace: Trace) -> Iterator[str]:
    """Names in the bars that have room for them, on a patch of the bar's colour so that the hatch does not cross them."""
    shown = 0
    for row, (x, y, w, h) in zip(layout.rows, _boxes(layout), strict=True):
        style, size = STYLES[KINDS[row["kind"]]], min(12.0, h - 1)
        room = int((w - 4) / (size * 0.58)) if size >= 7 else 0
        if room < 1 or shown == MAX_LABELS:
            continue
        message = row["kind"] in (KIND_CODE["send"], KIND_CODE["recv"])
        full = f"{style.letter} {in_bytes(int(row['nbytes']))} {trace.strings[row['tag']]}" if message else trace.strings[row["tag"]] or style.letter
        text = full if len(full) <= room else style.letter if room < 4 else full[: room - 1] + "…"
        shown += 1
        yield (
            f'<text x="{_number(x + 3)}" y="{_number(y + h / 2 + size * 0.36)}" font-size="{_number(size)}" fill="{ink(style.light.fill)}" '
            f'stroke="{style.light.fill}" stroke-width="3" paint-order="stroke">{escape(text)}</text>'
        )


def _arrows(layout: _Layout, trace: Trace) -> Iterator[str]:
    """From the moment when both sides are there to the moment when the receiver has it."""
    pairs = trace.pairs()
    if not 0 < len(pairs) <= MAX_ARROWS or trace.size > MAX_RANKS:
        return
    rows, lines = trace.columns, []
    for sent, received in pairs.tolist():
        (ya, ha), (yb, hb) = layout.y(int(layout.places[sent])), layout.y(int(layout.places[received]))
        leaves = min(max(rows["start"][sent], rows["start"][received]), rows["end"][sent])
        lines.append(f"M{_number(layout.x(leaves))} {_number(ya + ha / 2)}L{_number(layout.x(rows['end'][received]))} {_number(yb + hb / 2)}")
    yield f'<path d="{"".join(lines)}" stroke="#fff" stroke-width="3.5" fill="none"/><g stroke="#1f2328" stroke-width="1.4" marker-end="url(#head)">'
    yield from (f'<path d="{line}"/>' for line in lines)
    yield "</g>"


def _outlines(layout: _Layout, outlined: Outline) -> Iterator[str]:
    """Thick outlines, dark on a white rim, seen on every colour; as many as fit into a few kB, from the end of the run."""
    boxes = []
    for row, start, end in outlined[-MAX_OUTLINES if len(layout.rows) <= MAX_BARS else -MAX_OUTLINES // 2 :] if layout.fold == 1 else ():
        if row < len(layout.places):
            (y, tall), x = layout.y(int(layout.places[int(row)])), layout.x(start)
            boxes.append(f"M{_number(x)} {_number(y)}h{_number(max(1.0, (end - start) * layout.scale))}V{_number(y + max(1.0, tall - 1))}H{_number(x)}z")
    if boxes:
        yield f'<defs><path id="path" d="{"".join(boxes)}" fill="none" stroke-linejoin="round"/></defs>'
        yield '<use href="#path" stroke="#fff" stroke-width="5"/><use href="#path" stroke="#1f2328" stroke-width="2.6"/>'


def _stretches(layout: _Layout) -> tuple[list[str], float]:
    """Paths of busy pixels, and the width in seconds of what was merged."""
    pixel = 1.0
    while True:
        paths = [path for kind in _ORDER for path in _paths(layout, kind, pixel)]
        if sum(map(len, paths)) <= MAX_PATHS or pixel > 64:
            return paths, pixel / layout.scale
        pixel *= 2


def _paths(layout: _Layout, kind: Kind, pixel: float) -> Iterator[str]:
    """One path for each lane that has events of ``kind``, in steps of ``pixel``."""
    places, starts, lengths = _busy(layout, kind, pixel)
    style = STYLES[kind]
    for place in np.unique(places).tolist():
        y, tall = layout.y(place)
        path, at = [f"M{GUTTER} {_number(y + tall / 2)}"], 0.0
        for start, length in zip(starts[places == place].tolist(), lengths[places == place].tolist(), strict=True):
            path.append(f"m{_number((start - at) * pixel)} 0h{_number(length * pixel)}")
            at = start + length
        color = style.light.edge if kind == "span" else f"url(#{style.letter})" if tall > 6 else style.light.fill
        yield f'<path d="{"".join(path)}" stroke="{color}" stroke-width="{_number(max(0.8, tall - 1 if tall > 4 else tall))}" fill="none"/>'


def _busy(layout: _Layout, kind: Kind, pixel: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Stretches of pixels that events of one kind touch: place, first pixel, number of pixels; each of shape (stretches,)."""
    chosen = layout.rows["kind"] == KIND_CODE[kind]
    places = layout.places[chosen]
    width = int(layout.plot / pixel) + 2
    first, last = (np.clip((layout.rows[side][chosen] - layout.begin) * (layout.scale / pixel), 0, width - 2).astype(np.int64) for side in ("start", "end"))
    size = layout.num_rows * LANES * width
    change = np.bincount(places * width + first, minlength=size) - np.bincount(places * width + np.maximum(first, last) + 1, minlength=size)
    busy = change.cumsum() > 0  # every row ends idle: its last pixel is never reached
    edges = np.flatnonzero(np.diff(busy.astype(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    return starts // width, starts % width, ends - starts


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
