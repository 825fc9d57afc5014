"""One rank's events, on their way into a trace: noted for the price of a tuple, drained in batches by another thread."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from partkit.tracing.events import KIND_CODE, RECORD, Columns, Kind
from partkit.tracing.sights import Sight

COLUMNS = ("rank", "kind", "start", "end", "peer", "nbytes", "seq", "tag", "span", "site", "group", "value", "waited", "done")
"""What `Recorder.add` keeps of an event, in this order."""
CPU_CYCLE = 2**31
"""Microseconds, 36 minutes, after which the count of a thread's work starts again from 0: differences stay right."""
CPU_SECONDS = 500e-6
"""Shortest time between two looks at the thread's own clock, which costs as much as all the rest of an event. What was worked between
two looks is known; how it spreads over the events of so short a time is not, and matters to nobody."""
TEXT = {"tag", "span", "site", "group"}


class Batch(NamedTuple):
    """Some events of one rank on their way into a `Trace`."""

    new_strings: list[str]
    """Strings this batch uses for the first time; they continue the rank's own table."""
    records: Columns
    """Dtype `RECORD`; times absolute, in the clock of the rank."""
    new_sites: Sequence[str] = ()
    """The same for source lines, which have a table of their own: whoever merges batches may rename them."""
    sights: Sequence[Sight] = ()
    """What the rank held and sent, if it is being recorded; times absolute."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its records as bytes: the names of their columns take longer to write than a few events."""
        return _batch_of, (self.new_strings, self.records.tobytes(), self.new_sites, self.sights)


def _batch_of(new_strings: list[str], records: bytes, new_sites: Sequence[str], sights: Sequence[Sight]) -> Batch:
    return Batch(new_strings, np.frombuffer(records, dtype=RECORD), new_sites, sights)


class CpuClock:
    """Shows for how many microseconds the thread that restarted it has used a core since then, modulo `CPU_CYCLE`; -1 to other threads.

    Example:
        >>> clock = CpuClock()
        >>> before = clock.read()
        >>> sum(range(100_000)) > 0 and clock.read() >= before >= 0
        True
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Show 0 from now on, to this thread."""
        self._thread, self._begin = threading.get_ident(), time.thread_time_ns()

    def read(self) -> int:
        """Microseconds."""
        return (time.thread_time_ns() - self._begin) // 1000 % CPU_CYCLE if threading.get_ident() == self._thread else -1


class Recorder:
    """Collects the events of one rank.

    Args:
        rank: world rank.
        enabled: a recorder that is not enabled keeps nothing.
        cpu: of a live rank: how much its thread has worked; asked at the end of an event, once in `CPU_SECONDS` at most, else -1 is noted.
    """

    def __init__(self, rank: int, *, enabled: bool = True, cpu: CpuClock | None = None) -> None:
        self.rank = rank
        self.enabled = enabled
        self._cpu = cpu
        self._next_look = -math.inf
        """An event that ends before then leaves the clock alone."""
        self._events: deque[tuple[Any, ...]] = deque()  # append and popleft are atomic: written by one thread, drained by another
        self._sights: deque[Sight] = deque()
        self._strings: dict[str, int] = {"": 0}
        self._sites: dict[str, int] = {"": 0}

    def add(
        self,
        kind: Kind,
        start: float,
        end: float,
        peer: int = -1,
        nbytes: int = 0,
        seq: int = 0,
        tag: str = "",
        span: str = "",
        site: str = "",
        group: str = "",
        value: float = 0.0,
        waited: float | None = None,
    ) -> None:
        """Note one event. Times are absolute, in the transport's clock."""
        if self.enabled:
            if waited is None:
                waited = start
            done = 0 if self._cpu is None else -1 if end < self._next_look else self._look(self._cpu, end)
            self._events.append((self.rank, KIND_CODE[kind], start, end, peer, nbytes, seq, tag, span, site, group, value, waited, done))

    def _look(self, cpu: CpuClock, end: float) -> int:
        worked = cpu.read()
        if worked >= 0:  # else it is another thread's
            self._next_look = end + CPU_SECONDS
        return worked

    def see(self, sight: Sight) -> None:
        """Note what the rank holds; time absolute."""
        if self.enabled:
            self._sights.append(sight)

    def __len__(self) -> int:
        return len(self._events)

    def drain(self) -> Batch | None:
        """Take out all events and sights so far; None if there are none."""
        rows = [self._events.popleft() for _ in range(len(self._events))]
        sights = [self._sights.popleft() for _ in range(len(self._sights))]
        if not rows:
            return Batch([], np.empty(0, dtype=RECORD), (), sights) if sights else None
        strings, sites = self._strings, self._sites
        known, known_sites = len(strings), len(sites)
        records = np.zeros(len(rows), dtype=RECORD)
        for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True):
            records[name] = _numbers(sites if name == "site" else strings, column) if name in TEXT else column
        return Batch(list(strings)[known:], records, list(sites)[known_sites:], sights)

    def reset(self) -> None:
        """Forget events, sights and strings: the next batch starts a new trace."""
        if self._cpu is not None:
            self._cpu.restart()
            self._next_look = -math.inf
        self._events.clear()
        self._sights.clear()
        self._strings, self._sites = {"": 0}, {"": 0}


def _numbers(table: dict[str, int], texts: Sequence[str]) -> list[int]:
    """The number of each text in ``table``, new ones if need be. Few differ, so most of it is one look-up each."""
    for text in dict.fromkeys(texts):
        table.setdefault(text, len(table))
    return list(map(table.__getitem__, texts))
