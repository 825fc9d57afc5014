"""One run of simulated ranks: whose turn it is, which two sides of messages meet, and the engine that keeps the time."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_ulong, py_object, pythonapi

import numpy as np
import numpy.typing as npt

from partkit.transport.simulated.lanes import Lanes
from partkit.transport.simulated.turns import RandomState, Turns
from partkit.transport.simulated.wire import SimulatedTransport
from partkit.transport.simulated.work import Channel, SimulatedWork, Stopped, deliver
from partkit.virtual_time import Engine, Network


class Simulation:
    """One run: the ranks' wires, whose turn it is, and the engine that keeps the time.

    Args:
        size: number of ranks.
        network: how long messages and computations take.
        random: what each rank draws its random numbers from.
        rest: called with a rank whenever it stands still.
    """

    def __init__(self, size: int, network: Network, random: list[RandomState], rest: Callable[[int], object] = int) -> None:
        self._rest = rest
        self.size = size
        self.engine = Engine(size, network)
        self.lanes = Lanes(self)
        self.wires = [SimulatedTransport(self, rank) for rank in range(size)]
        self.stopping = False
        self._broken = False
        self.defect: BaseException | None = None
        self.unfinished = set(range(size))
        self._ready = OrderedDict.fromkeys(range(size))  # ranks that have what they need, in this order
        self.follow = -1  # who goes first, if it is ready
        self.most_exchanges = 2**31 - 1
        self._grown: set[int] = set()
        self._turns = Turns(size + 1)  # the last one is whoever called `run`
        self._random = random
        self.lines: dict[Channel, SimulatedWork | deque[SimulatedWork]] = {}  # by channel: one side posted, the other still to come

    # -- turns ---------------------------------------------------------------------------------------------------

    def run(self, meanwhile: Callable[[], object] = int) -> None:
        """Let the ranks run until all have finished, or until none can go on.

        Args:
            meanwhile: called ten times a second by the caller's thread, which stands still otherwise.
        """
        self._turns.give(self._next())
        while not self._turns.wait(self.size, 0.1):
            meanwhile()
        if self.defect is not None and not self.stopping:
            raise self.defect

    def stop(self) -> None:
        """End ranks that can't go on: `Stopped` is raised in each."""
        self.stopping = True
        self._ready = OrderedDict.fromkeys(sorted(self.unfinished))
        self.run()

    def break_off(self, threads: Sequence[threading.Thread]) -> None:
        """End all ranks at once, those that are computing too. Nothing can be asked of this simulation afterwards."""
        self.stopping = self._broken = True
        for rank, thread in enumerate(threads):
            if thread.ident is not None and thread.is_alive():
                pythonapi.PyThreadState_SetAsyncExc(c_ulong(thread.ident), py_object(Stopped))
            self._turns.free(rank)
        for thread in threads:
            thread.join(timeout=2.0)  # one that is in a long operation of C ends behind it

    def begin(self, rank: int) -> None:
        """A rank's thread is there: it stands still until its first turn."""
        self._turns.wait(rank)
        self._random[rank].draw_from()
        if self.stopping:
            raise Stopped

    def finish(self, rank: int) -> None:
        """A rank's function has ended; its thread touches nothing after this."""
        if self._broken:
            return
        self._random[rank].keep()
        self.wires[rank].close_run()
        self.unfinished.remove(rank)
        self._turns.give(self._next())

    def suspend(self, rank: int) -> None:
        """Let others run until `ready` has been said of this rank, or the time it asked for is known."""
        if self.stopping:
            raise Stopped
        self.wires[rank].close_run()
        following = self._next()
        if following != rank:
            self._random[rank].keep()
            self._rest(rank)
            self._turns.give(following)
            self._turns.wait(rank)
            self._random[rank].draw_from()
        if self.stopping:
            raise Stopped

    def ready(self, rank: int) -> None:
        """What a rank stands still for has come."""
        self._ready[rank] = None

    def _next(self) -> int:
        """Whose turn it is: a rank that has what it needs; else the one that asks for the earliest time; else the caller of `run`.

        Whoever is being sent to goes first: in a ring each rank then finds one message more than the one before it did, and after
        two laps all is done. In the opposite order everybody would find one message a lap.
        """
        try:
            while not self._ready and not self.stopping:
                grown, self._grown = self._grown, set()
                found = self.engine.run(grown)
                if isinstance(found, SimulatedWork):
                    self._settle(found)
                elif isinstance(found, int):
                    self.ready(found)
                else:
                    break
            if len(self.lanes.table) > self.most_exchanges:
                raise MemoryError(_too_many(self.size, len(self.lanes.table)))
        except BaseException as defect:  # in a rank's thread it would be lost, and everybody would wait for ever
            self.defect = defect
            return self.size
        if not self._ready:
            return self.size
        rank = self.follow
        if rank in self._ready:
            del self._ready[rank]
        else:
            rank, _ = self._ready.popitem(last=False)
        self._grown.add(rank)
        return rank

    def take_times(self) -> Iterator[npt.NDArray[np.float64]]:
        """When the run is over: for each rank, seconds for each value of `SimulatedTransport.now`. Once."""
        self.engine.run()
        for rank in range(self.size):
            yield self.engine.times_of(rank)
            self.engine.lists[rank].clear()
            self.engine.times[rank].clear()

    # -- messages ------------------------------------------------------------------------------------------------

    def post(self, work: SimulatedWork, channel: Channel) -> None:
        """Meet the other side, if it has been posted before; otherwise wait in line for it."""
        line = self.lines.pop(channel, None)
        if line is None:
            self.lines[channel] = work
            return
        if isinstance(line, SimulatedWork):  # one in line, as nearly always: that needs no queue
            if line.is_send is not work.is_send:
                self.meet(*((work, line) if work.is_send else (line, work)))
                return
            line = deque((line,))
        self.lines[channel] = line
        if line[0].is_send is work.is_send:
            line.append(work)
            return
        other = line.popleft()
        if not line:
            del self.lines[channel]
        self.meet(*((work, other) if work.is_send else (other, work)))

    def meet(self, send: SimulatedWork, recv: SimulatedWork) -> None:
        """Both sides are known: copy the tensor, and let those go on who stand still for the other side."""
        send.other, recv.other = recv, send
        send.tag = recv.tag = ""  # of no more use, and as large as all the rest of a message
        if recv.combine is None:
            deliver(send, recv)
        for work in (send, recv):
            if work.needed and not work.timed:
                work.needed = False
                self.ready(work.rank)

    def _settle(self, work: SimulatedWork) -> None:
        """The engine knows what becomes of a message that depends on time."""
        other = work.other
        if other is not None:
            send, recv = (work, other) if work.is_send else (other, work)
            if recv.terms is not None and not send.taken:
                line = self.lines.pop(send.channel)
                if isinstance(line, deque):
                    line.remove(send)
                    self.lines.update({send.channel: line} if line else {})
                self.meet(send, recv)
        if work.needed:
            work.needed = False
            self.ready(work.rank)


def _too_many(size: int, count: int) -> str:
    """Why a run ends that would fill the machine's memory."""
    return (
        f"{count:,} exchanges so far on {size} simulated ranks, and the memory that is free does not hold the times and events of more: "
        "take fewer ranks, trace=False, or an algorithm with fewer messages (a ring has p - 1 exchanges for each of p ranks and pass, "
        "recursive doubling log2(p)); what a collective costs on any number of ranks, partkit.cluster.COSTS says without running it"
    )
