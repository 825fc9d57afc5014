"""The event loop of virtual time: walks through what all ranks do, in the order of time, and notes when each thing happens.

One heap holds what comes next: ``(time, rank)`` for a rank that can go on, ``(time, -1 - port)`` for a port that becomes free
and that messages wait for; a port goes before a rank, so that whoever has waited is served before whoever comes now. A message
that finds its ports free costs no entry. p ranks and n events: O(n log p).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from partkit.virtual_time.program import NEVER, Entry, Network, Side, Terms, meet


class Queued(NamedTuple):
    """A message that is ready and waits for a port."""

    ready: float
    number: int
    send: Side


class Engine:
    """Gives a time to every entry of every rank's list. The lists may grow between calls of `run`.

    Args:
        size: number of ranks.
        network: how long messages and computations take.

    Attributes:
        lists: by rank, what it does; append to them.
        times: by rank: ``times[r][k]`` is when rank r has done its first k entries.
        asking: ranks that want to know the time at the end of their list before they go on.

    Example:
        >>> from partkit.virtual_time.program import meet
        >>> send, recv = Side(0, 1, 100, is_send=True), Side(1, 0, 100, is_send=False)
        >>> meet(send, recv)
        >>> from partkit.cluster import Cluster, Link
        >>> engine = Engine(2, Cluster(link=Link(latency=1.0, bandwidth=50)).network(2))
        >>> engine.lists[0] += [send, send]
        >>> engine.lists[1] += [0.5, recv, recv]
        >>> engine.run()
        >>> engine.times
        [[0.0, 0.0, 3.5], [0.0, 0.5, 0.5, 3.5]]
    """

    def __init__(self, size: int, network: Network) -> None:
        self.size = size
        self.network = network
        self.lists: list[list[Entry]] = [[] for _ in range(size)]
        self.times: list[list[float]] = [[0.0] for _ in range(size)]
        self.asking: set[int] = set()
        self.deaths = [network.death(rank) for rank in range(size)]
        self._heap: list[tuple[float, int]] = []
        self._at_end = set(range(size))  # ranks that had come to the end of their list
        self._free = [0.0] * (2 * size)  # by port, when it becomes free: 2r is rank r's out-port, 2r + 1 its in-port
        self._queues: list[list[Queued]] = [[] for _ in range(2 * size)]  # by port: what waits for it
        self._num_queued = 0
        self._alone: list[list[Side]] = [[] for _ in range(size)]  # by receiver: sends that were posted before any receive
        self._choosing: list[list[Side]] = [[] for _ in range(size)]  # by receiver: receives with terms that nothing has met
        self._deadlines: list[Side] = []
        self._settled: list[Side] = []

    def run(self, grown: Iterable[int] | None = None) -> Side | int | None:
        """Go on in the order of time.

        Args:
            grown: ranks whose lists may have grown, or who may ask, since the last call; None for all.

        Returns:
            What happens first: a timed side of which it is known now what becomes of it, or a rank that asks for its time and
            has got to the end of its list. None when nothing more can happen.
        """
        heap = self._heap
        for rank in self._at_end.intersection(range(self.size) if grown is None else grown):
            self._at_end.remove(rank)
            heappush(heap, (self.times[rank][-1], rank))
        while not self._settled:
            if not heap:
                return None
            time, who = heappop(heap)
            if who < 0:
                self._release(-1 - who, time)
            elif who >= self.size:
                self._expire(self._deadlines[who - self.size], time)
            elif self._advance(who, time):
                return who
        return self._settled.pop(0)

    def _advance(self, rank: int, now: float) -> bool:
        """Let a rank do what it can do at this moment; True if it has got to the end and asks for the time."""
        entries, times, start = self.lists[rank], self.times[rank], now
        for k in range(len(times) - 1, len(entries)):
            entry = entries[k]
            if not isinstance(entry, Side):
                now += self.network.computation(rank, entry, now)
            elif entry.posted < 0:
                self._post(entry, now)
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

    # -- two sides meet ------------------------------------------------------------------------------------------

    def _post(self, side: Side, now: float) -> None:
        side.posted = now
        if side.other is not None:
            if side.other.posted >= 0:
                self._ready(side if side.is_send else side.other, now)
        elif side.is_send:
            self._look_for_terms(side, now)
        elif side.terms is not None:
            self._look_for_send(side, side.terms, now)

    def _look_for_terms(self, send: Side, now: float) -> None:
        """A send that nobody has asked for by name: the first receive whose terms it fits takes it."""
        for recv in self._choosing[send.peer]:
            if recv.terms is not None and recv.terms.fit(send):
                self._choosing[send.peer].remove(recv)
                self._take(send, recv, now)
                return
        self._alone[send.peer].append(send)

    def _look_for_send(self, recv: Side, terms: Terms, now: float) -> None:
        """Of the sends that wait, the one that has waited for longest, ties by rank; or else wait, until the deadline."""
        alone = self._alone[recv.rank] = [send for send in self._alone[recv.rank] if send.other is None]
        fitting = [send for send in alone if terms.fit(send)]
        if terms.timeout < NEVER:
            heappush(self._heap, (now + terms.timeout, self.size + len(self._deadlines)))
            self._deadlines.append(recv)
        if fitting:
            self._take(min(fitting, key=lambda send: (send.posted, send.rank)), recv, now)
        else:
            self._choosing[recv.rank].append(recv)

    def _take(self, send: Side, recv: Side, now: float) -> None:
        recv.peer = send.rank
        meet(send, recv)
        self._ready(send, now)

    def _expire(self, recv: Side, now: float) -> None:
        """The deadline of a receive: give up, if nothing has come."""
        if recv.other is None and recv.terms is not None:
            self._choosing[recv.rank].remove(recv)
            recv.terms.expired, recv.end = True, now
            self._settled.append(recv)
            if recv.awaited:
                heappush(self._heap, (now, recv.rank))

    # -- ports ---------------------------------------------------------------------------------------------------

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
        self._free[out] = self._free[into] = end = now + self.network.message(src, dst, send.nbytes, now)
        if end <= self.deaths[src] and end <= self.deaths[dst]:
            self._finish(send, end)
        else:
            self._lose(send, now)
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
            if side.timed or side.terms is not None:
                self._settled.append(side)

    def _lose(self, send: Side, now: float) -> None:
        """A rank dies with the message on its way: it never arrives. A receive that takes what comes goes on waiting."""
        recv = send.other
        if recv is not None and recv.terms is not None and now < self.deaths[recv.rank]:
            recv.other, recv.peer = None, recv.terms.peer
            self._choosing[recv.rank].append(recv)

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
