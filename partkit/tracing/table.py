"""All ranks' events, growing while the run goes on: columns of numpy, and what can be counted in them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast, overload

import numpy as np
import numpy.typing as npt

from partkit.tracing.events import KIND_CODE, KINDS, RECORD, Clock, Columns, Event, Kind, Message
from partkit.tracing.recorder import Batch, Recorder
from partkit.tracing.sights import Sight

if TYPE_CHECKING:
    from partkit.tracing.replay import Durations, Hardware


class Trace:
    """All events of a run, growing while the run goes on.

    Args:
        size: number of ranks.
        clock: which clock the times are in.
        origin: the moment, in that clock, that becomes time 0.

    Example:
        >>> trace = Trace.from_events([Event(0, "send", 0.0, 1.0, peer=1, nbytes=8), Event(1, "recv", 0.0, 1.0, peer=0, nbytes=8)])
        >>> trace
        Trace(2 ranks, 2 events, 1 message, 8 bytes sent)
        >>> trace.bytes_sent(), trace.bytes_sent(rank=1), trace.num_messages(), trace.makespan
        (8, 0, 1, 1.0)
    """

    def __init__(self, size: int, *, clock: Clock = "wall", origin: float = 0.0) -> None:
        self.size = size
        self.clock: Clock = clock
        self.origin = origin
        self.replayed = ""
        """Of a replay: on what, and how long computations take there, in words."""
        self.strings: list[str] = [""]
        self.finished = threading.Event()
        """Set when the run that fills this trace is over."""
        self.sights: list[Sight] = []
        """What ranks held and sent, each rank's in order, if the run was recorded (`partkit.recording`)."""
        self._index: dict[str, int] = {"": 0}
        self._tables: dict[int, tuple[list[int], list[int]]] = {}
        """By rank: what its numbers of strings and of source lines are in `strings`."""
        self._rows: Columns = np.empty(256, dtype=RECORD)
        self._count = 0
        self._lock = threading.Lock()

    # -- filling it ----------------------------------------------------------------------------------------------

    @classmethod
    def from_events(cls, events: Iterable[Event], *, size: int | None = None, clock: Clock = "wall") -> Trace:
        """A finished trace of given events (a plan, a simulation, a test)."""
        events = list(events)
        trace = cls(max((e.rank for e in events), default=-1) + 1 if size is None else size, clock=clock)
        recorders = {rank: Recorder(rank) for rank in range(trace.size)}
        for e in sorted(events, key=lambda e: (e.start, e.rank)):
            peer = -1 if e.peer is None else e.peer
            recorders[e.rank].add(e.kind, e.start, e.end, peer, e.nbytes, e.seq, e.tag, e.span, e.site, e.group, e.value)
        for recorder in recorders.values():
            trace.append(recorder.drain())
        trace.finished.set()
        return trace

    @classmethod
    def from_columns(cls, rows: Columns, strings: list[str], *, size: int, clock: Clock) -> Trace:
        """A finished trace of records (dtype `RECORD`) and the table of strings that they point into."""
        trace = cls(size, clock=clock)
        trace.strings = strings
        trace._rows, trace._count = rows, len(rows)
        trace.finished.set()
        return trace

    def append(self, batch: Batch | None) -> None:
        """Add a rank's batch. Batches of one rank must come in order; ranks may interleave."""
        if batch is None:
            return
        self.sights.extend(sight._replace(time=sight.time - self.origin) for sight in batch.sights)
        if len(batch.records) == 0:
            return
        with self._lock:
            strings, sites = self._tables.setdefault(int(batch.records["rank"][0]), ([0], [0]))
            strings.extend(self.number_of(text) for text in batch.new_strings)
            sites.extend(self.number_of(text) for text in batch.new_sites)
            rows = batch.records.copy()
            for column, table in (("tag", strings), ("span", strings), ("site", sites), ("group", strings)):
                rows[column] = np.array(table, dtype=np.int32)[rows[column]]
            for column in ("start", "end", "waited"):
                rows[column] -= self.origin
            self._grow(self._count + len(rows))
            self._rows[self._count : self._count + len(rows)] = rows
            self._count += len(rows)

    def append_rows(self, rows: Columns) -> None:
        """Add records (dtype `RECORD`) whose times and texts are this trace's own already (`number_of`)."""
        with self._lock:
            self._grow(self._count + len(rows))
            self._rows[self._count : self._count + len(rows)] = rows
            self._count += len(rows)

    def reserve(self, count: int) -> None:
        """Make room for so many events at once; a trace that grows step by step takes up to three times the memory meanwhile."""
        with self._lock:
            if count > len(self._rows):
                self._grow(max(count, 2 * len(self._rows)))

    def _grow(self, needed: int) -> None:
        if needed > len(self._rows):
            bigger = np.empty(max(needed, 2 * len(self._rows)), dtype=RECORD)
            bigger[: self._count] = self._rows[: self._count]
            self._rows = bigger  # whoever holds the old array keeps a valid, shorter one

    def number_of(self, text: str) -> int:
        """Where a text is in `strings`; it is put there if need be."""
        if len(self._index) < len(self.strings):  # a trace made of columns looks nothing up until more is added
            self._index = {known: i for i, known in enumerate(self.strings)}
        if text not in self._index:
            self._index[text] = len(self.strings)
            self.strings.append(text)
        return self._index[text]

    # -- reading it ----------------------------------------------------------------------------------------------

    @property
    def columns(self) -> Columns:
        """The events so far as a record array (dtype `RECORD`), in the order of their arrival. Never changes under you."""
        return self._rows[: self._count]

    @property
    def events(self) -> EventList:
        """The events so far, ordered by start, ties by rank."""
        rows = self.columns
        return EventList(self, rows[np.lexsort((rows["rank"], rows["start"]))])

    def __len__(self) -> int:
        return self._count

    def _select(self, kind: Kind, rank: int | None) -> Columns:
        rows = self.columns
        chosen = rows["kind"] == KIND_CODE[kind]
        selected: Columns = rows[chosen if rank is None else chosen & (rows["rank"] == rank)]
        return selected

    def bytes_sent(self, rank: int | None = None) -> int:
        """Bytes in the messages that ``rank`` sent (all ranks: None)."""
        return int(self._select("send", rank)["nbytes"].sum())

    def num_messages(self, rank: int | None = None) -> int:
        """Messages that ``rank`` sent (all ranks: None)."""
        return len(self._select("send", rank))

    def metric(self, name: str, rank: int | None = None) -> list[float]:
        """The numbers that ranks noted under ``name`` with ``comm.log``, in order of time (of one rank, or of all)."""
        return [e.value for e in self.events if e.kind == "metric" and e.tag == name and rank in (None, e.rank)]

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end; 0 for an empty trace."""
        rows = self.columns
        return float(rows["end"].max() - rows["start"].min()) if len(rows) else 0.0

    def pairs(self) -> npt.NDArray[np.int64]:
        """Rows of `columns` that make messages, as an array of shape (messages, 2): send, receive. Vectorised."""
        from partkit.tracing.pairing import pairs

        return pairs(self.columns)

    def messages(self) -> list[Message]:
        """Every send with its receive, in order of the send's start. Sends without a receive are left out."""
        rows = self.columns
        found = [Message(self.event(rows[s]), self.event(rows[r])) for s, r in self.pairs()]
        return sorted(found, key=lambda m: (m.send.start, m.send.rank))

    def event(self, row: np.void) -> Event:
        """One row of `columns` in words."""
        peer, s = int(row["peer"]), self.strings
        return Event(
            int(row["rank"]),
            KINDS[row["kind"]],
            float(row["start"]),
            float(row["end"]),
            None if peer < 0 else peer,
            int(row["nbytes"]),
            s[row["tag"]],
            int(row["seq"]),
            s[row["span"]],
            s[row["site"]],
            s[row["group"]],
            float(row["value"]),
        )

    def filter(self, keep: Callable[[Event], bool]) -> Trace:
        """A new, finished trace of the events for which ``keep`` is true."""
        return Trace.from_events((e for e in self.events if keep(e)), size=self.size, clock=self.clock)

    def replay(self, cluster: Hardware, durations: Durations = "stated") -> Trace:
        """The same run on another cluster, in virtual time, without running it again. See `partkit.tracing.replay`.

        Args:
            cluster: links and devices.
            durations: what lies between messages: "stated" by ``comm.compute``, or "measured" by a live run's clock too.

        Example:
            >>> import torch, partkit as pk
            >>> with pk.SimulatedWorld(2) as world:
            ...     results = world.run(lambda comm: pk.all_reduce(torch.ones(1000), comm, algorithm="ring"))
            >>> world.trace.replay(pk.Cluster(link=pk.Link(latency=0.25, bandwidth=8000))).makespan
            1.0
        """
        from partkit.tracing.replay import replay

        return replay(self, cluster, durations)

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the trace to one file (numpy's npz, compressed). Read it back with `Trace.load`."""
        from partkit.tracing.files import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that `save` wrote.

        Raises:
            ValueError: the file is no partkit trace.
        """
        from partkit.tracing.files import load

        return load(path)

    def to_chrome(self, path: str | Path) -> Path:
        """Write Chrome trace JSON, for Perfetto and chrome://tracing: a process a rank, a flow arrow a message."""
        from partkit.tracing.files import to_chrome

        return to_chrome(self, path)

    def __repr__(self) -> str:
        def count(n: int, noun: str) -> str:
            return f"{n:,} {noun}" + ("" if n == 1 else "s")

        counts = (count(self.size, "rank"), count(len(self), "event"), count(self.num_messages(), "message"), count(self.bytes_sent(), "byte") + " sent")
        return f"Trace({', '.join(counts)})"


class EventList(Sequence[Event]):
    """The events of a trace as a list of `Event`, made one by one when asked for."""

    def __init__(self, trace: Trace, rows: Columns) -> None:
        self._trace, self._rows = trace, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self._trace.event(row) for row in self._rows[index]]
        return self._trace.event(cast("np.void", self._rows[index]))

    def __iter__(self) -> Iterator[Event]:
        return (self._trace.event(row) for row in self._rows)

    def __repr__(self) -> str:
        shown = "\n".join(f"  {event}" for event in self[:20])
        return f"{len(self):,} events\n{shown}" + ("\n  ..." if len(self) > 20 else "")
