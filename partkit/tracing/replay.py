"""A recorded run on another cluster: the same messages and computations, other times, without running anything again.

    trace.replay(cluster)                            what would it have taken there?
    live_trace.replay(cluster, "cpu")                each rank on a core of its own, its work as the machine needed for it
    live_trace.replay(cluster, "measured")           a live run's own durations between messages, on another network

A trace holds what each rank did, in order: where it posted each message, where it began to wait for it, what it computed in
between. That list is all that virtual time depends on (`partkit.virtual_time`), so a replay goes through the same event loop
as a simulated run, and gives the same times as running there, to the last bit.

    trace     how the order is known                                 durations
    virtual   columns ``begun`` and ``done``: places in the list     stated, or FLOPs and bytes over the other devices' rates
    wall      the times themselves                                   stated; "cpu", "measured": what lies between messages too

Four live ranks on two cores take turns, so the time between two messages of a rank holds the work of others. The seconds for which
its own thread had a core do not: "cpu" takes those, noted at the ends of events, spread over the time between messages. They
still feel the crowd a little, in the caches. What ``comm.compute`` states counts as stated in each of the three.

What a replay can't know: a program that asks what time it is, or takes whatever message comes first, might have done something
else there. Cost: a few microseconds an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt

from partkit.tracing.events import KIND_CODE, Columns
from partkit.tracing.recorder import CPU_CYCLE
from partkit.tracing.table import Trace
from partkit.virtual_time import Computation, Engine, Entry, Network, Side
from partkit.virtual_time.program import meet

Durations = Literal["stated", "cpu", "measured"]
SEND, RECV, COMPUTE = KIND_CODE["send"], KIND_CODE["recv"], KIND_CODE["compute"]
COUNTED = 1
"""``seq`` of a computation that was told in FLOPs and bytes; of one that was told in seconds it is 0."""


class Hardware(Protocol):
    """What a run can be replayed on: `partkit.Cluster`."""

    def network(self, size: int) -> Network:
        """How long things take for so many ranks."""


class Program(NamedTuple):
    """What one rank did, and where its events are in it."""

    entries: list[Entry]
    begun: npt.NDArray[np.int64]
    """By event of the rank: how many entries were done at its start."""
    done: npt.NDArray[np.int64]
    """By event of the rank: how many were done at its end."""
    waited: npt.NDArray[np.int64]
    """By event of the rank: how many were done when the rank began to stand still for it."""


def replay(trace: Trace, cluster: Hardware, durations: Durations = "stated") -> Trace:
    """The same run on ``cluster``: a new trace, in virtual time.

    Args:
        trace: of a run that is over, or goes on: then of what has been received on both sides.
        cluster: links and devices.
        durations: what lies between messages. "stated": what ``comm.compute`` said, and nothing else. "cpu": of a live run also
            the seconds for which a rank's thread worked. "measured": the time that went by, on the machine it ran on.

    Raises:
        ValueError: ``durations`` is unknown, or not noted in the trace; or the cluster has no room for so many ranks.
    """
    if durations not in get_args(Durations):
        raise ValueError(f"replay(durations={durations!r}): durations is one of {', '.join(map(repr, get_args(Durations)))}")
    if durations == "cpu" and trace.clock == "wall" and len(trace) and not has_cpu_times(trace):
        raise ValueError("replay(durations='cpu'): nobody noted in this trace how long threads worked; take 'stated' or 'measured'")
    rows = trace.columns.copy()
    sides = _sides(trace, rows)
    engine = Engine(trace.size, cluster.network(trace.size))
    for rank in range(trace.size):
        own = np.flatnonzero(rows["rank"] == rank)
        in_order = trace.clock == "virtual" and bool((rows["done"][own] > 0).any())
        program = _in_order(trace, rows, own, sides) if in_order else _by_time(trace, rows, own, sides, durations)
        engine.lists[rank].extend(program.entries)
        rows["begun"][own], rows["done"][own], rows["waited"][own] = program.begun, program.done, program.waited
    engine.run()
    for rank in range(trace.size):
        own, times = np.flatnonzero(rows["rank"] == rank), np.array(engine.times[rank])
        for column, place in (("start", "begun"), ("end", "done"), ("waited", "waited")):
            rows[column][own] = times[np.minimum(rows[place][own].astype(np.int64), len(times) - 1)]
    replayed = Trace.from_columns(rows, list(trace.strings), size=trace.size, clock="virtual")
    replayed.replayed = getattr(cluster, "name", "cluster") + ("" if trace.clock == "virtual" else f", {durations} durations")
    return replayed


def _sides(trace: Trace, rows: Columns) -> dict[int, Side]:
    """By row: its side of its message. Rows whose other side is not in the trace have none."""
    sides: dict[int, Side] = {}
    for s, r in trace.pairs().tolist():
        send, recv = (Side(int(rows["rank"][row]), int(rows["peer"][row]), int(rows["nbytes"][row]), row == s) for row in (s, r))
        meet(send, recv)
        sides[s], sides[r] = send, recv
    return sides


def _in_order(trace: Trace, rows: Columns, own: npt.NDArray[np.int64], sides: dict[int, Side]) -> Program:
    """The list of a simulated rank: each event says where in it it stands. What is in no event takes no time."""
    begun, done = rows["begun"][own].astype(np.int64), rows["done"][own].astype(np.int64)
    entries: list[Entry] = [0.0] * int(done.max(initial=0))
    for row, first, last, kind in zip(own.tolist(), begun.tolist(), done.tolist(), rows["kind"][own].tolist(), strict=True):
        if kind == COMPUTE:
            entries[first] = _work(trace, rows[row])
        elif row in sides:
            entries[first] = entries[last - 1] = sides[row]
    message = (rows["kind"][own] == SEND) | (rows["kind"][own] == RECV)
    return Program(entries, begun, done, np.where(message, done - 1, begun))


class _Moment(NamedTuple):
    """Something that a live rank did; sorted by time."""

    start: float
    end: float
    place: int
    """Which of the rank's events."""
    is_post: bool


