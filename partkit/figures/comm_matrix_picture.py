"""A communication matrix as a still picture, a table and a text.

              to rank  0   1   2   3      sent      row: who sends; column: who receives
    from rank 0        .  8k   .   .   ====  8k     a cell's colour is its amount, on a linear or a logarithmic scale
              1        .   .  8k   .   ====  8k     bars: what each rank sends (right) and receives (below) in all
              ...
    received          8k  8k  8k  8k

Up to `MAX_DRAWN` ranks each cell is a rectangle, with its amount in it if there is room; with more, the cells are one image, a
pixel a cell. Counts and bytes are the same in every run of the same program, so the text is too.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.figures.bundle import figure, table
from partkit.figures.comm_matrix import EVERYTHING, Integers, Phase, Traffic, Unit, measure
from partkit.figures.palette import PAGE, amounts, ink
from partkit.figures.units import count
from partkit.figures.units import nbytes as in_bytes
from partkit.tracing import Trace

LEFT, TOP, RIGHT, BOTTOM, LEGEND, BAR = 80, 48, 150, 62, 44, 22
MAX_DRAWN, MAX_TEXT, MAX_PAIRS, LEVELS = 32, 12, 40, 64


class Shape(NamedTuple):
    """Where the cells are."""

    size: int
    width: float
    """Of all cells together, in pixels."""
    height: float

    @property
    def cell(self) -> tuple[float, float]:
        """Width and height of one."""
        return self.width / self.size, self.height / self.size

    @staticmethod
    def of(size: int, room: float = 700.0) -> Shape:
        """Wide cells with room for a number if there are few; square ones if there are many.

        Example:
            >>> Shape.of(4), Shape.of(64)
            (Shape(size=4, width=384.0, height=192.0), Shape(size=64, width=520.0, height=520.0))
        """
        height = min(48.0 * size, max(520.0, 1.25 * size))
        return Shape(size, min(room, max(height, min(96.0 * size, 640.0)) if size <= 16 else height), height)


def levels(matrix: Integers, *, log: bool = False) -> npt.NDArray[np.uint8]:
    """The colour of each cell: 0 for nothing, else 1 to `LEVELS`. Shape of ``matrix``.

    Example:
        >>> levels(np.array([0, 1, 10, 100])), levels(np.array([0, 1, 10, 100]), log=True)
        (array([ 0,  1,  7, 64], dtype=uint8), array([ 0,  1, 32, 64], dtype=uint8))
    """
    used = matrix[matrix > 0]
    if not len(used):
        return np.zeros(matrix.shape, dtype=np.uint8)
    low, high = float(used.min()), float(used.max())
    with np.errstate(divide="ignore"):
        part = (np.log(matrix / low) / np.log(high / low) if high > low else np.ones(matrix.shape)) if log else matrix / high
    return np.where(matrix > 0, 1 + np.floor(np.clip(part, 0, 1) * (LEVELS - 1)), 0).astype(np.uint8)


def bundle(trace: Trace, phase: str = EVERYTHING, unit: Unit = "bytes", *, log: bool = False, title: str = "") -> dict[str, str]:
    """The mimebundle of a trace's matrix: picture, table, text.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "send", 0, 1, peer=1, nbytes=8000), Event(1, "send", 0, 1, peer=0, nbytes=500)])
        >>> print(bundle(trace)["text/plain"])
        bytes sent, 2 ranks: 8,500 bytes in 2 messages
        from / to    0      1   sent
                0    .  8,000  8,000
                1  500      .    500
         received  500  8,000  8,500
    """
    traffic = measure(trace)
    shown = next((known for known in traffic.phases() if known.label == phase), Phase(phase, "span"))
    matrix = traffic.matrix(phase, unit)
    head = headline(traffic, shown, unit)
    fold = f"each row shows {traffic.fold} ranks" if traffic.fold > 1 else ""
    caption = "; ".join(filter(None, (head, fold, traffic.hidden)))
    return {
        "text/html": figure(svg(matrix, traffic, unit, log=log), f"Matrix of {caption}", caption, list(_tables(matrix, traffic, unit)), title),
        "text/plain": "\n".join([f"{title}: {caption}" if title else caption, *_text(matrix, traffic)]),
    }


def headline(traffic: Traffic, phase: Phase, unit: Unit) -> str:
    """``bytes sent, all_reduce, 4 ranks: 144,000 bytes in 48 messages``; the same in every run."""
    total, messages = (int(traffic.matrix(phase.label, one).sum()) for one in ("bytes", "messages"))
    of = f", {phase.name}" if phase.label else ""
    running = "" if traffic.trace.finished.is_set() else "; still running"
    return f"{unit} sent{of}, {count(traffic.trace.size, 'rank')}: {count(total, 'byte')} in {count(messages, 'message')}{running}"


def amount(value: int, unit: Unit) -> str:
    """A number for a cell: short, with its unit if that is bytes.

    Example:
        >>> amount(36000, "bytes"), amount(36000, "messages"), amount(512, "bytes")
        ('36 kB', '36,000', '512 B')
    """
    return f"{value:,}" if unit == "messages" else f"{value} B" if value < 1000 else in_bytes(value)


def rank_name(traffic: Traffic, row: int) -> str:
    """The rank of a row, or the ranks that share it: ``6``, ``6-7``."""
    first, last = row * traffic.fold, min((row + 1) * traffic.fold, traffic.trace.size) - 1
    return str(first) if first >= last else f"{first}-{last}"


# -- text and tables -------------------------------------------------------------------------------------------------


def _rows(matrix: Integers, traffic: Traffic, empty: str) -> list[tuple[str, ...]]:
    """The matrix with its totals, as cells of text."""
    names = [rank_name(traffic, row) for row in range(len(matrix))]
    body = [(name, *(f"{v:,}" if v else empty for v in row), f"{sum(row):,}") for name, row in zip(names, matrix.tolist(), strict=True)]
    return [("from / to", *names, "sent"), *body, ("received", *(f"{v:,}" for v in matrix.sum(axis=0).tolist()), f"{int(matrix.sum()):,}")]


def _pairs(matrix: Integers, traffic: Traffic, most: int) -> tuple[list[tuple[str, ...]], int]:
    """The pairs of ranks with the most, and how many pairs there are."""
    src, dst = np.nonzero(matrix)
    order = np.argsort(-matrix[src, dst], kind="stable")
    chosen = order[:most].tolist()
    return [(rank_name(traffic, src[i]), rank_name(traffic, dst[i]), f"{matrix[src[i], dst[i]]:,}") for i in chosen], len(src)


def _text(matrix: Integers, traffic: Traffic) -> list[str]:
    if not matrix.any():
        return []
    if len(matrix) <= MAX_TEXT:
        rows, more = _rows(matrix, traffic, "."), []
    else:
        pairs, number = _pairs(matrix, traffic, MAX_TEXT)
        rows, more = [("from", "to", "sent"), *pairs], [f"... of {count(number, 'pair')}"] * (number > MAX_TEXT)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [*("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows), *more]


def _tables(matrix: Integers, traffic: Traffic, unit: Unit) -> Iterator[str]:
    if not matrix.any():
        return
    if len(matrix) <= 2 * MAX_TEXT:
        head, *rows = _rows(matrix, traffic, "")
        yield table(head, rows, f"{unit} from each rank (row) to each other (column)")
        return
    pairs, number = _pairs(matrix, traffic, MAX_PAIRS)
    yield table(("from", "to", unit), pairs, f"{min(number, MAX_PAIRS)} of {count(number, 'pair')} of ranks, the most first")
    order = np.argsort(-matrix.sum(axis=1), kind="stable")[:MAX_PAIRS].tolist()
    totals = [(rank_name(traffic, row), f"{matrix[row].sum():,}", f"{matrix[:, row].sum():,}") for row in order]
    yield table(("rank", f"{unit} sent", f"{unit} received"), totals, f"{len(totals)} of {count(len(matrix), 'rank')}, those that send most first")


# -- the picture -----------------------------------------------------------------------------------------------------


def svg(matrix: Integers, traffic: Traffic, unit: Unit, *, log: bool = False) -> str:
    """The picture, for white paper."""
    shape = Shape.of(len(matrix))
    width, height = LEFT + shape.width + RIGHT, TOP + shape.height + BOTTOM + LEGEND
    page = PAGE["light"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'font-family="sans-serif" font-size="13" fill="{page.edge}"><rect width="{width:g}" height="{height:g}" fill="{page.fill}"/>',
        *_frame(shape, traffic),
        *(_rectangles(matrix, shape, unit, log=log) if len(matrix) <= MAX_DRAWN else [_image(matrix, shape, log=log)]),
        *(_totals(matrix, shape, unit) if matrix.any() else ()),
        *_legend(matrix, shape, unit, log=log),
        "</svg>",
    ]
    return "".join(parts)


def _frame(shape: Shape, traffic: Traffic) -> Iterator[str]:
    """The ground of the cells, their diagonal, names of rows and columns."""
    (wide, tall), right, bottom = shape.cell, LEFT + shape.width, TOP + shape.height
    yield f'<path d="M{LEFT} {TOP}H{right:g}V{bottom:g}H{LEFT}z" opacity=".05"/>'
    diagonal = "".join(f"M{LEFT + k * wide:.1f} {TOP + k * tall:.1f}h{wide:.2f}v{tall:.2f}h{-wide:.2f}z" for k in range(min(shape.size, MAX_DRAWN)))
    yield f'<path d="{diagonal}" opacity=".06"/>' if shape.size <= MAX_DRAWN else f'<path d="M{LEFT} {TOP}L{right:g} {bottom:g}" stroke="#000" opacity=".15"/>'
    yield f'<text x="{LEFT + shape.width / 2:g}" y="16" text-anchor="middle" font-weight="600">to rank</text>'
    yield f'<text transform="translate(16 {TOP + shape.height / 2:g}) rotate(-90)" text-anchor="middle" font-weight="600">from rank</text>'
    widest = 8 * len(rank_name(traffic, shape.size - 1)) + 8
    for k in range(0, shape.size, tick_step(shape.size, widest / wide)):
        yield f'<text x="{LEFT + (k + 0.5) * wide:.1f}" y="{TOP - 8}" text-anchor="middle">{rank_name(traffic, k)}</text>'
    for k in range(0, shape.size, tick_step(shape.size, 18 / tall)):
        yield f'<text x="{LEFT - 8}" y="{TOP + (k + 0.5) * tall + 4.5:.1f}" text-anchor="end">{rank_name(traffic, k)}</text>'


def tick_step(size: int, least: float) -> int:
    """Every how many ranks one is named: a power of two, at least ``least``.

    Example:
        >>> tick_step(4, 0.3), tick_step(64, 3.1)
        (1, 4)
    """
    step = 1
    while step < min(least, size):
        step *= 2
    return step


def _rectangles(matrix: Integers, shape: Shape, unit: Unit, *, log: bool) -> Iterator[str]:
    """A path for each colour, then the amounts if all of them have room."""
    (wide, tall), colors, level = shape.cell, amounts("light", LEVELS), levels(matrix, log=log)
    gap = 1.0 if min(wide, tall) > 6 else 0.0
    for used in np.unique(level[level > 0]).tolist():
        boxes = (
            f"M{LEFT + dst * wide:.1f} {TOP + src * tall:.1f}h{wide - gap:.2f}v{tall - gap:.2f}h{gap - wide:.2f}z"
            for src, dst in np.argwhere(level == used).tolist()
        )
        yield f'<path d="{"".join(boxes)}" fill="{colors[used - 1]}"/>'
    cells = [(src, dst, amount(int(matrix[src, dst]), unit)) for src, dst in np.argwhere(matrix > 0).tolist()]
    size = min(13.0, tall - 4, (wide - 6) / (0.6 * max((len(text) for _, _, text in cells), default=1)))
    if size >= 9:
        for src, dst, text in cells:
            place = f'x="{LEFT + (dst + 0.5) * wide:.1f}" y="{TOP + (src + 0.5) * tall + size * 0.36:.1f}"'
            yield f'<text {place} text-anchor="middle" font-size="{size:.3g}" fill="{ink(colors[level[src, dst] - 1])}">{text}</text>'


def _image(matrix: Integers, shape: Shape, *, log: bool) -> str:
    """All cells as one image, a pixel a cell."""
    data = base64.b64encode(png(levels(matrix, log=log), amounts("light", LEVELS))).decode()
    place = f'x="{LEFT}" y="{TOP}" width="{shape.width:g}" height="{shape.height:g}"'
    return f'<image {place} preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'


def png(level: npt.NDArray[np.uint8], colors: list[str]) -> bytes:
    """A PNG of palette colours; level 0 is transparent. Shape (rows, columns)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", level.shape[1], level.shape[0], 8, 3, 0, 0, 0)  # 8 bits a pixel, by palette
    palette = bytes.fromhex("000000" + "".join(color[1:] for color in colors))
    lines = np.insert(level, 0, 0, axis=1).tobytes()  # each line begins with its filter: none
    parts = (b"IHDR", head), (b"PLTE", palette), (b"tRNS", b"\0"), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)


