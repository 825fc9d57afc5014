"""The wire of simulated ranks: threads of one process, of which one runs at a time, and a clock that nobody waits for.

Two things happen at different moments:

    numbers    a rank runs until it needs what another one has not sent yet; then another rank has its turn. A tensor is copied
               as soon as both sides of its message are known.
    time       each rank leaves a list of what it posted, waited for and computed; `partkit.virtual_time` walks through the lists
               and says when each thing happened. It does so when the run is over, or when somebody asks what time it is.

Inside a collective nobody can see in which order the ranks' code runs, so there a rank may run ahead of its own sends: it keeps
a copy of what it sends and goes on; it may not leave the collective before all has been taken. A ring of p ranks then needs
a few turns for each rank instead of 2 (p - 1). Outside of collectives a send waits for its receive.
"""

from __future__ import annotations

from collections import deque
from ctypes import memmove, string_at
from typing import Any

import torch
from torch import Tensor

from partkit.transport.base import Combine
from partkit.transport.turns import RandomState, Turns
from partkit.virtual_time import Engine, Side
from partkit.virtual_time.engine import Seconds


class Stopped(BaseException):
    """Raised in a rank whose run is over without it; not an `Exception`, so that user code does not swallow it."""


class Simulation:
    """One run: the ranks' wires, whose turn it is, and the engine that keeps the time.

    Args:
        size: number of ranks.
        seconds: how long a message takes: ``seconds(src, dst, nbytes, start)``.
        random: what each rank draws its random numbers from.
    """

    def __init__(self, size: int, seconds: Seconds, random: list[RandomState]) -> None:
        self.size = size
        self.engine = Engine(size, seconds)
        self.wires = [SimulatedTransport(self, rank) for rank in range(size)]
        self.stopping = False
        self.defect: BaseException | None = None
        self.unfinished = set(range(size))
        self._ready: deque[int] = deque(range(size))
        self._grown: set[int] = set()
        self._turns = Turns(size + 1)  # the last one is whoever called `run`
        self._random = random
        self.boxes: dict[tuple[int, int, str, torch.dtype, int], deque[SimulatedWork]] = {}

    # -- turns ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let the ranks run until all have finished, or until none can go on. The caller's thread stands still meanwhile."""
        self._turns.give(self._next())
        self._turns.wait(self.size)
        if self.defect is not None and not self.stopping:
            self.stop()
            raise self.defect

    def stop(self) -> None:
        """End ranks that can't go on: `Stopped` is raised in each."""
        self.stopping = True
        self._ready = deque(sorted(self.unfinished))
        self.run()

    def begin(self, rank: int) -> None:
        """A rank's thread is there: it stands still until its first turn."""
        self._turns.wait(rank)
        self._random[rank].swap()

    def finish(self, rank: int) -> None:
        """A rank's function has ended; its thread touches nothing after this."""
        self._random[rank].swap()
        self.unfinished.remove(rank)
        self._turns.give(self._next())

    def suspend(self, rank: int) -> None:
        """Let others run until `ready` has been said of this rank, or the time it asked for is known."""
        if self.stopping:
            raise Stopped
        following = self._next()
        if following != rank:
            self._random[rank].swap()
            self._turns.give(following)
            self._turns.wait(rank)
            self._random[rank].swap()
        if self.stopping:
            raise Stopped

    def ready(self, rank: int) -> None:
        """What a rank stands still for has come."""
        self._ready.append(rank)

    def _next(self) -> int:
        """Whose turn it is: a rank that has what it needs; else the one that asks for the earliest time; else the caller of `run`."""
        if self._ready:
            rank = self._ready.popleft()
            self._grown.add(rank)
            return rank
        if self.stopping:
            return self.size
        grown, self._grown = self._grown, set()
        try:
            asking = self.engine.run(grown)
        except BaseException as defect:  # in a rank's thread it would be lost, and everybody would wait for ever
            self.defect, asking = defect, None
        if asking is None:
            return self.size
        self._grown.add(asking)
        return asking

    # -- messages ------------------------------------------------------------------------------------------------

    def post(self, work: SimulatedWork, box: tuple[int, int, str, torch.dtype, int]) -> None:
        """Meet the other side, if it has been posted before; otherwise wait in line for it."""
        line = self.boxes.get(box)
        if line is None:
            self.boxes[box] = deque((work,))
        elif not line or line[0].is_send is work.is_send:
            line.append(work)
        else:
            other = line.popleft()
            work.other, other.other = other, work
            send, recv = (work, other) if work.is_send else (other, work)
            if recv.combine is None:
                deliver(send, recv)
            if other.needed:
                other.needed = False
                self._ready.append(other.rank)


