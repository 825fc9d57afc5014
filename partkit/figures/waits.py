"""Idle time in words and in a table: for whom each rank stood still, for what, and how long in all. Pure.

    rank  computing  late ranks  messages  own  finished  longest for
       1        2 s         2 s       1 s  0 s       0 s       rank 0

"late ranks" and "messages" are the two parts of a wait (`partkit.tracing.idle`). On a wall clock no two runs take the same time, so
a plain text, which is stored and compared, holds these numbers in virtual and planned time only.
"""

from __future__ import annotations

from partkit.figures.markup import table
from partkit.figures.units import clock_name, count, nbytes, seconds
from partkit.tracing import Trace
from partkit.tracing.idle import IdleTime, RankTimes, Wait

HEAD = ("rank", "computing", "late ranks", "messages", "own", "finished", "longest for")
MAX_EVENTS = 2_000_000
"""Of longer traces no sums are made unasked: a million events take about a second."""
MAX_RANKS, MAX_WAITS = 8, 3


def because(trace: Trace, wait: Wait) -> str:
    """A wait in a sentence.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "compute", 0, 2, tag="forward"), Event(0, "send", 2, 3, peer=1), Event(1, "recv", 0, 3, peer=0)])
        >>> because(trace, IdleTime(trace).longest(1)[0])
        "waited 2 s for rank 0 to send (it was computing 'forward'), then 1 s for the message"
    """
    verb = "send" if trace.event(trace.columns[wait.row]).kind == "recv" else "receive"
    late = f"{seconds(wait.late)} for rank {wait.peer} to {verb}" + (f" (it was {wait.because})" if wait.because else "") if wait.late else ""
    travel = f"{seconds(wait.travel)} for the message" if wait.travel else ""
    return f"waited {', then '.join(filter(None, (late, travel)))}"


def longest_waits(trace: Trace, idle: IdleTime, number: int = MAX_WAITS) -> list[str]:
    """The longest waits, a sentence each: who, when, for whom, why."""
    out = []
    for wait in idle.longest(number):
        event = trace.event(trace.columns[wait.row])
        name = " ".join(filter(None, (event.kind, event.tag, nbytes(event.nbytes) if event.nbytes else "")))
        out.append(f"rank {wait.rank} {because(trace, wait)}: {name} at {seconds(wait.start)}")
    return out


def idle_rows(idle: IdleTime) -> list[tuple[str, ...]]:
    """A row a rank, as in `HEAD`; of more than `MAX_RANKS` those that stood still longest."""
    ranks = idle.ranks()
    if len(ranks) > MAX_RANKS:
        longest = sorted(ranks, key=lambda r: (-round(r.late + r.travel, 12), r.rank))[:MAX_RANKS]
        ranks = sorted(longest)
    return [_cells(times) for times in ranks]


def _cells(times: RankTimes) -> tuple[str, ...]:
    parts = (times.computing, times.late, times.travel, times.own, times.finished)
    return (str(times.rank), *map(seconds, parts), "" if times.held_by < 0 else f"rank {times.held_by}")


def idle_of(trace: Trace) -> IdleTime | None:
    """The waits of a trace, for the tables and texts below; None for an empty one and for one of more than `MAX_EVENTS`."""
    return IdleTime(trace) if 0 < len(trace) <= MAX_EVENTS else None


def idle_table(trace: Trace, idle: IdleTime | None) -> str:
    """HTML: where the time of each rank went, and the longest waits; empty if there is nothing to tell."""
    if idle is None:
        return ""
    waits = longest_waits(trace, idle)
    return table(HEAD, idle_rows(idle), _caption(trace, idle)) + (table(("the longest waits",), [(wait,) for wait in waits], "Why") if waits else "")


def idle_text(trace: Trace, idle: IdleTime | None) -> list[str]:
    """The same in letters; nothing of a wall clock, and nothing where nobody waits."""
    if trace.clock == "wall" or idle is None:
        return []
    waits = longest_waits(trace, idle)
    if not waits:
        return []
    rows = [HEAD, *idle_rows(idle)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [_caption(trace, idle), *lines, *waits]


def _caption(trace: Trace, idle: IdleTime) -> str:
    shown = "" if trace.size <= MAX_RANKS else f" ({count(MAX_RANKS, 'rank')} that waited longest)"
    return f"Where the time of each rank went{shown}: {idle.share:.1%} idle, {clock_name(trace)}"
