"""One rank's end of the simulated wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from partkit.transport.base import Combine
from partkit.transport.simulated.lane import Lane, ShapesLane
from partkit.transport.simulated.lanes import Ledger, Note, Waiting
from partkit.transport.simulated.work import Channel, Died, SimulatedWork, Stopped
from partkit.virtual_time import Computation, Entry, Run, Terms
from partkit.virtual_time.exchanges import ROW, Rows, pack
from partkit.virtual_time.program import NEVER

if TYPE_CHECKING:
    from partkit.transport.simulated.simulation import Simulation


ROW_BYTES = ROW.itemsize


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
        self._rows = simulation.engine.exchanges.rows
        self._run: Run | None = None  # exchanges that it does one after the other
        self.mark = 0
        """How much it has done: entries, and four for each exchange."""
        self.open = 0
        """Messages that were posted one by one and not waited for yet."""
        self.sends_to = -1
        """Where its exchanges have sent to lately."""
        self.ledger = Ledger()
        """Counts the sends of exchanges that it has run ahead of."""
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
        return self.mark

    def note(self, entry: Entry) -> None:
        """One more thing done."""
        if self._run is not None:
            self.close_run()
        self.entries.append(entry)
        self.mark += 1

    def write_row(self, src: int, dst: int, source: int, tag: int, lane: int, received: int, sent: int) -> int:
        """One more exchange: the number of its row (`partkit.virtual_time.exchanges`)."""
        rows = self._rows
        row, mark = len(rows) // ROW_BYTES, self.mark
        if self._run is None:
            self._begin_run(row, mark)
        rows += pack(self.rank, src, dst, source, mark, tag, lane, received, sent)
        self.mark = mark + 4
        return row

    def write_rows(self, rows: Rows) -> int:
        """More exchanges, one after the other: the number of the first row. Their marks are filled in."""
        row, mark = len(self._rows) // ROW_BYTES, self.mark
        if self._run is None:
            self._begin_run(row, mark)
        rows["mark"] = np.arange(mark, mark + 4 * len(rows), 4)
        self._rows += rows.tobytes()
        self.mark = mark + 4 * len(rows)
        return row

    def _begin_run(self, row: int, mark: int) -> None:
        last = self.entries[-1] if self.entries else None
        if isinstance(last, Run) and not last.over:
            self._run = last
            self._simulation.engine.exchanges.go_on(last, row)
        else:
            self._run = Run(row, mark)
            self.entries.append(self._run)

    def close_run(self) -> None:
        """What follows is something else than exchanges, or another rank's."""
        if self._run is not None:
            self._simulation.engine.exchanges.close(self._run, len(self._rows) // ROW_BYTES)
            self._run = None

    def seconds(self) -> float:
        if self._simulation.stopping:
            raise Stopped
        engine = self._simulation.engine
        engine.asking.add(self.rank)
        self._simulation.suspend(self.rank)
        return engine.clock[self.rank]

    def sleep(self, seconds: float, work: Computation | None = None) -> None:
        self.note(float(seconds) if work is None else work)
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

    def lane(self, ranks: tuple[int, ...], before: str, span: str, site: str, group: str) -> Lane | None:
        """The short way of exchanges in a collective; None if there is none: conditions of the cluster must be asked in the order of time.

        Args:
            ranks: world rank of each place of the group.
            before: what stands before the tag on the wire.
            span: of the events, as the next two.
            site: source line.
            group: its name.
        """
        simulation = self._simulation
        if not simulation.engine.network.steady or not self.ahead or self.choosing:
            return None
        kind = ShapesLane if torch._C._len_torch_function_stack() else Lane
        return kind(self, simulation.lanes, ranks, before, Note(span, site, group))

    def stand_still_in(self, waiting: Waiting) -> None:
        """Let others run until what an exchange receives has come."""
        self._simulation.follow = self.sends_to
        self._simulation.suspend(self.rank)
        if waiting.combine is not None and waiting.own is not None:
            waiting.combine(waiting.buffer, waiting.own)

    def irecv_first(self, buffer: Tensor, src: int, tag: str, timeout: float | None) -> SimulatedWork:
        work = SimulatedWork(self, buffer, src, tag, False)
        return self._choose(work, NEVER if timeout is None else timeout)

    def _choose(self, work: SimulatedWork, timeout: float) -> SimulatedWork:
        work.terms = Terms(work.peer, work.kind, timeout)
        self._live_or_die()
        self.choosing.append(work)
        self._count(work)
        return work

    def _post(self, work: SimulatedWork, channel: Channel) -> None:
        if self._mortal:
            self._live_or_die()
            work.timed = self.rank in self._mortal or work.peer in self._mortal
        self._count(work)
        self._simulation.post(work, channel)

    def _count(self, work: SimulatedWork) -> None:
        """A message is posted by itself."""
        if self.ahead:
            self._simulation.lanes.one_by_one(work.tag)
        self.open += 1
        self.note(work)

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
        if failed:
            self.untaken, self.ledger = [], Ledger()
            return
        if self.ledger.count:
            self.ledger.awaited = True
            self._simulation.follow = self.sends_to
            self._simulation.suspend(self.rank)
        untaken, self.untaken = self.untaken, []
        for work in reversed(untaken):  # when the last has been taken, most others have been too
            if work.other is None:
                self.stand_still_for(work)

    def stand_still_for(self, work: SimulatedWork) -> None:
        """Let others run until the other side of ``work`` has been posted."""
        work.needed = True
        self.standing_for = work
        self._simulation.suspend(self.rank)
        self.standing_for = None
