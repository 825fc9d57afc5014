"""The event loop of virtual time: walks through what all ranks do, in the order of time, and notes when each thing happens.

One heap holds what comes next: ``(time, rank)`` for a rank that can go on, ``(time, -1 - port)`` for a port that becomes free
and that messages wait for; a port goes before a rank, so that whoever has waited is served before whoever comes now. A message
that finds its ports free costs no entry. p ranks and n events: O(n log p).

What happens at one instant has no order but that of ranks, however the ranks' code was run:

    1    ports that become free serve those who wait for them
    2    ranks go on, and post; whoever asks for the time is told, and posts
    3    when no rank can do anything more at this instant: messages of which both sides are posted now begin, those of lower
         senders first, those of one sender in the order in which it posted them
    4    time-outs

Runs of exchanges need no order at all and take a way of their own (`partkit.virtual_time.exchanges`), before time goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from partkit.virtual_time.exchanges import Exchanges
from partkit.virtual_time.ports import Ports
from partkit.virtual_time.program import NEVER, Entry, Network, Run, Side, meet


class Engine:
    """Gives a time to every entry of every rank's list. The lists may grow between calls of `run`.

    Args:
        size: number of ranks.
        network: how long messages and computations take.

    Attributes:
        lists: by rank, what it does; append to them.
        times: by rank: ``times[r][k]`` is when rank r has done its first k entries, runs of exchanges not counted.
        clock: by rank: how far it has got.
        exchanges: the table that runs of exchanges point into.
        asking: ranks that want to know the time at the end of their list before they go on.
        heap: what comes next.

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
        self.clock = [0.0] * size
        self.exchanges = Exchanges(size, network)
        self.asking: set[int] = set()
        self.deaths = [network.death(rank) for rank in range(size)]
        self.heap: list[tuple[float, int]] = []
        self._now = 0.0
        self._place = [0] * size  # by rank: the entry that comes next
        self._posted: list[Side] = []  # at this instant
        self._num_posted = 0
        self._at_end = set(range(size))  # ranks that had come to the end of their list
        self._ports = Ports(self)
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
        heap = self.heap
        self.exchanges.grow()
        for rank in self._at_end.intersection(range(self.size) if grown is None else grown):
            self._at_end.remove(rank)
            heappush(heap, (self.clock[rank], rank))
        while not self._settled:
            if not heap or heap[0][0] > self._now or heap[0][1] >= self.size:
                if self._posted:
                    self._begin_what_is_posted()
                    continue
                if self.exchanges.moving:
                    self.exchange()
                    continue
                if not heap:
                    return None
            self._now, who = heappop(heap)
            if who < 0:
                self._ports.release(-1 - who, self._now)
            elif who >= self.size:
                self._expire(self._deadlines[who - self.size], self._now)
            elif self._advance(who, self._now):
                return who
        return self._settled.pop(0)

    def times_of(self, rank: int) -> npt.NDArray[np.float64]:
        """As `times`, with each exchange counted as four things done; as far as the rank has got."""
        plain = np.array(self.times[rank])
        taken, mark, pieces = 1, 0, [plain[:1]]
        for run in self.lists[rank][: self._place[rank] + 1]:
            if isinstance(run, Run):
                pieces.append(plain[taken : taken + run.mark - mark])
                taken += run.mark - mark
                pieces.append(self.exchanges.times(run))
                mark = run.mark + 4 * sum(end - first for first, end in run.pieces)
        return np.concatenate((*pieces, plain[taken:]))

    def _advance(self, rank: int, now: float) -> bool:
        """Let a rank do what it can do at this moment; True if it has got to the end and asks for the time."""
        entries, times, start = self.lists[rank], self.times[rank], now
        self.clock[rank] = now
        for place in range(self._place[rank], len(entries)):
            entry = entries[place]
            self._place[rank] = place
            if isinstance(entry, Side):
                if entry.posted < 0:
                    self._num_posted += 1
                    entry.posted, entry.order = now, self._num_posted
                    self._posted.append(entry)
                elif entry.end == NEVER:
                    entry.awaited = True
                    return False
                elif entry.end > now:
                    now = entry.end
            elif isinstance(entry, Run):
                self.exchanges.arrive(entry.pieces[0][0], now)
                return False
            else:
                now += self.network.computation(rank, entry, now)
            times.append(now)
            if now > start:
                self._go_on(rank, now)
                return False
        self._place[rank] = len(entries)
        self._at_end.add(rank)
        if rank in self.asking:
            self.asking.remove(rank)
            return True
        return False

    def _go_on(self, rank: int, at: float) -> None:
        """A rank has done its present entry."""
        self._place[rank] += 1
        self.clock[rank] = at
        heappush(self.heap, (at, rank))

    def exchange(self) -> None:
        """Give times to exchanges; ranks that come to the end of a run go on."""
        for rank, end in self.exchanges.sweep():
            run = self.lists[rank][self._place[rank]]
            assert isinstance(run, Run)
            run.over = True
            self._go_on(rank, end)

    def place(self, rank: int) -> int:
        """The entry of its list that a rank is at."""
        return self._place[rank]

    def stand_in(self, rank: int, place: int, posted: float, ends: tuple[float, float], both: tuple[Side, Side]) -> None:
        """A rank is at ``place``: it posted a receive and a send there, and has come as far as their ends allow (`expand`)."""
        recv, send = both
        recv.end, send.end = ends
        if posted > self._now:  # exchanges are ahead of everything else: what others do before that comes first
            self.clock[rank], self._place[rank] = posted, place
            heappush(self.heap, (posted, rank))
            return
        for side in both:
            self._num_posted += 1
            side.posted, side.order = posted, self._num_posted
        times = self.times[rank]
        times.extend((posted, posted) if recv.end == NEVER else (posted, posted, recv.end))
        self.clock[rank], self._place[rank] = times[-1], place + (2 if recv.end == NEVER else 3)
        (recv if recv.end == NEVER else send).awaited = True
        if send.other is None:
            self._alone[send.peer].append(send)

    # -- two sides meet ------------------------------------------------------------------------------------------

    def _begin_what_is_posted(self) -> None:
        """The messages of which both sides are posted now."""
        posted, self._posted = self._posted, []
        ready: dict[Side, None] = {}
        receivers: set[int] = set()
        for side in posted:
            if side.other is not None:
                if side.other.posted >= 0:
                    ready[side if side.is_send else side.other] = None
            elif side.is_send:
                self._alone[side.peer].append(side)
                receivers.add(side.peer)
            elif side.terms is not None:
                self._wait_for_first(side)
                receivers.add(side.rank)
        for rank in receivers:
            ready.update(dict.fromkeys(self._take(rank)))
        for send in sorted(ready, key=lambda send: (send.rank, send.order)) if len(ready) > 1 else ready:
            self._ports.ready(send, self._now)

    def _wait_for_first(self, recv: Side) -> None:
        """Of a receive that takes the first message to come: it does so until its deadline."""
        assert recv.terms is not None
        if recv.terms.timeout < NEVER:
            heappush(self.heap, (self._now + recv.terms.timeout, self.size + len(self._deadlines)))
            self._deadlines.append(recv)
        self._choosing[recv.rank].append(recv)

    def _take(self, rank: int) -> Iterator[Side]:
        """A rank's receives that take the first message, in the order of posting: each the send that has waited for longest, ties by rank."""
        if not self._choosing[rank]:
            return
        self._alone[rank] = [send for send in self._alone[rank] if send.other is None]
        for recv in list(self._choosing[rank]):
            fitting = [send for send in self._alone[rank] if recv.terms is not None and recv.terms.fit(send)]
            if fitting:
                send = min(fitting, key=lambda send: (send.posted, send.rank, send.order))
                self._alone[rank].remove(send)
                self._choosing[rank].remove(recv)
                recv.peer = send.rank
                meet(send, recv)
                yield send

    def _expire(self, recv: Side, now: float) -> None:
        """The deadline of a receive: give up, if nothing has come."""
        if recv.other is None and recv.terms is not None:
            self._choosing[recv.rank].remove(recv)
            recv.terms.expired, recv.end = True, now
            self._settled.append(recv)
            if recv.awaited:
                heappush(self.heap, (now, recv.rank))

    def finish(self, send: Side, end: float) -> None:
        """The end of a message is known: whoever waits for it goes on then."""
        for side in (send, send.other):
            assert side is not None
            side.end = end
            if side.awaited:
                heappush(self.heap, (end, side.rank))
            if side.timed or side.terms is not None:
                self._settled.append(side)

    def lose(self, send: Side, now: float) -> None:
        """A rank dies with the message on its way: it never arrives. A receive that takes what comes goes on waiting."""
        recv = send.other
        if recv is not None and recv.terms is not None and now < self.deaths[recv.rank]:
            recv.other, recv.peer = None, recv.terms.peer
            self._choosing[recv.rank].append(recv)
