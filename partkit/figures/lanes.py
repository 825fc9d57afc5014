"""Which lane of its rank's row each event is drawn in, so that no bar hides another.

A rank's row, from the top:

    span depth 0     |------------ step 0 ------------|------------ step 1 ----
    span depth 1     |  forward  |  all_reduce        |      spans, computations and collectives nest like their names
    metrics          |                     . |               marks, at the moments when numbers were noted
    more             |              bucket 1  |              what overlaps its own lane, such as asynchronous collectives
    sends            |            |S0|  |S1|          |      a second lane where two are under way at once
    receives         |            |R0|  |R1|          |

An event takes its home lane if that is free at its start, else the fullest free lane of its area (best fit; events come in
the order of their ends, for which best fit needs the fewest lanes). The usual case, nothing overlaps, is one vectorised
comparison; only ranks and areas where something overlaps are walked event by event.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partkit.tracing import KINDS, Columns

LANES = 16
"""Lanes of one rank: 6 for nesting, 1 for metrics, 3 more for what overlaps there, 3 for sends, 3 for receives."""
DEPTHS, METRIC, MORE, SEND, RECV = range(0, 6), 6, range(7, 10), range(10, 13), range(13, 16)
MAX_RANKS = 2**16 // LANES
"""Place is a 16-bit number: rank * LANES + lane."""

Places = npt.NDArray[np.uint16]
_OWN_LANE: Places = np.array([{"metric": METRIC, "send": SEND[0], "recv": RECV[0]}.get(kind, LANES) for kind in KINDS], dtype=np.uint16)
"""By kind: the lane of what does not nest; `LANES` for what does."""


class Lanes:
    """Gives each event its place, batch by batch.

    Args:
        size: number of ranks.

    Example:
        >>> from partkit.tracing import Event, Trace
        >>> trace = Trace.from_events([Event(0, "span", 0, 9, tag="step"), Event(0, "compute", 1, 2, span="step")])
        >>> (Lanes(1).place(trace.columns, trace.strings) % LANES).tolist()
        [0, 1]
    """

    def __init__(self, size: int) -> None:
        self._busy_until = np.full(max(size, 1) * LANES, -np.inf)
        self._depth = nesting([])

    def place(self, rows: Columns, strings: list[str]) -> Places:
        """``rank * LANES + lane`` for each row; rows of one rank come in the order of their ends. Shape (events,)."""
        if len(self._depth) < len(strings):
            self._depth = np.concatenate((self._depth, nesting(strings[len(self._depth) :])))
        home: Places = rows["rank"].astype(np.uint16) * np.uint16(LANES) + home_lanes(rows, self._depth)
        order = np.argsort(home, kind="stable")  # radix sort; each place's events stay in their order
        start, end, sorted_home = rows["start"][order], rows["end"][order], home[order]
        first = np.flatnonzero(np.concatenate(([True], sorted_home[1:] != sorted_home[:-1]))) if len(rows) else np.zeros(0, dtype=np.int64)
        before = np.concatenate(([-np.inf], end[:-1]))[: len(rows)]
        before[first] = self._busy_until[sorted_home[first]]
        crowded = np.unique(sorted_home[start < before])
        last = np.append(first[1:], len(rows)) - 1
        calm = ~np.isin(sorted_home[first], crowded)
        self._busy_until[sorted_home[first[calm]]] = end[last[calm]]
        for place in crowded:
            where = order[slice(*np.searchsorted(sorted_home, (place, place + 1)))]
            home[where] = self._best_fit(int(place), rows["start"][where], rows["end"][where])
        return home

    def _best_fit(self, home: int, starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> list[int]:
        rank, lane = divmod(home, LANES)
        area = SEND if lane in SEND else RECV if lane in RECV else (lane, *MORE)
        lanes = [rank * LANES + lane for lane in area]
        busy = {place: float(self._busy_until[place]) for place in lanes}
        chosen = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            place = home if busy[home] <= start else max((p for p in lanes if busy[p] <= start), key=busy.__getitem__, default=lanes[-1])
            busy[place] = max(busy[place], end)
            chosen.append(place)
        self._busy_until[lanes] = list(busy.values())
        return chosen


def nesting(strings: list[str]) -> Places:
    """The lane of what lies in each span of a table of strings: 2 in ``step/all_reduce``, 0 in none. Shape (strings,)."""
    return np.array([min(text.count("/") + 1, DEPTHS[-1]) if text else 0 for text in strings], dtype=np.uint16)


def home_lanes(rows: Columns, depth: Places) -> Places:
    """The lane of each row if nothing overlaps; ``depth`` is the `nesting` of the table of strings. Shape (events,)."""
    own = _OWN_LANE[rows["kind"]]
    nested: Places = np.where(own < LANES, own, depth[rows["span"]])
    return nested
