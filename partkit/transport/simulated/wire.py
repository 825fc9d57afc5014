"""One rank's end of the simulated wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from partkit.transport.base import Combine
from partkit.transport.simulated.work import Channel, Died, SimulatedWork, Stopped
from partkit.virtual_time import Computation, Terms
from partkit.virtual_time.program import NEVER

if TYPE_CHECKING:
    from partkit.transport.simulated.simulation import Simulation


class SimulatedTransport:
    """One rank's end of the simulated wire.

    Args:
        simulation: the run.
        rank: whose end it is.
    """

    def __init__(self, simulation: Simulation, rank: int) -> None:
        self._simulation = simulation
        self.rank = rank
        self.size = simulation.size
        self.entries = simulation.engine.lists[rank]
        self.ahead = 0
        """How many collectives this rank is inside of: there it may run ahead of its sends."""
        self.untaken: list[SimulatedWork] = []
        """Sends that it has run ahead of."""
        self.scratch: Tensor | None = None
        """Where what was sent lies while it is being combined."""
        self.standing_for: SimulatedWork | None = None
        """The message whose other side it stands still for."""
        self.choosing: list[SimulatedWork] = []
        """Its receives that take the first message to come, and are not done."""
        self._mortal = [rank for rank, death in enumerate(simulation.engine.deaths) if death < NEVER]
        self._death = simulation.engine.deaths[rank]

    def now(self) -> float:
        """How much this rank has done: which `Simulation.take_times` turns into seconds."""
        return len(self.entries)

    def seconds(self) -> float:
        if self._simulation.stopping:
            raise Stopped
        engine = self._simulation.engine
        engine.asking.add(self.rank)
        self._simulation.suspend(self.rank)
        return engine.times[self.rank][-1]

    def sleep(self, seconds: float, work: Computation | None = None) -> None:
        self.entries.append(float(seconds) if work is None else work)
        self._live_or_die()

    def isend(self, tensor: Tensor, dst: int, tag: str) -> SimulatedWork:
        work = SimulatedWork(self, tensor, dst, tag, True)
        self._post(work, (self.rank, dst, tag, tensor.dtype, tensor.numel()))
        return work

    def irecv(self, buffer: Tensor, src: int, tag: str, combine: Combine | None = None) -> SimulatedWork:
        work = SimulatedWork(self, buffer, src, tag, False, combine)
        if self.choosing and any(other.kind == work.kind for other in self.choosing):
            return self._choose(work, NEVER)  # behind those: they were posted before
        self._post(work, (src, self.rank, tag, buffer.dtype, buffer.numel()))
        return work

    def exchange(self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None = None, own: Tensor | None = None) -> int | None:
        """Receive what has been sent already, and send: as if the receive were posted first, then the send, and both waited for in this order."""
        simulation, rank = self._simulation, self.rank
        incoming = (src, rank, tag, buffer.dtype, buffer.numel())
        theirs = simulation.lines.get(incoming)
        if not isinstance(theirs, SimulatedWork) or not theirs.is_send or not self.ahead or self._mortal or self.choosing:
            return None
        del simulation.lines[incoming]
        recv, send = SimulatedWork(self, buffer, src, tag, False, None if own is not None else combine), SimulatedWork(self, x, dst, tag, True)
        simulation.post(send, (rank, dst, tag, x.dtype, x.numel()))
        simulation.meet(theirs, recv)
        if recv.combine is not None:
            recv.combine_with(theirs)
        elif combine is not None and own is not None:
            combine(buffer, own)
        send.go_on()
        recv.tensor = None
        entries = self.entries
        entries.extend((recv, send, recv, send))
        return len(entries) - 4

    def irecv_first(self, buffer: Tensor, src: int, tag: str, timeout: float | None) -> SimulatedWork:
        work = SimulatedWork(self, buffer, src, tag, False)
        return self._choose(work, NEVER if timeout is None else timeout)

    def _choose(self, work: SimulatedWork, timeout: float) -> SimulatedWork:
        work.terms = Terms(work.peer, work.kind, timeout)
        self._live_or_die()
        self.choosing.append(work)
        self.entries.append(work)
        return work

    def _post(self, work: SimulatedWork, channel: Channel) -> None:
        if self._mortal:
            self._live_or_die()
            work.timed = self.rank in self._mortal or work.peer in self._mortal
        self.entries.append(work)
        self._simulation.post(work, channel)

    def _live_or_die(self) -> None:
        """A rank that is to die does nothing after its death: it goes on when its time is known."""
        if self._death < NEVER and self.seconds() >= self._death:
            raise Died

    def native_group(self, ranks: tuple[int, ...]) -> Any:
        raise RuntimeError("simulated ranks have no torch.distributed: take one of partkit's own algorithms, for example algorithm='ring'")

    def enter(self) -> None:
        self.ahead += 1

    def leave(self, *, failed: bool) -> None:
        self.ahead -= 1
        untaken, self.untaken = self.untaken, []
        for work in () if failed else reversed(untaken):  # when the last has been taken, most others have been too
            if work.other is None:
                self.stand_still_for(work)

    def stand_still_for(self, work: SimulatedWork) -> None:
        """Let others run until the other side of ``work`` has been posted."""
        work.needed = True
        self.standing_for = work
        self._simulation.suspend(self.rank)
        self.standing_for = None
