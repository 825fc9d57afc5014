"""What the lanes of a run share: sends that nobody has taken yet, and the table of exchanges.

Inside a collective a rank runs ahead of its sends, and what it is to receive has mostly been sent before its turn came. So all that a
send and a receive at once have to do is to keep a copy of what is sent, to copy what has come into the buffer, and to write one row
into a table; times and events are made from it when the run is over (`partkit.virtual_time.exchanges`). Nothing is an object.

    held[tag, src, dst]      a send that nobody has taken yet, or several: copies of their bytes, and their rows;
                             or a rank that stands still for the send that will come

A tag is used either this way by all ranks, or one by one (`partkit.transport.simulated.work`) by all. Where ranks turn out to differ,
what has no time yet is written out as messages one by one (`partkit.virtual_time.expansion`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from partkit.transport.base import Combine
from partkit.transport.simulated.memory import put
from partkit.transport.simulated.relays import Relays
from partkit.transport.simulated.work import SimulatedWork
from partkit.virtual_time.expansion import expand

if TYPE_CHECKING:
    from partkit.transport.simulated.simulation import Simulation

ONE_BY_ONE = -1
"""In place of the number of a tag: its messages are posted one by one."""


class Ledger:
    """How many sends of a rank nobody has taken yet."""

    __slots__ = ("awaited", "count")

    def __init__(self) -> None:
        self.count = 0
        self.awaited = False  # the rank stands still until all have been taken


Sent = tuple[bytes | Tensor, int, int, torch.dtype, Ledger]
"""A send that nobody has taken: a copy of its data, its row, number of elements, dtype, where it is counted. A plain tuple, for speed."""


class Waiting:
    """A rank that stands still inside an exchange: it has sent, and what it is to receive is still to come."""

    __slots__ = ("buffer", "combine", "own", "row")

    def __init__(self, row: int, buffer: Tensor, combine: Combine | None, own: Tensor | None) -> None:
        self.row, self.buffer, self.combine, self.own = row, buffer, combine, own


class Note(NamedTuple):
    """What all exchanges of a lane have in common, for their events."""

    span: str
    site: str
    group: str


class Untaken(NamedTuple):
    """A send that nobody has taken, in words."""

    peer: int
    wire_tag: str
    numel: int
    dtype: torch.dtype


Held = Sent | Waiting | deque[Sent]


class Lanes:
    """What the lanes of a run share.

    Args:
        simulation: the run.

    Attributes:
        notes: by number of a lane.
        tags: by number of a tag: what stands before it on the wire, and itself.
        held: by tag, src and dst.
        relays: rings of exchanges that are done many at a time.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.table = simulation.engine.exchanges
        self.size = simulation.size
        self.notes: list[Note] = []
        self.tags: list[tuple[str, str]] = []
        self.held: dict[int, Held] = {}
        self.relays = Relays(self)
        self._numbers: dict[str, dict[str, int]] = {}

    def key(self, number: int, src: int, dst: int) -> int:
        """Where sends are held."""
        return (number * self.size + src) * self.size + dst

    def numbers(self, before: str) -> dict[str, int]:
        """The numbers of tags behind ``before``, or `ONE_BY_ONE`."""
        return self._numbers.setdefault(before, {})

    def number_of(self, before: str, tag: str) -> int:
        """Of a tag that is used for the first time. Of one with a | nobody could tell afterwards what stands before it."""
        self.relays.give_up(before, tag)
        known = self._numbers[before].get(tag)
        if known is not None:
            return known
        number = self._numbers[before][tag] = ONE_BY_ONE if "|" in tag else len(self.tags)
        if number != ONE_BY_ONE:
            self.tags.append((before, tag))
        return number

    def one_by_one(self, wire_tag: str) -> None:
        """From now on the messages of this tag are posted one by one."""
        before, _, tag = wire_tag.rpartition("|")
        self.relays.give_up(before, tag)
        numbers = self.numbers(before)
        number = numbers.get(tag)
        if number != ONE_BY_ONE:
            numbers[tag] = ONE_BY_ONE
            if number is not None and any(key // self.size**2 == number for key in self.held):
                self.expand()

    def expand(self) -> None:
        """Write out what has no times yet as messages one by one; sends that nobody has taken stand in line for their other sides."""
        simulation = self._simulation
        self.relays.unroll_all()
        posted: dict[int, tuple[SimulatedWork | None, SimulatedWork | None]] = {}
        for key, sent in self._sends():
            posted[sent[1]] = None, self._send_of(key, sent)
        for key, held in self.held.items():
            if isinstance(held, Waiting):
                recv = SimulatedWork(simulation.wires[key % self.size], held.buffer, key // self.size % self.size, self._wire_tag(key), False)
                recv.needed = True
                posted[held.row] = recv, posted.get(held.row, (None, None))[1]
        for key in self.held:
            before, tag = self.tags[key // self.size**2]
            self._numbers[before][tag] = ONE_BY_ONE
        self.held.clear()
        for wire in simulation.wires:
            wire.close_run()
        expand(simulation.engine, posted)
        for work in (work for both in posted.values() for work in both if work is not None):
            simulation.post(work, work.channel)

    def untaken(self, rank: int) -> Untaken | None:
        """The last send of a rank that nobody has taken. Asked when nothing can move any more."""
        self.relays.unroll_all()
        found = [(key, sent) for key, sent in self._sends() if key // self.size % self.size == rank]
        return Untaken(found[-1][0] % self.size, self._wire_tag(found[-1][0]), *found[-1][1][2:4]) if found else None

    def unfinished(self) -> list[int]:
        """Rows whose ranks stand still in them."""
        return [held.row for held in self.held.values() if isinstance(held, Waiting)]

    def taken(self, rank: int, ledger: Ledger, count: int = 1) -> None:
        """Sends of this rank have been taken."""
        ledger.count -= count
        if ledger.awaited and not ledger.count:
            self.all_taken(rank, ledger)

    def all_taken(self, rank: int, ledger: Ledger) -> None:
        """The rank stands still for nothing but that."""
        ledger.awaited = False
        self._simulation.ready(rank)

    def deliver(self, key: int, waiting: Waiting, data: bytes | Tensor, row: int) -> None:
        """What a rank stands still for is being sent."""
        put(data, waiting.buffer)
        self.table.late.append((waiting.row, row))
        del self.held[key]
        self._simulation.ready(key % self.size)

    def _sends(self) -> Iterator[tuple[int, Sent]]:
        """All that nobody has taken."""
        for key, held in self.held.items():
            if not isinstance(held, Waiting):
                yield from ((key, sent) for sent in ([held] if isinstance(held, tuple) else held))

    def _wire_tag(self, key: int) -> str:
        return "|".join(self.tags[key // self.size**2])

    def _send_of(self, key: int, sent: Sent) -> SimulatedWork:
        """A send that its rank has run ahead of."""
        data, _, numel, dtype, ledger = sent
        rank = key // self.size % self.size
        wire = self._simulation.wires[rank]
        tensor = data if isinstance(data, Tensor) else torch.frombuffer(bytearray(data) or bytearray(dtype.itemsize), dtype=dtype, count=numel or 1)[:numel]
        work = SimulatedWork(wire, tensor, key % self.size, self._wire_tag(key), True)
        work.kept = data
        wire.untaken.append(work)
        self.taken(rank, ledger)
        return work