def _totals(matrix: Integers, shape: Shape, unit: Unit) -> Iterator[str]:
    """Bars of what each rank sends, right of its row, and receives, below its column."""
    (wide, tall), right, bottom = shape.cell, LEFT + shape.width + 10, TOP + shape.height + 8
    sent, received = (matrix.sum(axis=side).tolist() for side in (1, 0))
    most, thick, broad = max(*sent, *received, 1), min(tall * 0.9, BAR), min(wide * 0.9, 2 * BAR)
    rows, columns = ([(first + (k + 0.5) * each, v / most) for k, v in enumerate(total)] for first, each, total in ((TOP, tall, sent), (LEFT, wide, received)))
    bars = [f"M{right:g} {y - thick / 2:.1f}h{60 * part:.1f}v{thick:.2f}h{-60 * part:.1f}z" for y, part in rows if part]
    bars += [f"M{x - broad / 2:.1f} {bottom:g}v{26 * part:.1f}h{broad:.2f}v{-26 * part:.1f}z" for x, part in columns if part]
    yield f'<path d="{"".join(bars)}" opacity=".45"/><text x="{right:g}" y="{TOP - 8}" font-weight="600">sent</text>'
    yield f'<text x="{LEFT - 8}" y="{bottom + 14:g}" text-anchor="end" font-weight="600">received</text>'
    if tall >= 14:
        for (y, part), value in zip(rows, sent, strict=True):
            yield f'<text x="{right + 60 * part + 6:.1f}" y="{y + 4.5:.1f}">{amount(value, unit)}</text>'
    if wide >= 8 * max(len(amount(value, unit)) for value in received):
        for (x, part), value in zip(columns, received, strict=True):
            yield f'<text x="{x:.1f}" y="{bottom + 26 * part + 15:.1f}" text-anchor="middle">{amount(value, unit)}</text>'


def _legend(matrix: Integers, shape: Shape, unit: Unit, *, log: bool) -> Iterator[str]:
    """What the colours mean."""
    used = matrix[matrix > 0]
    top, wide = TOP + shape.height + BOTTOM + 4, min(shape.width, 240.0)
    if not len(used):
        yield f'<text x="{LEFT + shape.width / 2:g}" y="{TOP + shape.height / 2:g}" text-anchor="middle">no messages</text>'
        return
    stops = "".join(f'<stop offset="{k / 8:g}" stop-color="{color}"/>' for k, color in enumerate(amounts("light", 9)))
    yield f'<linearGradient id="scale">{stops}</linearGradient><rect x="{LEFT}" y="{top:g}" width="{wide:g}" height="12" fill="url(#scale)"/>'
    low = int(used.min()) if log else 0
    yield f'<text x="{LEFT}" y="{top + 27:g}">{amount(low, unit)}</text>'
    yield f'<text x="{LEFT + wide:g}" y="{top + 27:g}" text-anchor="end">{amount(int(used.max()), unit)}{", logarithmic" if log else ""}</text>'
