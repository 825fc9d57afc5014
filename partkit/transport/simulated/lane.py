"""The short way of ``sendrecv`` inside a collective: `partkit.transport.simulated.lanes` says how it works."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from partkit.transport.base import Combine
from partkit.transport.simulated.lanes import Lanes, Note, Waiting
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
        self._wire, self._lanes, self._held, self._size = wire, lanes, lanes.held, lanes.size
        self._ranks, self._before = ranks, before
        self._numbers = lanes.numbers(before)
        self._number = len(lanes.notes)
        lanes.notes.append(note)
        self._last: Tensor | None = None  # a buffer that was looked at before

    def exchange(self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool | Waiting:
        """Send and receive. Arguments as those of `Communicator.sendrecv`.

        Returns:
            True if it is done; False if nothing has been done; or what the rank stands still in (`SimulatedTransport.stand_still_in`).
        """
        number, ranks = self._numbers.get(tag), self._ranks
        if number is None:
            number = self._lanes.number_of(self._before, tag)
        if number < 0 or not (0 <= dst < len(ranks) and 0 <= src < len(ranks) and is_plain(buffer)):
            return False
        if not (x.is_contiguous() if x is self._last else is_plain(x)) or (combine is not None and own is None) or self._wire.open:
            return False
        wire, held, size, to, source = self._wire, self._held, self._size, ranks[dst], ranks[src]
        me = wire.rank
        incoming, outgoing = (number * size + source) * size + me, (number * size + me) * size + to
        theirs = held.get(incoming)
        if theirs.__class__ is not tuple or outgoing in held or theirs[2] != buffer.numel() or theirs[3] is not buffer.dtype:
            return to != me and source != me and self._otherwise(x, to, buffer, source, tag, combine, own)
        data, source_row, _, _, ledger = theirs
        row = wire.write_row(source, to, source_row, number, self._number, buffer.nbytes, x.nbytes)
        held[outgoing] = copy_of(x), row, x.numel(), x.dtype, wire.ledger
        wire.ledger.count += 1
        del held[incoming]
        put(data, buffer)
        self._lanes.taken(source, ledger)
        if combine is not None:
            combine(buffer, own)  # type: ignore[arg-type]
        self._last = buffer
        return True

    def _otherwise(self, x: Tensor, to: int, buffer: Tensor, source: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool | Waiting:
        """The same where something is to be waited for, or where a tag is used again before its last message has been taken."""
        lanes, wire, number = self._lanes, self._wire, self._numbers[tag]
        outgoing, incoming = lanes.key(number, wire.rank, to), lanes.key(number, source, wire.rank)
        there, theirs = lanes.held.get(outgoing), lanes.held.get(incoming)
        assert not isinstance(theirs, Waiting)  # that would be this rank
        first = theirs[0] if isinstance(theirs, deque) else theirs
        if first is not None and not _alike(buffer, first[2], first[3]):
            return self._give_up(tag)
        if isinstance(there, Waiting) and not _alike(x, there.buffer.numel(), there.buffer.dtype):
            return self._give_up(tag)
        row = wire.write_row(source, to, NOBODY if first is None else first[1], number, self._number, buffer.nbytes, x.nbytes)
        sent = copy_of(x), row, x.numel(), x.dtype, wire.ledger
        if isinstance(there, Waiting):
            lanes.deliver(outgoing, there, sent[0], row)
        else:
            wire.ledger.count += 1
            lanes.held[outgoing] = sent if there is None else deque((*(there if isinstance(there, deque) else (there,)), sent))
        if first is None:
            waiting = lanes.held[incoming] = Waiting(row, buffer, combine, own)
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
        self._lanes.one_by_one(f"{self._before}|{tag}")
        return False


def is_plain(x: Tensor) -> bool:
    """Whether a tensor can travel as it is."""
    return x.layout is torch.strided and x.is_contiguous() and not (x.requires_grad or x.is_neg() or x.is_conj())


def _alike(x: Tensor, numel: int, dtype: torch.dtype) -> bool:
    return x.numel() == numel and x.dtype is dtype
