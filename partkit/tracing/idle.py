"""Idle time, with its reason: for whom a rank stood still, for what, and what that rank was doing meanwhile.

    rank 0   send: posted at 3 ──────────────────┐
    rank 1   recv: posted at 0, waits from 1 ....:####|          late: 1 to 3     travel: 3 to 4

A rank stands still for a message from the moment when it begins to wait (``waited``) to the message's end. That time has two parts:

    late      until the other side has posted: the other rank was not there yet
    travel    from then on: the message is on its way, or in line for a port that is busy

What is neither computing nor standing still is the rank's own (Python between messages on a live rank, nothing on a simulated
one), up to its last event; from then on it has finished, and others have not. A wait for a rank that itself waits has its cause
further up; `Wait.because` names what the other rank was doing. Cost: O(n log n) for n events, all in numpy: a second for a million.

Source: "late sender" and "late receiver" of Geimer et al. 2010, "The Scalasca performance toolset architecture".
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.tracing.events import KIND_CODE, KINDS, Columns
from partkit.tracing.table import Trace

Seconds = npt.NDArray[np.float64]
SEND, RECV, COMPUTE = (KIND_CODE[kind] for kind in ("send", "recv", "compute"))


class Wait(NamedTuple):
    """A rank stands still for one message."""

    row: int
    """Of `Trace.columns`: the rank's side of the message."""
    rank: int
    peer: int
    start: float
    end: float
    late: float
    """Seconds until the other side had posted."""
    travel: float
    """Seconds from then to the end."""
    because: str
    """What the other rank was doing when the wait began, if it was late: ``computing 'forward'``; else empty."""


class RankTimes(NamedTuple):
    """Where the time of one rank went, in seconds."""

    rank: int
    computing: float
    late: float
    """Standing still for ranks that were not there yet."""
    travel: float
    """Standing still for messages on their way, or in line for a port."""
    own: float
    """Neither of these, up to its last event."""
    finished: float
    """From its last event to the end of the run."""
    held_by: int
    """The rank that it stood still for longest; -1 for none."""


