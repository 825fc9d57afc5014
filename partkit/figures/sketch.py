"""The events of a long trace that its first picture needs: a few in a hundred look the same as all of them.

On a screen a bar narrower than a pixel is not drawn if its lane and kind have already painted that pixel. So, for a picture of
`COLUMNS` columns, these events suffice:

    |#|#|  ####  |#|     every bar at least a column wide
     ^ ^          ^      of the narrower ones, the first that begins in each column of each lane and kind
                         whatever begins first or ends last: it gives the picture its scale

A million events of 8 ranks are 65 thousand in the sketch: chosen in a third of the time that it takes to encode them all, and a
fifteenth of the bytes. A view shows the sketch first and everything as soon as that has arrived (`partkit.widgets.live`). A sketch has
no messages: with gaps, the n-th send of a channel no longer meets its n-th receive. What overlaps may lie in other lanes than later.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partkit.figures.encoding import BLOCK, Encoder
from partkit.figures.lanes import LANES, Places, home_lanes, nesting
from partkit.tracing import KINDS, Columns, Trace

COLUMNS = 2048
"""More than a screen has pixels for the picture; where it has more, a sketch has gaps until the details are there."""
FEWEST_EVENTS = 150_000
"""Shorter traces are sent whole at once."""
MAX_SIZE = 64
"""Ranks up to which a sketch is made: with more, few events share a column."""


def sketch(trace: Trace, columns: int = COLUMNS) -> Trace:
    """A trace of the events that a picture of ``columns`` columns needs.

    Args:
        trace: of at most `MAX_SIZE` ranks.
        columns: of the picture of the whole trace.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events(Event(0, "compute", i, i + 1) for i in range(10_000))
        >>> len(sketch(trace, columns=100))
        101
    """
    rows, strings = trace.columns, list(trace.strings)
    chosen = rows[_chosen(rows, nesting(strings), columns)] if len(rows) else rows
    return Trace.from_columns(chosen, strings, size=trace.size, clock=trace.clock)


def encode_sketch(trace: Trace) -> tuple[bytes, int]:
    """The sketch of a trace as blocks for a browser, and how many events it has."""
    encoder = Encoder(sketch(trace), paired=False)
    return encoder.encode(), encoder.num_events


def worthwhile(trace: Trace) -> bool:
    """Whether the first picture of a trace comes noticeably sooner from a sketch."""
    return len(trace) >= FEWEST_EVENTS and trace.size <= MAX_SIZE


def _chosen(rows: Columns, depth: Places, columns: int) -> npt.NDArray[np.int64]:
    """Numbers of the rows that are wide, or the first of their column. Shape (events of the sketch,)."""
    start, end, cell = _gathered(rows, depth)
    begin = start.min()
    column = (end.max() - begin) / columns or 1.0
    cell = cell * (columns + 1) + np.minimum((start - begin) / column, columns).astype(np.int32)
    first = np.full(int(cell.max()) + 1, -1, dtype=np.int32)
    first[cell[::-1]] = np.arange(len(rows) - 1, -1, -1, dtype=np.int32)  # of equal indices the last one stays: here the first event
    kept = end - start >= column
    kept[first[first >= 0]] = True
    kept[[start.argmin(), end.argmax()]] = True
    return np.flatnonzero(kept)


def _gathered(rows: Columns, depth: Places) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Start, end, and a number for lane and kind of each row. Block by block: a record is read from memory once, then from the cache."""
    start, end, cell = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), dtype=np.int32)
    for first in range(0, len(rows), BLOCK):
        block, part = rows[first : first + BLOCK], slice(first, first + BLOCK)
        start[part], end[part] = block["start"], block["end"]
        cell[part] = (block["rank"] * np.int32(LANES) + home_lanes(block, depth)) * np.int32(len(KINDS)) + block["kind"]
    return start, end, cell
