"""Relays: rings in which each rank hands on what it gets, told to the wire as one thing, so that hundreds of exchanges are one step.

A rank that has its turn in a ring of p ranks mostly finds several blocks that its neighbour has sent already. One exchange after the
other, each would be a call; a `partkit.transport.simulated.leg.Leg` copies, combines and writes down all of them at once:

    stream[src -> dst]   | blocks of steps 1 to 5 | 6 to 9 | ...      parcels, by the turns of src in which they were sent
    dst's turn           takes all there is, in this order, and makes a parcel of it for the rank behind

Nothing else is different: the rows of the table, the times and the events are those of exchanges one by one. Where a rank sends or
receives under one of the relay's tags in another way, the relay is *unrolled*: what is in its streams becomes sends as they are held
for exchanges (`partkit.transport.simulated.lanes`), and its ranks go on exchange by exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from partkit.transport.simulated.lanes import Lanes, Ledger

Ints = npt.NDArray[np.int64]


class Piece(NamedTuple):
    """Blocks that lie side by side in memory, the last one first: what is sent in so many steps."""

    steps: int
    data: bytes | None
    """None if tensors hold no numbers."""


class Parcel(NamedTuple):
    """What a rank has sent in one turn."""

    row: int
    """Of its first step; those of the others follow."""
    pieces: list[Piece]


class Stream:
    """What one rank sends to the next one in a relay.

    Args:
        numels: elements, by step.
        dtype: of all.
        ledger: where the sender's untaken sends are counted.

    Attributes:
        parcels: sent, and not taken.
        taken: steps that have been taken.
    """

    __slots__ = ("dtype", "ledger", "numels", "parcels", "taken")

    def __init__(self, numels: Ints, dtype: torch.dtype, ledger: Ledger) -> None:
        self.numels, self.dtype, self.ledger = numels, dtype, ledger
        self.parcels: list[Parcel] = []
        self.taken = 0


class Relay:
    """A ring among the ranks of a group in one collective call.

    Args:
        before: what stands before its tags on the wire.
        tag: what they have in common: ``tag 1``, ``tag 2``, ...
        base: number of the tag of its first step; those of the others follow.
        steps: how many.

    Attributes:
        streams: by sender and receiver.
        unrolled: it is no more.
    """

    __slots__ = ("base", "before", "steps", "streams", "tag", "unrolled")

    def __init__(self, before: str, tag: str, base: int, steps: int) -> None:
        self.before, self.tag, self.base, self.steps = before, tag, base, steps
        self.streams: dict[tuple[int, int], Stream] = {}
        self.unrolled = False


class Relays:
    """All relays of a run.

    Args:
        lanes: what the lanes of the run share.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._by_name: dict[str, dict[str, Relay]] = {}  # by what stands before the tags on the wire, and what they have in common

    def of(self, before: str, tag: str, steps: int) -> Relay | None:
        """The relay whose tags are ``tag 1``, ``tag 2``, ...; None if they are used, or have been used, in another way.

        Args:
            before: what stands before them on the wire.
            tag: what they have in common.
            steps: how many.
        """
        named = self._by_name.setdefault(before, {})
        relay = named.get(tag)
        if relay is None:
            numbers, tags = self._lanes.numbers(before), [f"{tag} {step}" for step in range(1, steps + 1)]
            if "|" in tag or any(each in numbers for each in tags):
                return None
            relay = named[tag] = Relay(before, tag, len(self._lanes.tags), steps)
            self._lanes.tags += [(before, each) for each in tags]
        elif relay.steps != steps:
            self.unroll(relay)
        return None if relay.unrolled else relay

    def give_up(self, before: str, tag: str) -> None:
        """Somebody uses this tag by itself."""
        named, (stem, _, step) = self._by_name.get(before, {}), tag.rpartition(" ")
        if stem in named and step.isdecimal() and 1 <= int(step) <= named[stem].steps:
            self.unroll(named[stem])

    def unroll_all(self) -> None:
        """From now on there are exchanges only."""
        for named in self._by_name.values():
            for relay in named.values():
                self.unroll(relay)

    def unroll(self, relay: Relay) -> None:
        """From now on this relay's messages are those of exchanges one by one."""
        if relay.unrolled:
            return
        relay.unrolled, lanes = True, self._lanes
        lanes.numbers(relay.before).update({f"{relay.tag} {step}": relay.base + step - 1 for step in range(1, relay.steps + 1)})
        for (src, dst), stream in relay.streams.items():
            for step, row, data in _one_by_one(stream):
                numel = int(stream.numels[step])
                sent = torch.empty(numel, dtype=stream.dtype, device="meta") if data is None else data
                lanes.held[lanes.key(relay.base + step, src, dst)] = sent, row, numel, stream.dtype, stream.ledger
        relay.streams.clear()


def _one_by_one(stream: Stream) -> Iterator[tuple[int, int, bytes | None]]:
    """What nobody has taken: step (from 0), row, data."""
    step = stream.taken
    for parcel in stream.parcels:
        row = parcel.row
        for piece in parcel.pieces:
            end = 0 if piece.data is None else len(piece.data)
            for _ in range(piece.steps):
                start = end - int(stream.numels[step]) * stream.dtype.itemsize
                yield step, row, None if piece.data is None else piece.data[start:end]
                step, row, end = step + 1, row + 1, start
