"""The short way of ``sendrecv`` inside a collective: `partkit.transport.simulated.lanes` says how it works."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from partkit.transport.base import Combine, Exchange, is_plain
from partkit.transport.course import Course
from partkit.transport.simulated.lanes import Lanes, Note, Waiting
from partkit.transport.simulated.leg import Leg
from partkit.transport.simulated.memory import copy_of, put
from partkit.virtual_time.program import NOBODY

if TYPE_CHECKING:
    from partkit.transport.simulated.wire import SimulatedTransport


class Lane:
    """One rank's exchanges in one collective call and one group.

    Args:
        wire: the rank's.
        lanes: what all lanes share.
        ranks: world rank of each place in the group.
        before: what stands before the tag on the wire.
        note: for the events.
    """

    def __init__(self, wire: SimulatedTransport, lanes: Lanes, ranks: tuple[int, ...], before: str, note: Note) -> None:
        self.wire, self.lanes, self._held, self._size = wire, lanes, lanes.held, lanes.size
        self._ranks, self._before = ranks, before
        self._numbers = lanes.numbers(before)
        self.number = len(lanes.notes)
        lanes.notes.append(note)
        self._me = wire.rank
        self._last: Tensor | None = None  # the last buffer, of which all that need be known has been asked:
        self._shape = 0, torch.float32, 0  # number of elements, dtype, bytes

    def exchange(self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool | Waiting:
        """Send and receive. Arguments as those of `Communicator.sendrecv`.

        Returns:
            True if it is done; False if nothing has been done; or what the rank stands still in (`SimulatedTransport.stand_still_in`).
        """
        number, ranks = self._numbers.get(tag), self._ranks
        if number is None:
            number = self.lanes.number_of(self._before, tag)
        wire, size, last, shape = self.wire, self._size, self._last, (buffer.numel(), buffer.dtype, buffer.nbytes)
        if number < 0 or wire.open or not (0 <= dst < len(ranks) and 0 <= src < len(ranks) and is_plain(buffer)):
            return False
        if x is last and x.is_contiguous() and x.numel() == self._shape[0]:
            numel, dtype, nbytes = self._shape  # what came in goes out again
        elif is_plain(x):
            numel, dtype, nbytes = x.numel(), x.dtype, x.nbytes
        else:
            return False
        to, source, held = ranks[dst], ranks[src], self._held
        incoming, outgoing = (number * size + source) * size + self._me, (number * size + self._me) * size + to
        theirs = held.get(incoming)
        if theirs.__class__ is not tuple or outgoing in held or theirs[2:4] != shape[:2] or (combine is not None and own is None):
            return self._me not in (to, source) and self._otherwise(x, to, buffer, source, tag, combine, own)
        data, source_row, _, _, ledger = theirs
        mine, self._last, self._shape = wire.ledger, buffer, shape
        held[outgoing] = copy_of(x), wire.write_row(source, to, source_row, number, self.number, shape[2], nbytes), numel, dtype, mine
        mine.count += 1
        del held[incoming]
        put(data, buffer)
        ledger.count -= 1
        if ledger.awaited and not ledger.count:
            self.lanes.all_taken(source, ledger)
        if combine is not None:
            combine(buffer, own)  # type: ignore[arg-type]
        return True

    def exchange_all(self, exchanges: Sequence[Exchange]) -> None:
        """One after the other: with one port a rank, more at once would not be faster."""

    def leg(self, course: Course, dst: int, src: int, tag: str) -> Leg | None:
        """This rank's part of a relay; None if that must be exchanges one by one.

        Args:
            course: what it does.
            dst: to whom it sends.
            src: from whom it receives.
            tag: what tags have in common.
        """
        if self.wire.open or torch._C._len_torch_dispatch_stack() or not _fit_for_many(course):
            return None
        to, relay = self._ranks[dst], self.lanes.relays.of(self._before, tag, course.steps)
        if relay is None:
            return None
        earlier = relay.streams.get((self._me, to))
        if earlier is not None and earlier.parcels:  # of the same tags in the same call
            self.lanes.relays.unroll(relay)
            return None
        return Leg(self, relay, course, to, self._ranks[src])

    def _otherwise(self, x: Tensor, to: int, buffer: Tensor, source: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool | Waiting:
        """The same where something is to be waited for, or where a tag is used again before its last message has been taken."""
        if combine is not None and own is None:
            return False
        lanes, wire, number = self.lanes, self.wire, self._numbers[tag]
        outgoing, incoming = lanes.key(number, wire.rank, to), lanes.key(number, source, wire.rank)
        there, theirs = lanes.held.get(outgoing), lanes.held.get(incoming)
        assert not isinstance(theirs, Waiting)  # that would be this rank
        first = theirs[0] if isinstance(theirs, deque) else theirs
        if first is not None and not _alike(buffer, first[2], first[3]):
            return self._give_up(tag)
        if isinstance(there, Waiting) and not _alike(x, there.buffer.numel(), there.buffer.dtype):
            return self._give_up(tag)
        row = wire.write_row(source, to, NOBODY if first is None else first[1], number, self.number, buffer.nbytes, x.nbytes)
        sent = copy_of(x), row, x.numel(), x.dtype, wire.ledger
        if isinstance(there, Waiting):
            lanes.deliver(outgoing, there, sent[0], row)
        else:
            wire.ledger.count += 1
            lanes.held[outgoing] = sent if there is None else deque((*(there if isinstance(there, deque) else (there,)), sent))
        if first is None:
            waiting = lanes.held[incoming] = Waiting(row, buffer, combine, own)
            wire.sends_to = to
            return waiting
        if isinstance(theirs, deque) and len(theirs) > 1:
            theirs.popleft()
        else:
            del lanes.held[incoming]
        put(first[0], buffer)
        lanes.taken(source, first[4])
        if combine is not None and own is not None:
            combine(buffer, own)
        return True

    def _give_up(self, tag: str) -> bool:
        """Messages of this tag that do not fit together wait for their own kind."""
        self.lanes.one_by_one(f"{self._before}|{tag}")
        return False


class ShapesLane(Lane):
    """The same for tensors without numbers, on torch's "meta" device. There each question to a tensor costs microseconds while the
    device is set by a mode, and each operation a hundred of them; and there is nothing to combine.
    """

    def exchange(self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool | Waiting:
        with torch._C.DisableTorchFunction():
            return super().exchange(x, dst, buffer, src, tag, combine, own)

    def leg(self, course: Course, dst: int, src: int, tag: str) -> Leg | None:
        with torch._C.DisableTorchFunction():
            return super().leg(course, dst, src, tag)


def _fit_for_many(course: Course) -> bool:
    """Whether blocks may be copied and combined many at a time.

    Complex numbers may not be combined so: what torch makes of them depends, in the last bit, on how many there are.
    """
    x, flat, own = course.x, course.flat, course.own
    if not (flat.is_cpu or flat.is_meta) or (course.combine is not None and (own is None or flat.dtype.is_complex)):
        return False
    return all(
        type(each) is Tensor and is_plain(each) and each.device == flat.device and each.dtype is flat.dtype for each in (x, flat, flat if own is None else own)
    )


def _alike(x: Tensor, numel: int, dtype: torch.dtype) -> bool:
    return x.numel() == numel and x.dtype is dtype
