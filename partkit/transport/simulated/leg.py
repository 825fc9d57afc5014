"""One rank's part of a relay (`partkit.transport.simulated.relays`): in each turn all that can be done, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from partkit.transport.course import Course
from partkit.transport.simulated.lanes import Waiting
from partkit.transport.simulated.memory import copy_of, put
from partkit.transport.simulated.relays import Ints, Parcel, Piece, Relay, Stream
from partkit.virtual_time.exchanges import ROW
from partkit.virtual_time.program import NOBODY

if TYPE_CHECKING:
    from partkit.transport.simulated.lane import Lane


class Leg:
    """One rank's part of a relay.

    Args:
        lane: the rank's.
        relay: among these ranks.
        course: what it does.
        to: world rank to whom it sends.
        source: from whom it receives.

    Attributes:
        done: steps.
    """

    def __init__(self, lane: Lane, relay: Relay, course: Course, to: int, source: int) -> None:
        self._lane, self._relay, self._course, self._to, self._source = lane, relay, course, to, source
        self._wire, self._lanes = lane.wire, lane.lanes
        self.done = 0
        sizes = np.diff(np.array(course.starts))
        self._received: Ints = sizes[(course.first - np.arange(relay.steps)) % len(sizes)]  # elements, by step
        self._sent: Ints = np.concatenate(([course.x.numel()], self._received[:-1]))
        self._out = relay.streams[self._wire.rank, to] = Stream(self._sent, course.flat.dtype, self._wire.ledger)

    @property
    def over(self) -> bool:
        """Whether its exchanges are one by one from now on."""
        return self._relay.unrolled

    def advance(self) -> Waiting | None:
        """Do all that can be done now. None if that was all; or what the rank stands still in: one more step is done behind it."""
        step, stream = self.done, self._relay.streams.get((self._source, self._wire.rank))
        held = self._lanes.held.get(self._lanes.key(self._relay.base + step, self._wire.rank, self._to))
        awaited = held if isinstance(held, Waiting) else None  # the next rank stands still for this step
        if not self._fit(stream, awaited):
            self._lanes.relays.unroll(self._relay)
            return None
        mine = copy_of(self._course.block(step, self._course.flat) if step else self._course.x)  # before anything can have changed it
        come, sources = (0, []) if stream is None else self._take(stream)
        count = min(come + 1, self._relay.steps - step)
        row = self._write(sources, step, count)
        self._send(mine, step, count, row, awaited)
        self.done += come
        return self._wait(row + come) if count > come else None

    def _fit(self, stream: Stream | None, awaited: Waiting | None) -> bool:
        """Whether neighbours send and receive what this rank expects."""
        dtype, step = self._course.flat.dtype, self.done
        if awaited is not None and (awaited.buffer.dtype is not dtype or awaited.buffer.numel() != self._sent[step]):
            return False
        if stream is None or not stream.parcels:
            return True
        return stream.dtype is dtype and stream.taken == step and np.array_equal(stream.numels, self._received)

    def _take(self, stream: Stream) -> tuple[int, list[Ints]]:
        """Put what has come where it belongs, and combine: how many steps' blocks that was, and the rows that sent them."""
        come, sources = 0, []
        for row, pieces in stream.parcels:
            count = sum(piece.steps for piece in pieces)
            sources.append(np.arange(row, row + count))
            for piece in pieces:
                self._fill(piece, self.done + come + 1)
                come += piece.steps
        stream.parcels.clear()
        stream.taken += come
        if come:
            self._lanes.taken(self._source, stream.ledger, come)
        return come, sources

    def _fill(self, piece: Piece, step: int) -> None:
        """Put a piece into the blocks of some steps, and combine."""
        flat, combine, own = self._course.flat, self._course.combine, self._course.own
        end = 0 if piece.data is None else len(piece.data)
        for _, low, high in self._course.stretches(step, piece.steps):
            buffer = flat[low:high]
            if piece.data is not None:
                put(piece.data[end - buffer.nbytes : end], buffer)
                end -= buffer.nbytes
            if combine is not None and own is not None:
                combine(buffer, own[low:high])

    def _write(self, sources: list[Ints], step: int, count: int) -> int:
        """The rows of some exchanges, of which all but the last have come, or the last too: number of the first."""
        places, itemsize, rows = np.arange(step, step + count), self._course.flat.dtype.itemsize, np.empty(count, dtype=ROW)
        rows["rank"], rows["src"], rows["dst"] = self._wire.rank, self._source, self._to
        rows["source"] = np.concatenate((*sources, [NOBODY]))[:count]
        rows["tag"], rows["lane"] = self._relay.base + places, self._lane.number
        rows["received"], rows["sent"] = self._received[places] * itemsize, self._sent[places] * itemsize
        return self._wire.write_rows(rows)

    def _send(self, mine: bytes | Tensor, step: int, count: int, row: int, awaited: Waiting | None) -> None:
        """What is sent in these steps; ``mine`` in the first one, for which the next rank may stand still."""
        pieces = []
        if awaited is not None:
            self._lanes.deliver(self._lanes.key(self._relay.base + step, self._wire.rank, self._to), awaited, mine, row)
            self._out.taken += 1
            row += 1
        else:
            pieces.append(_piece(1, mine))
        for here, low, high in self._course.stretches(step + 1, count - 1):
            pieces.append(_piece(here, copy_of(self._course.flat[low:high])))
        if pieces:
            self._out.parcels.append(Parcel(row, pieces))
            self._out.ledger.count += sum(piece.steps for piece in pieces)

    def _wait(self, row: int) -> Waiting:
        """For the block of the next step."""
        step, course = self.done + 1, self._course
        waiting = Waiting(row, course.block(step, course.flat), course.combine, None if course.own is None else course.block(step, course.own))
        self._lanes.held[self._lanes.key(self._relay.base + self.done, self._source, self._wire.rank)] = waiting
        self._wire.sends_to = self._to
        return waiting


def _piece(count: int, copied: bytes | Tensor) -> Piece:
    return Piece(count, copied if isinstance(copied, bytes) else None)