def _by_time(trace: Trace, rows: Columns, own: npt.NDArray[np.int64], sides: dict[int, Side], durations: Durations) -> Program:
    """The list of a live rank, read off its clock: posts, waits and computations in the order of time, and what lies between."""
    entries: list[Entry] = []
    begun, done, waited = (np.zeros(len(own), dtype=np.int64) for _ in range(3))
    ends, counts = [0.0], [0]  # how many entries were done by when
    moments = sorted(_moments(rows, own, sides))
    spent = _spending(rows[own], moments, durations)
    for moment in moments:
        if (between := spent(ends[-1], moment.start)) > 0:
            entries.append(between)
        row = int(own[moment.place])
        if moment.is_post:
            begun[moment.place] = len(entries)
        else:
            waited[moment.place] = len(entries)
        if row in sides:
            entries.append(sides[row])
        elif rows["kind"][row] == COMPUTE:
            begun[moment.place] = len(entries)
            entries.append(_work(trace, rows[row]))
        if not moment.is_post:
            done[moment.place] = len(entries)
        ends.append(max(ends[-1], moment.end))
        counts.append(len(entries))
    for place, row in enumerate(own.tolist()):
        if row not in sides and rows["kind"][row] != COMPUTE:  # spans, collectives, metrics, messages without another side
            for column, found in (("start", begun), ("waited", waited), ("end", done)):
                found[place] = counts[int(np.searchsorted(ends, rows[column][row], side="right")) - 1]
    return Program(entries, begun, done, waited)


def _spending(own: Columns, moments: list[_Moment], durations: Durations) -> Callable[[float, float], float]:
    """How much of a rank's time from one moment to another counts.

    CPU seconds are known at the ends of some events only. What was used between two such ends is spread evenly over the time between
    messages and stated computations that lies between them (``free``).
    """
    if durations == "stated":
        return lambda start, end: 0.0
    if durations == "measured":
        return lambda start, end: end - start
    noted = own[own["done"] >= 0]
    noted = noted[np.argsort(noted["end"], kind="stable")]
    used = np.cumsum(np.diff(noted["done"], prepend=0) % CPU_CYCLE) * 1e-6
    taken = [moment[:2] for moment in moments if not moment.is_post]
    edges, length = np.array(taken).reshape(-1), np.array([end - start for start, end in taken])
    before = np.stack([np.cumsum(length) - length, np.cumsum(length)], axis=1).reshape(-1)

    def free(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return times - np.interp(times, edges, before) if len(edges) else times

    known = np.concatenate(([0.0], free(noted["end"])))
    return lambda start, end: float(np.diff(np.interp(free(np.array([start, end])), known, np.concatenate(([0.0], used))))[0])


def has_cpu_times(trace: Trace) -> bool:
    """Whether ranks noted how long their threads worked."""
    return trace.clock == "wall" and bool((trace.columns["done"] > 0).any())


def _moments(rows: Columns, own: npt.NDArray[np.int64], sides: dict[int, Side]) -> Iterator[_Moment]:
    for place, row in enumerate(own.tolist()):
        start, waited, end = (float(rows[column][row]) for column in ("start", "waited", "end"))
        if row in sides:
            yield _Moment(start, start, place, True)
            yield _Moment(waited, end, place, False)
        elif rows["kind"][row] == COMPUTE:
            yield _Moment(start, end, place, False)


def _work(trace: Trace, row: np.void) -> Computation | float:
    """What a computation was told to be: FLOPs and bytes, or seconds."""
    if row["seq"] != COUNTED:
        return float(row["value"])
    dtype = trace.strings[row["tag"]].rpartition(" [")[2].removesuffix("]")
    return Computation(float(row["value"]), float(row["nbytes"]), dtype)
