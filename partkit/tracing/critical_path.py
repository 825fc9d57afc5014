"""The critical path: the one chain of computations and messages that determines how long a run takes.

    rank 0  |== forward ==|                     |--- waits ---|
    rank 1  |-- waits --- |s|=== forward ===|s'''|  r|= backward =|      s, r: messages
            ^ path: forward on 0, message, forward on 1, message, backward: what must get shorter for the run to get shorter

It is found from the end. Whoever ended last was, until then, computing, or standing still for a message. A computation began when
its rank came to it. A message began when the last of three things was there: its sender, its receiver, or a port that another
message kept busy. So each step has one step before it, back to the start:

    step        from                                                        to
    compute     its start                                                   its end, on the same rank
    message     both sides have posted, or the message before it has left   its end, on the rank that stood still for it
    gap         what no event tells of: a live rank's own time              the next step, on the same rank

The steps lie end to end, so together they are exactly as long as the run. In virtual time, where every duration is in the trace
or follows from it, there are no gaps. On a wall clock a rank that stands still for a moment is taken to be held by the message.
Cost: O(n log n) for n events, mostly sorting.

Source: Yang and Miller 1988, "Critical path analysis for the execution of parallel and distributed programs".
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.tracing.events import KIND_CODE, Columns
from partkit.tracing.table import Trace

StepKind = Literal["compute", "message", "gap"]
Ints = npt.NDArray[np.int64]
SEND, RECV, COMPUTE = (KIND_CODE[kind] for kind in ("send", "recv", "compute"))


class Step(NamedTuple):
    """A stretch of the path."""

    kind: StepKind
    rank: int
    """The rank that the path is on at its end: of a message, the one that stood still for it."""
    start: float
    end: float
    row: int
    """Of `Trace.columns`: the computation, or the rank's side of the message; -1 for a gap."""
    other: int = -1
    """The other side of the message."""

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end - self.start


class CriticalPath(NamedTuple):
    """Steps from the start of a run to its end, each beginning where the one before ends."""

    steps: tuple[Step, ...]

    @property
    def length(self) -> float:
        """Seconds: the makespan."""
        return self.steps[-1].end - self.steps[0].start if self.steps else 0.0

    def seconds(self, kind: StepKind) -> float:
        """Of all steps of a kind."""
        return sum(step.seconds for step in self.steps if step.kind == kind)

    def share(self, kind: StepKind) -> float:
        """Of the whole length; 0 for an empty path."""
        return self.seconds(kind) / self.length if self.length else 0.0


def critical_path(trace: Trace) -> CriticalPath:
    """The chain of events that determines the makespan of a trace.

    Args:
        trace: of a run that is over, in any clock.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([
        ...     Event(0, "compute", 0.0, 2.0, tag="forward"), Event(0, "send", 2.0, 3.0, peer=1, nbytes=8),
        ...     Event(1, "recv", 0.0, 3.0, peer=0, nbytes=8), Event(1, "compute", 3.0, 5.0, tag="forward"),
        ... ], clock="virtual")
        >>> path = critical_path(trace)
        >>> [(step.kind, step.rank, step.start, step.end) for step in path.steps]
        [('compute', 0, 0.0, 2.0), ('message', 1, 2.0, 3.0), ('compute', 1, 3.0, 5.0)]
        >>> path.length == trace.makespan, path.share("message")
        (True, 0.2)
    """
    rows = trace.columns
    if not len(rows):
        return CriticalPath(())
    last = int(np.flatnonzero(rows["end"] == rows["end"].max())[0])
    return CriticalPath(tuple(reversed(_Walk(trace, rows).back(int(rows["rank"][last]), float(rows["end"][last])))))


