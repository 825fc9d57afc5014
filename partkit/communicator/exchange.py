"""A send and a receive at once: the short way of `Communicator.sendrecv` inside of collectives.

Algorithms consist of little else, and for small tensors a message costs more Python than wire. So inside a collective the two
messages share what they can: one look at the tensors, one tag, one entry for the supervisor; and where nothing has to be waited
for, as mostly on simulated ranks, that is all. The events are those of two messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from partkit.communicator.naming import describe
from partkit.diagnosis import Operation
from partkit.transport.base import Combine, Work

if TYPE_CHECKING:
    from partkit.communicator.group import Communicator


def exchange(comm: Communicator, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None) -> bool:
    """Do both; False if they must be posted one by one, and nothing has been done. Arguments as in `Communicator.sendrecv`; inside a collective."""
    context = comm._context
    call, wire = context.call, context.transport
    if call is None or not (is_plain(x) and is_plain(buffer) and (own is None or is_plain(own))):
        return False
    to, source, group = comm._peer(dst, "dst"), comm._peer(src, "src"), comm.name
    wire_tag = f"{group}|{call.name} {call.what} {call.number}|{tag}"
    start = wire.now()
    begun = wire.exchange(x, to, buffer, source, wire_tag, combine, own)
    if begun is None:
        return False
    if isinstance(begun, tuple):
        Both(comm, x, to, buffer, source, tag, wire_tag).wait(begun, start)
        return True
    context.progress += 4
    if context.recorder.enabled:
        context.recorder.add_exchange((begun, source, to, buffer.nbytes, x.nbytes, tag, context.span, call.site, group))
    return True


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


def is_plain(x: Tensor) -> bool:
    """Whether a tensor can travel as it is."""
    return x.layout is torch.strided and x.is_contiguous() and not (x.requires_grad or x.is_neg() or x.is_conj())


def _matched(wire_tag: str, x: Tensor) -> str:
    """What must be equal on both sides for them to meet."""
    return f"{wire_tag}|{x.dtype}|{x.numel()}"
