"""What torch.distributed did, as a table: a row for each operation, group and phase. Pure.

    operation                group  phase     ranks  calls  bytes  where
    dist.broadcast                                2      8   1040  train.py:9
    dist.all_reduce                 backward      2      2   1300  train.py:14
    dist.all_gather_single   tp     forward       2      4    512  net.py:31, net.py:40

Counts and bytes are of all ranks together; bytes are what each rank puts in (`partkit.watching.operators`), so what travels depends on
the algorithm. Times are a call's: the median, and the sum over calls and ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from partkit.figures.bundle import place_name, table
from partkit.figures.units import seconds
from partkit.tracing import Event, Trace

PHASES = ("forward", "backward")
"""Parts of a span's path that tell when in a training step something happened."""
PREFIX = "dist."
"""How the tags of operations of torch.distributed begin."""
MOST_SITES = 3
"""Source lines that a row names."""
HEAD = ("operation", "group", "phase", "ranks", "calls", "bytes")


class OperationRow(NamedTuple):
    """One operation, in one group and phase."""

    operation: str
    """As in the trace: ``dist.all_reduce``, ``send dist.message``, ``all_reduce[sum, ring]``."""
    group: str
    """Empty for all ranks."""
    phase: str
    """"forward", "backward", or empty where that can't be told."""
    ranks: tuple[int, ...]
    """Who did it."""
    calls: int
    """Of all ranks together."""
    nbytes: int
    """Of all calls."""
    seconds: float
    """Of all calls."""
    typical: float
    """Seconds of a call: the median."""
    sites: tuple[str, ...]
    """Source lines, in the order of their first call."""


class OperationTable(NamedTuple):
    """The rows, in the order of their first call. Shows as a table."""

    rows: tuple[OperationRow, ...]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        head = (*HEAD, "time a call", "time in all", "where")
        cells = [(*_counts(row), seconds(row.typical), seconds(row.seconds), _where(row.sites)) for row in self.rows]
        return {"text/html": table(head, cells, "Operations"), "text/plain": self._text()}

    def _text(self, *, times: bool = False) -> str:
        """The table in letters. Without times it is the same in every run that does the same."""
        if not self.rows:
            return "no operation of torch.distributed and no collective"
        head = (*HEAD, *(("time a call", "time in all") if times else ()), "where")
        lines = [head]
        for row in self.rows:
            lines.append((*_counts(row), *((seconds(row.typical), seconds(row.seconds)) if times else ()), _where(row.sites)))
        return "\n".join(_aligned(lines))

    def __repr__(self) -> str:
        return self._text(times=True)


def operation_table(events: Trace | Iterable[Event]) -> OperationTable:
    """What torch.distributed did in a run that was watched (`partkit.watch`), and partkit's collectives, by operation, group and phase.

    Args:
        events: a trace, or events of it.

    Example:
        >>> from partkit.tracing import Event
        >>> call = Event(0, "collective", start=1.0, end=1.5, nbytes=400, tag="dist.all_reduce", span="step 3/backward", site="train.py:14")
        >>> operation_table([call, call._replace(rank=1), call._replace(rank=1, span="step 4/backward")])
        operation        group  phase     ranks  calls  bytes  time a call  time in all  where
        dist.all_reduce         backward      2      3  1,200       500 ms        1.5 s  train.py:14
    """
    found: dict[tuple[str, str, str], list[Event]] = {}
    for event in events.events if isinstance(events, Trace) else events:
        if event.kind == "collective" or (event.kind in ("send", "recv") and event.tag.startswith(PREFIX)):
            name = event.tag if event.kind == "collective" else f"{event.kind} {event.tag}"
            found.setdefault((name, event.group, phase(event.span)), []).append(event)
    return OperationTable(tuple(_row(*key, calls) for key, calls in found.items()))


def phase(span: str) -> str:
    """The innermost phase in a span's path.

    Example:
        >>> phase("step 3/forward/all_gather_object"), phase("step 3")
        ('forward', '')
    """
    return next((part for part in reversed(span.split("/")) if part in PHASES), "")


def _row(operation: str, group: str, when: str, calls: Sequence[Event]) -> OperationRow:
    times = [event.end - event.start for event in calls]
    return OperationRow(
        operation=operation,
        group=group,
        phase=when,
        ranks=tuple(sorted({event.rank for event in calls})),
        calls=len(calls),
        nbytes=sum(event.nbytes for event in calls),
        seconds=sum(times),
        typical=median(times),
        sites=tuple(dict.fromkeys(event.site for event in calls if event.site)),
    )


def _counts(row: OperationRow) -> tuple[str, ...]:
    return (row.operation, row.group, row.phase, str(len(row.ranks)), str(row.calls), f"{row.nbytes:,}")


def _where(sites: Sequence[str]) -> str:
    more = len(sites) - MOST_SITES
    return ", ".join(map(place_name, sites[:MOST_SITES])) + (f" and {more} more" if more > 0 else "")


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest entry: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = {0, 1, 2, len(widths) - 1}
    columns = [str.ljust if place in words else str.rjust for place in range(len(widths))]
    return ["  ".join(side(cell, width) for side, cell, width in zip(columns, line, widths, strict=True)).rstrip() for line in lines]
