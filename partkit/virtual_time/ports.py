"""Ports: a rank sends one message at a time, and receives one at a time. Messages that are ready wait for both of theirs.

port      2 r: rank r's way out      2 r + 1: its way in
free      when it becomes free
queue     what waits for it, the message that has been ready for longest first
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from partkit.virtual_time.program import Side

if TYPE_CHECKING:
    from partkit.virtual_time.engine import Engine


class Queued(NamedTuple):
    """A message that is ready and waits for a port."""

    ready: float
    number: int
    send: Side


class Ports:
    """The ports of all ranks.

    Args:
        engine: whose heap is told when a port that messages wait for becomes free, and who is told when a message ends.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._free = [0.0] * (2 * engine.size)
        self._queues: list[list[Queued]] = [[] for _ in range(2 * engine.size)]
        self._num_queued = 0

    def ready(self, send: Side, now: float) -> None:
        """Both sides are posted: begin, or wait for a port."""
        src, dst = send.rank, send.peer
        free = self._free
        if src == dst:
            self._engine.finish(send, now)
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
        self._free[out] = self._free[into] = end = now + self._engine.network.message(src, dst, send.nbytes, now)
        if end <= self._engine.deaths[src] and end <= self._engine.deaths[dst]:
            self._engine.finish(send, end)
        else:
            self._engine.lose(send, now)
        for port in (out, into):
            if self._queues[port]:
                heappush(self._engine.heap, (end, -1 - port))

    def _queue(self, waiting: Queued, port: int) -> None:
        """Wait for a port that is busy."""
        if not self._queues[port]:
            heappush(self._engine.heap, (self._free[port], -1 - port))
        heappush(self._queues[port], waiting)

    def release(self, port: int, now: float) -> None:
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