class IdleTime:
    """Idle time of a whole trace.

    Args:
        trace: of a run that is over, in any clock.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([
        ...     Event(0, "compute", 0.0, 2.0, tag="forward"), Event(0, "send", 2.0, 3.0, peer=1, nbytes=8, tag="x"),
        ...     Event(1, "recv", 0.0, 3.0, peer=0, nbytes=8, tag="x"),
        ... ], clock="virtual")
        >>> idle = IdleTime(trace)
        >>> wait = idle.longest(1)[0]
        >>> wait.rank, wait.peer, wait.late, wait.travel, wait.because
        (1, 0, 2.0, 1.0, "computing 'forward'")
        >>> idle.ranks()[0]
        RankTimes(rank=0, computing=2.0, late=0.0, travel=1.0, own=0.0, finished=0.0, held_by=1)
        >>> round(idle.share, 3)
        0.667
    """

    def __init__(self, trace: Trace) -> None:
        self._trace, rows = trace, trace.columns
        self._rows = rows
        pairs = trace.pairs()
        self._partner = np.full(len(rows), -1, dtype=np.int64)
        self._partner[pairs[:, 0]], self._partner[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
        message = (rows["kind"] == SEND) | (rows["kind"] == RECV)
        self._since = _since(rows, message)
        still = np.where(message, np.maximum(rows["end"] - self._since, 0.0), 0.0)
        paired = message & (self._partner >= 0)
        there = np.where(paired, rows["start"][self._partner], -np.inf)
        self.late: Seconds = np.where(paired, np.clip(there - self._since, 0.0, still), 0.0)
        """By row: seconds for which its rank stood still because the other side was late. Shape (events,)."""
        self.travel: Seconds = still - self.late
        """By row: seconds for which its rank stood still after that. Shape (events,)."""

    def wait(self, row: int) -> Wait | None:
        """For whom, and why, the rank of an event stood still for it; None if it did not."""
        rows = self._rows
        late, travel = float(self.late[row]), float(self.travel[row])
        if late + travel <= 0:
            return None
        rank, peer, start = int(rows["rank"][row]), int(rows["peer"][row]), float(self._since[row])
        return Wait(row, rank, peer, start, float(rows["end"][row]), late, travel, self._doing(peer, start) if late > 0 else "")

    def longest(self, number: int) -> list[Wait]:
        """The longest waits, the longest first; of equal ones the earliest, then the lowest rank."""
        total, rows = self.late + self.travel, self._rows
        rows_of = np.flatnonzero(total > 0)
        order = np.lexsort((rows["rank"][rows_of], self._since[rows_of], -np.round(total[rows_of], 12)))
        return [wait for row in rows_of[order[:number]].tolist() if (wait := self.wait(row)) is not None]

    def ranks(self) -> list[RankTimes]:
        """Where the time of each rank went, by rank."""
        return list(self._by_rank)

    @cached_property
    def _by_rank(self) -> list[RankTimes]:
        rows, size, whole = self._rows, self._trace.size, self._trace.makespan
        rank, begin = rows["rank"].astype(np.int64), float(rows["start"].min()) if len(rows) else 0.0
        last = np.full(size, begin)
        np.maximum.at(last, rank, rows["end"])
        finished = begin + whole - last
        computing = np.bincount(rank, np.where(rows["kind"] == COMPUTE, rows["end"] - rows["start"], 0.0), minlength=size)
        late, travel = (np.bincount(rank, part, minlength=size) for part in (self.late, self.travel))
        own = whole - finished - computing - late - travel
        own[own < 1e-9 * whole] = 0.0  # what rounding left
        parts = (computing.tolist(), late.tolist(), travel.tolist(), own.tolist(), finished.tolist(), self._held_by())
        return [RankTimes(r, *part) for r, part in enumerate(zip(*parts, strict=True))]

    @property
    def share(self) -> float:
        """The share of all ranks' time, from the first start to the last end, in which they stand still or have finished: the bubble."""
        whole = self._trace.size * self._trace.makespan
        return sum(r.late + r.travel + r.finished for r in self._by_rank) / whole if whole else 0.0

    def _held_by(self) -> list[int]:
        """By rank: for whom it stood still longest, ties to the lowest; -1 for nobody."""
        rows, size, total = self._rows, self._trace.size, self.late + self.travel
        waits = np.flatnonzero((total > 0) & (rows["peer"] >= 0))
        pair, which = np.unique(rows["rank"][waits].astype(np.int64) * size + rows["peer"][waits], return_inverse=True)
        sums = np.bincount(which, total[waits], minlength=len(pair))
        held = [-1] * size
        for k in np.lexsort((-pair, np.round(sums, 12))).tolist():  # the longest comes last
            held[int(pair[k]) // size] = int(pair[k]) % size
        return held

    def _doing(self, rank: int, time: float) -> str:
        """What a rank was doing at a moment, in words: the shortest thing that it was inside of."""
        rows, since = self._rows, self._since
        inside = np.flatnonzero((rows["rank"] == rank) & (since <= time) & (time < rows["end"]))
        if not len(inside):
            return "between two events" if bool(((rows["rank"] == rank) & (rows["end"] > time)).any()) else "finished"
        row = int(inside[np.argmin(rows["end"][inside] - since[inside])])
        return _words(self._trace, rows, row)


def _since(rows: Columns, message: npt.NDArray[np.bool_]) -> Seconds:
    """By row: when its rank began to stand still for it, and for nothing before it; of what is no message its start."""
    since: Seconds = np.where(message, rows["waited"], rows["start"])
    waits = np.flatnonzero(message)
    waits = waits[np.lexsort((rows["end"][waits], since[waits], rows["rank"][waits]))]
    for own in np.split(waits, np.flatnonzero(np.diff(rows["rank"][waits])) + 1):
        until = np.maximum.accumulate(rows["end"][own])
        since[own[1:]] = np.maximum(since[own[1:]], until[:-1])
    return since


def _words(trace: Trace, rows: Columns, row: int) -> str:
    """An event as something that goes on: ``waiting for rank 2``, ``computing 'forward'``, ``in step``."""
    kind, tag = KINDS[rows["kind"][row]], trace.strings[rows["tag"][row]]
    if kind in ("send", "recv"):
        return f"waiting for rank {int(rows['peer'][row])}"
    return f"computing {tag!r}" if kind == "compute" else f"in {tag}"
