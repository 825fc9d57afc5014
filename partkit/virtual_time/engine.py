"""The event loop of virtual time: walks through what all ranks do, in the order of time, and notes when each thing happens.

One heap holds what comes next: ``(time, rank)`` for a rank that can go on, ``(time, -1 - port)`` for a port that becomes free
and that messages wait for; a port goes before a rank, so that whoever has waited is served before whoever comes now. A message
that finds its ports free costs no entry. p ranks and n events: O(n log p).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from partkit.virtual_time.program import NEVER, Entry, Side


class Queued(NamedTuple):
    """A message that is ready and waits for a port."""

    ready: float
    number: int
    send: Side


Seconds = Callable[[int, int, int, float], float]
"""``seconds(src, dst, nbytes, start)``: how long a message takes that begins at ``start``."""


class Engine:
    """Gives a time to every entry of every rank's list. The lists may grow between calls of `run`.

    Args:
        size: number of ranks.
        seconds: how long a message takes.

    Attributes:
        lists: by rank, what it does; append to them.
        times: by rank: ``times[r][k]`` is when rank r has done its first k entries.
        asking: ranks that want to know the time at the end of their list before they go on.

    Example:
        >>> from partkit.virtual_time.program import meet
        >>> send, recv = Side(0, 1, 100, is_send=True), Side(1, 0, 100, is_send=False)
        >>> meet(send, recv)
        >>> engine = Engine(2, lambda src, dst, nbytes, start: 1.0 + nbytes / 50)
        >>> engine.lists[0] += [send, send]
        >>> engine.lists[1] += [0.5, recv, recv]
        >>> engine.run()
        >>> engine.times
        [[0.0, 0.0, 3.5], [0.0, 0.5, 0.5, 3.5]]
    """

    def __init__(self, size: int, seconds: Seconds) -> None:
        self.size = size
        self.seconds = seconds
        self.lists: list[list[Entry]] = [[] for _ in range(size)]
        self.times: list[list[float]] = [[0.0] for _ in range(size)]
        self.asking: set[int] = set()
        self._heap: list[tuple[float, int]] = []
        self._at_end = set(range(size))  # ranks that had come to the end of their list
        self._free = [0.0] * (2 * size)  # by port, when it becomes free: 2r is rank r's out-port, 2r + 1 its in-port
        self._queues: list[list[Queued]] = [[] for _ in range(2 * size)]  # by port: what waits for it
        self._num_queued = 0

    def run(self, grown: Iterable[int] | None = None) -> int | None:
        """Go on in the order of time.

        Args:
            grown: ranks whose lists may have grown, or who may ask, since the last call; None for all.

        Returns:
            The first rank that asks for its time and has got to the end of its list; None when nothing more can happen.
        """
        heap = self._heap
        for rank in self._at_end.intersection(range(self.size) if grown is None else grown):
            self._at_end.remove(rank)
            heappush(heap, (self.times[rank][-1], rank))
        while heap:
            time, who = heappop(heap)
            if who < 0:
                self._release(-1 - who, time)
            elif self._advance(who, time):
                return who
        return None

    def _advance(self, rank: int, now: float) -> bool:
        """Let a rank do what it can do at this moment; True if it has got to the end and asks for the time."""
        entries, times, start = self.lists[rank], self.times[rank], now
        for k in range(len(times) - 1, len(entries)):
            entry = entries[k]
            if isinstance(entry, float):
                now += entry
            elif entry.posted < 0:
                entry.posted = now
                other = entry.other
                if other is not None and other.posted >= 0:
                    self._ready(entry if entry.is_send else other, now)
            elif entry.end == NEVER:
                entry.awaited = True
                return False
            elif entry.end > now:
                now = entry.end
            times.append(now)
            if now > start:
                heappush(self._heap, (now, rank))
                return False
        self._at_end.add(rank)
        if rank in self.asking:
            self.asking.remove(rank)
            return True
        return False

    def _ready(self, send: Side, now: float) -> None:
        """Both sides are posted: begin, or wait for a port."""
        src, dst = send.rank, send.peer
        free = self._free
        if src == dst:
            self._finish(send, now)
            return
        out, into = 2 * src, 2 * dst + 1
        busy = out if free[out] > free[into] else into
        if free[busy] > now:
            self._num_queued += 1
            self._queue(Queued(now, self._num_queued, send), busy)
            return
        self._begin(send, now)

    def _begin(self, send: Side, now: float) -> None:
        """The message is on its way from now on, and keeps both ports until its end."""
        src, dst = send.rank, send.peer
        out, into = 2 * src, 2 * dst + 1
        self._free[out] = self._free[into] = end = now + self.seconds(src, dst, send.nbytes, now)
        self._finish(send, end)
        for port in (out, into):
            if self._queues[port]:
                heappush(self._heap, (end, -1 - port))

    def _finish(self, send: Side, end: float) -> None:
        """The end of a message is known: whoever waits for it goes on then."""
        for side in (send, send.other):
            assert side is not None
            side.end = end
            if side.awaited:
                heappush(self._heap, (end, side.rank))

    def _queue(self, waiting: Queued, port: int) -> None:
        """Wait for a port that is busy."""
        if not self._queues[port]:
            heappush(self._heap, (self._free[port], -1 - port))
        heappush(self._queues[port], waiting)

    def _release(self, port: int, now: float) -> None:
        """A port is free: of the messages that wait for it, begin the first whose other port is free too."""
        queue = self._queues[port]
        while queue and self._free[port] <= now:
            waiting = heappop(queue)
            src, dst = waiting.send.rank, waiting.send.peer
            other = 2 * dst + 1 if port == 2 * src else 2 * src
            if self._free[other] > now:
                self._queue(waiting, other)
            else:
                self._begin(waiting.send, now)