class _Walk:
    """From the end to the start.

    Args:
        trace: whose events.
        rows: its columns.
    """

    def __init__(self, trace: Trace, rows: Columns) -> None:
        self._rows = rows
        self._begin = float(rows["start"].min())
        self._partner = np.full(len(rows), -1, dtype=np.int64)
        pairs = trace.pairs()
        self._partner[pairs[:, 0]], self._partner[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
        held = np.where(rows["kind"] == COMPUTE, rows["start"], rows["waited"])
        message = ((rows["kind"] == SEND) | (rows["kind"] == RECV)) & (self._partner >= 0)
        moved = np.flatnonzero(((rows["kind"] == COMPUTE) | message) & (rows["end"] > held))
        self._own = _Groups(moved, rows["rank"][moved], rows["end"][moved])
        kept = moved[message[moved]]  # messages whose end a rank has seen: when they left the ports is known
        out = np.where(rows["kind"][kept] == SEND, rows["rank"][kept], rows["peer"][kept])
        into = np.where(rows["kind"][kept] == SEND, rows["peer"][kept], rows["rank"][kept])
        self._ports = (_Groups(kept, out, rows["end"][kept]), _Groups(kept, into, rows["end"][kept]))

    def back(self, rank: int, now: float) -> list[Step]:
        """Steps from ``now`` on ``rank`` back to the start, the last one first."""
        steps: list[Step] = []
        seen: set[int] = set()
        while now > self._begin:
            row = self._own.last(rank, now)
            if row < 0 or row in seen:
                steps.append(Step("gap", rank, self._begin, now, -1))
                break
            end = float(self._rows["end"][row])
            if end < now:
                steps.append(Step("gap", rank, end, now, -1))
            while row >= 0:  # a message, and those that kept its port busy before it
                seen.add(row)
                step, rank, row = self._step(row)
                steps.append(step)
            now = steps[-1].start
        return steps

    def _step(self, row: int) -> tuple[Step, int, int]:
        """The step that ends with an event; the rank on which the path goes on; or the message that it had to wait for, else -1."""
        rows, other = self._rows, int(self._partner[row])
        rank, start, end = int(rows["rank"][row]), float(rows["start"][row]), float(rows["end"][row])
        if rows["kind"][row] == COMPUTE:
            return Step("compute", rank, start, end, row), rank, -1
        posted = min(end, max(start, float(rows["start"][other])))
        send = row if rows["kind"][row] == SEND else other
        src, dst = int(rows["rank"][send]), int(rows["peer"][send])
        before = -1 if src == dst else max((group.before(port, end) for group, port in zip(self._ports, (src, dst), strict=True)), key=self._end)
        if before >= 0 and self._end(before) > posted:
            return Step("message", rank, self._end(before), end, row, other), rank, before
        later = int(rows["rank"][other]) if rows["start"][other] > start or (rows["start"][other] == start and send == other) else rank
        return Step("message", rank, posted, end, row, other), later, -1

    def _end(self, row: int) -> float:
        return -np.inf if row < 0 else float(self._rows["end"][row])


class _Groups:
    """Rows by owner, in the order of their ends.

    Args:
        rows: numbers of rows.
        owners: of each.
        ends: of each.
    """

    def __init__(self, rows: Ints, owners: npt.NDArray[np.int64], ends: npt.NDArray[np.float64]) -> None:
        order = np.lexsort((ends, owners))
        self._rows, self._ends = rows[order], ends[order]
        names, first = np.unique(owners[order], return_index=True)
        self._spans = dict(zip(names.tolist(), zip(first.tolist(), [*first[1:].tolist(), len(order)], strict=False), strict=False))

    def last(self, owner: int, time: float) -> int:
        """The owner's last row that ends no later than ``time``; -1 for none."""
        return self._at(owner, time, "right")

    def before(self, owner: int, time: float) -> int:
        """The owner's last row that ends before ``time``; -1 for none."""
        return self._at(owner, time, "left")

    def _at(self, owner: int, time: float, side: Literal["left", "right"]) -> int:
        first, end = self._spans.get(owner, (0, 0))
        at = first + int(np.searchsorted(self._ends[first:end], time, side=side)) - 1
        return int(self._rows[at]) if at >= first else -1
