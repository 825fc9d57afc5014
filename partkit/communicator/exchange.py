"""A send and a receive at once, or several of them: the short way of `PointToPoint.sendrecv` inside of collectives.

Algorithms consist of little else, and for small tensors a message costs more Python than wire. So inside a collective the
messages share what they can: one look at the tensors, one tag, one entry for the supervisor; and where nothing has to be waited
for, as mostly on simulated ranks, that is all. The events are those of messages that are posted one by one.

Exchanges of which none needs what another one brings may go all at once (`exchange_all`), four ranks in a pairwise all-to-all:

    one after the other    post 1, wait, post 2, wait, post 3, wait      each step waits for the slowest of three ranks
    all at once            post 1, 2, 3, wait for all                    nobody waits for a rank that is busy with another

In the one-port model both take three steps; on live ranks the second wakes fewer threads and took 0.8 of the time (torch 2.13,
two cores, 1 kB to 1 MB). So the wire decides: live ranks post all, simulated ones go step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from partkit.communicator.naming import describe
from partkit.diagnosis import Operation
from partkit.tracing import Kind
from partkit.transport.base import Combine, Exchange, Lane, Work

if TYPE_CHECKING:
    from partkit.communicator.messages import PointToPoint

Message = tuple[Kind, Tensor, int, str]
"""Whether it is sent or received, its tensor, the place of the other side in the group, its tag."""


def exchange(comm: PointToPoint, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool:
    """Do both; False if they must be posted one by one, and nothing has been done. Arguments as in `PointToPoint.sendrecv`; inside a collective."""
    opened = _opened(comm)
    if opened.lane is None:
        return False
    context = comm._context
    start = context.transport.now()
    done = opened.lane.exchange(x, dst, buffer, src, tag, combine, own)
    if done is False:
        return False
    if done is True:
        context.progress += 4
        return True
    posted = Posted(comm, opened.before, (("recv", buffer, src, tag), ("send", x, dst, tag)))
    if isinstance(done, tuple):
        posted.wait(done, start)
    else:
        posted.stand_still_in(done)
        context.progress += 4
    return True


def exchange_all(comm: PointToPoint, exchanges: Sequence[Exchange]) -> bool:
    """Do all at once; False if they must be done one after the other, and nothing has been done. Inside a collective."""
    opened = _opened(comm)
    if opened.lane is None or not exchanges:
        return False
    start = comm._context.transport.now()
    works = opened.lane.exchange_all(exchanges)
    if works is None:
        return False
    incoming: list[Message] = [("recv", buffer, src, tag) for _, _, buffer, src, tag in exchanges]
    outgoing: list[Message] = [("send", x, dst, tag) for x, dst, _, _, tag in exchanges]
    Posted(comm, opened.before, incoming + outgoing).wait(works, start)
    return True


def _opened(comm: PointToPoint) -> Opened:
    """The short way of the last exchange, if this one is in the same call, group and span; else a new one."""
    context = comm._context
    opened = context.lane
    if opened is None or opened.wire is not context.transport or opened.comm is not comm or opened.call is not context.call or opened.span is not context.span:
        opened = context.lane = Opened(comm)
    return opened


class Opened:
    """The short way that a wire may have for exchanges in one collective call, one group and one span.

    Args:
        comm: the group.
    """

    __slots__ = ("before", "call", "comm", "lane", "span", "wire")

    def __init__(self, comm: PointToPoint) -> None:
        context = comm._context
        self.comm, self.span, self.wire = comm, context.span, context.transport
        self.call = call = context.call
        self.before = "" if call is None else f"{comm.name}|{call.name} {call.what} {call.number}"
        self.lane: Lane | None = None if call is None else self.wire.lane(comm.ranks, self.before, self.span, call.site, comm.name)


class Posted:
    """Messages between the moment when they have been posted and the moment when all are done; they are waited for in their order.

    Args:
        comm: the group.
        before: what stands before their tags on the wire.
        messages: at least one.
    """

    __slots__ = ("_before", "_comm", "_done", "_messages")

    def __init__(self, comm: PointToPoint, before: str, messages: Sequence[Message]) -> None:
        self._comm, self._before, self._messages = comm, before, messages
        self._done = 0

    def wait(self, works: Sequence[Work], start: float) -> None:
        """For each; they were begun at ``start``."""
        context = self._comm._context
        now = context.transport.now
        context.pending[id(self)] = context.blocked_on = self
        context.progress += len(works)
        ends = [now()]
        try:
            for work in works:
                work.wait()
                self._done += 1
                context.progress += 1
                ends.append(now())
        finally:
            context.blocked_on = None
        del context.pending[id(self)]
        if context.recorder.enabled:
            self._note(start, ends)

    def stand_still_in(self, waiting: Any) -> None:
        """For the receive, inside of a lane."""
        context = self._comm._context
        context.pending[id(self)] = context.blocked_on = self
        try:
            context.transport.stand_still_in(waiting)  # type: ignore[attr-defined]
        finally:
            context.blocked_on = None
        del context.pending[id(self)]

    def _note(self, start: float, ends: Sequence[float]) -> None:
        """Each message, from the common start to its own end; the rank has waited for it since the end of the one before."""
        context, group, ranks = self._comm._context, self._comm.name, self._comm.ranks
        call, numbers = context.call, context.num_messages
        site = "" if call is None else call.site
        for (kind, tensor, place, tag), waited, end in zip(self._messages, ends, ends[1:], strict=False):
            counted = (kind, ranks[place], tag, group)
            number = numbers.get(counted, 0)
            numbers[counted] = number + 1
            context.recorder.add(kind, start, end, ranks[place], tensor.nbytes, number, tag, context.span, site, group, 0.0, waited)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is not done, in words, for the supervisor; first what is being waited for."""
        call, ranks = self._comm._context.call, self._comm.ranks
        site = "" if call is None else call.site
        left = self._messages[min(self._done, len(self._messages) - 1) :]  # when the last is done, it stays until somebody notes it
        return tuple(
            Operation("send" if kind == "send" else "recv", ranks[place], tag, describe(tensor), site, f"{self._before}|{tag}|{tensor.dtype}|{tensor.numel()}")
            for kind, tensor, place, tag in left
        )
