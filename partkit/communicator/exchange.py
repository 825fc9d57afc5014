"""A send and a receive at once: the short way of `Communicator.sendrecv` inside of collectives.

Algorithms consist of little else, and for small tensors a message costs more Python than wire. So inside a collective the two
messages share what they can: one look at the tensors, one tag, one entry for the supervisor; and where nothing has to be waited
for, as mostly on simulated ranks, that is all. The events are those of two messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from partkit.communicator.memory import is_plain
from partkit.communicator.naming import describe
from partkit.diagnosis import Operation
from partkit.transport.base import Combine, Work

if TYPE_CHECKING:
    from partkit.communicator.group import Communicator


def exchange(comm: Communicator, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool:
    """Do both; False if they must be posted one by one, and nothing has been done. Arguments as in `Communicator.sendrecv`; inside a collective."""
    context = comm._context
    call, wire = context.call, context.transport
    opened = context.lane
    if opened is None or opened.wire is not wire or opened.comm is not comm or opened.call is not call or opened.span is not context.span:
        opened = context.lane = Opened(comm)
    if opened.lane is not None:
        done = opened.lane.exchange(x, dst, buffer, src, tag, combine, own)
        if done is not False:
            if done is not True:
                Both(comm, x, comm.ranks[dst], buffer, comm.ranks[src], tag, f"{opened.before}|{tag}").stand_still_in(done)
            context.progress += 4
            return True
    if call is None or not (is_plain(x) and is_plain(buffer) and (own is None or is_plain(own))):
        return False
    to, source = comm._peer(dst, "dst"), comm._peer(src, "src")
    wire_tag = f"{comm.name}|{call.name} {call.what} {call.number}|{tag}"
    start = wire.now()
    begun = wire.exchange(x, to, buffer, source, wire_tag, combine, own)
    if begun is None:
        return False
    Both(comm, x, to, buffer, source, tag, wire_tag).wait(begun, start)
    return True


class Opened:
    """The short way that a wire may have for exchanges in one collective call, one group and one span.

    Args:
        comm: the group.
    """

    __slots__ = ("before", "call", "comm", "lane", "span", "wire")

    def __init__(self, comm: Communicator) -> None:
        context = comm._context
        self.comm, self.call, self.span, self.wire = comm, context.call, context.span, context.transport
        self.before = ""
        self.lane: Any = None
        if self.call is not None and hasattr(type(self.wire), "lane"):
            self.before = f"{comm.name}|{self.call.name} {self.call.what} {self.call.number}"
            self.lane = self.wire.lane(comm.ranks, self.before, self.span, self.call.site, comm.name)  # type: ignore[attr-defined]


class Both:
    """The two messages between the moment when they have been posted and the moment when both are done."""

    __slots__ = ("_buffer", "_comm", "_dst", "_received", "_src", "_tag", "_wire_tag", "_x")

    def __init__(self, comm: Communicator, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, wire_tag: str) -> None:
        self._comm, self._tag, self._wire_tag = comm, tag, wire_tag
        self._x, self._dst, self._buffer, self._src = x, dst, buffer, src
        self._received = False

    def wait(self, works: tuple[Work, Work], start: float) -> None:
        """For the receive, then for the send; they were begun at ``start``."""
        context = self._comm._context
        now = context.transport.now
        context.pending[id(self)] = context.blocked_on = self
        context.progress += 2
        posted = now()
        try:
            works[0].wait()
            self._received = True
            context.progress += 1
            received = now()
            works[1].wait()
        finally:
            context.blocked_on = None
        context.progress += 1
        del context.pending[id(self)]
        if context.recorder.enabled:
            self._note(start, posted, received, now())

    def stand_still_in(self, waiting: Any) -> None:
        """For the receive, inside of a lane."""
        context = self._comm._context
        context.pending[id(self)] = context.blocked_on = self
        try:
            context.transport.stand_still_in(waiting)  # type: ignore[attr-defined]
        finally:
            context.blocked_on = None
        del context.pending[id(self)]

    def _note(self, start: float, posted: float, received: float, sent: float) -> None:
        context, group = self._comm._context, self._comm.name
        call, numbers = context.call, context.num_messages
        site = "" if call is None else call.site
        for kind, peer, tensor, waited, end in (("recv", self._src, self._buffer, posted, received), ("send", self._dst, self._x, received, sent)):
            counted = (kind, peer, self._tag, group)
            number = numbers.get(counted, 0)
            numbers[counted] = number + 1
            context.recorder.add(kind, start, end, peer, tensor.nbytes, number, self._tag, context.span, site, group, 0.0, waited)  # type: ignore[arg-type]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is not done, in words, for the supervisor; first what is being waited for."""
        call = self._comm._context.call
        site = "" if call is None else call.site
        recv = Operation("recv", self._src, self._tag, describe(self._buffer), site, _matched(self._wire_tag, self._buffer))
        send = Operation("send", self._dst, self._tag, describe(self._x), site, _matched(self._wire_tag, self._x))
        return (send,) if self._received else (recv, send)


def _matched(wire_tag: str, x: Tensor) -> str:
    """What must be equal on both sides for them to meet."""
    return f"{wire_tag}|{x.dtype}|{x.numel()}"