class SimulatedWork(Side):
    """One side of a message between simulated ranks."""

    __slots__ = ("_wire", "combine", "kept", "needed", "taken", "tensor")
    other: SimulatedWork | None

    def __init__(self, wire: SimulatedTransport, tensor: Tensor, peer: int, is_send: bool, combine: Combine | None = None) -> None:
        super().__init__(wire.rank, peer, tensor.numel() * tensor.element_size(), is_send)
        self._wire = wire
        self.tensor = tensor
        self.combine = combine
        self.kept: bytes | Tensor | None = None  # a copy of what was sent, if the sender has gone on before it was taken
        self.taken = False  # its tensor has been copied or combined
        self.needed = False  # its rank stands still for it

    def wait(self) -> None:
        """Go on when the other side is known; the time when it is done comes out later."""
        wire = self._wire
        wire.entries.append(self)
        other = self.other
        if other is None:
            if self.is_send and wire.ahead:
                self.kept = copy_of(self.tensor)
                wire.untaken.append(self)
                return
            wire.stand_still_for(self)
            other = self.other
            assert other is not None
        if self.is_send:
            if other.combine is not None and not self.taken:
                self.kept = copy_of(self.tensor)
        elif self.combine is not None:
            self.combine(self.tensor, as_tensor(other))
            other.taken = True


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

    def now(self) -> float:
        """How much this rank has done: what `times` turns into seconds."""
        return len(self.entries)

    def seconds(self) -> float:
        if self._simulation.stopping:
            raise Stopped
        engine = self._simulation.engine
        engine.asking.add(self.rank)
        self._simulation.suspend(self.rank)
        return engine.times[self.rank][-1]

    def times(self) -> list[float]:
        """Seconds for each value of `now` so far."""
        return self._simulation.engine.times[self.rank]

    def sleep(self, seconds: float) -> None:
        self.entries.append(float(seconds))

    def isend(self, tensor: Tensor, dst: int, tag: str) -> SimulatedWork:
        work = SimulatedWork(self, tensor, dst, True)
        self.entries.append(work)
        self._simulation.post(work, (self.rank, dst, tag, tensor.dtype, tensor.numel()))
        return work

    def irecv(self, buffer: Tensor, src: int, tag: str, combine: Combine | None = None) -> SimulatedWork:
        work = SimulatedWork(self, buffer, src, False, combine)
        self.entries.append(work)
        self._simulation.post(work, (src, self.rank, tag, buffer.dtype, buffer.numel()))
        return work

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
        self._simulation.suspend(self.rank)


def copy_of(tensor: Tensor) -> bytes | Tensor:
    """What ``tensor`` (contiguous) holds now."""
    if tensor.device.type == "cpu":
        return string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    return tensor.clone()


def as_tensor(send: SimulatedWork) -> Tensor:
    """What was sent, in the shape of the receiver's buffer."""
    kept = send.kept
    assert send.other is not None
    if kept is None:
        return send.tensor.view(send.other.tensor.shape)
    if isinstance(kept, Tensor):
        return kept.view(send.other.tensor.shape)
    if not kept:
        return torch.empty_like(send.other.tensor)
    return torch.frombuffer(bytearray(kept), dtype=send.tensor.dtype).view(send.other.tensor.shape)


def deliver(send: SimulatedWork, recv: SimulatedWork) -> None:
    """Copy the tensor: by plain memory, so that no dispatch mode takes it for the user's own operation."""
    kept, buffer = send.kept, recv.tensor
    if buffer.device.type != "cpu":
        buffer.copy_(as_tensor(send))
    elif recv.nbytes and not isinstance(kept, Tensor):
        memmove(buffer.data_ptr(), send.tensor.data_ptr() if kept is None else kept, recv.nbytes)
    send.taken, send.kept = True, None
