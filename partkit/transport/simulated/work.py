"""One side of a message between simulated ranks: waiting for it, and copying its tensor."""

from __future__ import annotations

from ctypes import memmove
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from partkit.transport.base import Combine
from partkit.transport.simulated.memory import copy_of, move, put
from partkit.virtual_time import Side, Terms
from partkit.virtual_time.program import ANYBODY, NEVER

if TYPE_CHECKING:
    from partkit.transport.simulated.wire import SimulatedTransport


class Died(BaseException):
    """Raised in a rank at the time of its death."""


class Stopped(BaseException):
    """Raised in a rank whose run is over without it; not an `Exception`, so that user code does not swallow it."""


Channel = tuple[int, int, str, torch.dtype, int]
"""What messages have in common that arrive in the order in which they were sent: src, dst, tag, dtype, number of elements."""


class SimulatedWork(Side):
    """One side of a message between simulated ranks."""

    __slots__ = ("_wire", "combine", "kept", "needed", "tag", "taken", "tensor")
    other: SimulatedWork | None

    def __init__(self, wire: SimulatedTransport, tensor: Tensor, peer: int, tag: str, is_send: bool, combine: Combine | None = None) -> None:
        super().__init__(wire.rank, peer, tensor.nbytes, is_send)
        self._wire = wire
        self.tensor: Tensor | None = tensor  # as long as anybody needs it
        self.tag = tag
        self.combine = combine
        self.kept: bytes | Tensor | None = None  # a copy of what was sent, if the sender has gone on before it was taken
        self.taken = False  # its tensor has been copied or combined
        self.needed = False  # its rank stands still for it

    @property
    def channel(self) -> Channel:
        assert self.tensor is not None
        src, dst = (self.rank, self.peer) if self.is_send else (self.peer, self.rank)
        return src, dst, self.tag, self.tensor.dtype, self.tensor.numel()

    @property
    def kind(self) -> object:
        return self.channel[2:]

    def wait(self) -> None:
        """Go on when the other side is known; the time when it is done comes out later.

        Raises:
            TimeoutError: a receive with a time-out, and nobody has sent.
        """
        wire = self._wire
        wire.note(self)
        wire.open -= 1
        if self.terms is not None:
            self._wait_for_time(self.terms)
        elif self.other is None or self.timed:
            if self.is_send and wire.ahead and not self.timed:
                self.go_on()
                return
            if self.end == NEVER:
                wire.stand_still_for(self)
        other = self.other
        assert other is not None
        if self.is_send:
            self.go_on()
            return
        if self.combine is not None:
            self.combine_with(other)
        self.tensor = None

    def go_on(self) -> None:
        """Of a send: its tensor is the rank's own again, so keep a copy if the receiver has not taken it."""
        if self.taken:
            self.tensor = None
            return
        assert self.tensor is not None
        self.kept = copy_of(self.tensor)
        if self.other is None:
            self._wire.untaken.append(self)

    def combine_with(self, send: SimulatedWork) -> None:
        """Of a receive that combines: do it."""
        assert self.tensor is not None and self.combine is not None
        self.combine(self.tensor, sent_for(send, self.tensor, self._wire))
        forget(send)

    def _wait_for_time(self, terms: Terms) -> None:
        """A receive that takes the first message to come: stand still until it is known which one that is."""
        if self.end == NEVER:
            self._wire.stand_still_for(self)
        self._wire.choosing.remove(self)
        if terms.expired:
            sender = "anybody" if terms.peer == ANYBODY else f"rank {terms.peer}"
            raise TimeoutError(f"rank {self.rank}: nothing from {sender} in {terms.timeout:g} s of virtual time")


def sent_for(send: SimulatedWork, buffer: Tensor, wire: SimulatedTransport) -> Tensor:
    """What was sent, in the shape of the receiver's buffer; good until the wire is asked again."""
    sent = send.tensor if send.kept is None else send.kept
    assert sent is not None
    if isinstance(sent, Tensor):
        return sent.view(buffer.shape)
    scratch = wire.scratch
    if scratch is None or scratch.shape != buffer.shape or scratch.dtype != buffer.dtype:
        scratch = wire.scratch = torch.empty(buffer.shape, dtype=buffer.dtype, device="cpu")
    memmove(scratch.data_ptr(), sent, len(sent))
    return scratch


def deliver(send: SimulatedWork, recv: SimulatedWork) -> None:
    """Copy the tensor."""
    assert recv.tensor is not None
    if send.kept is not None:
        put(send.kept, recv.tensor)
    else:
        assert send.tensor is not None
        move(send.tensor, recv.tensor)
    forget(send)


def forget(send: SimulatedWork) -> None:
    """The receiver has what was sent; nobody needs it any more if the sender has gone on."""
    if send.kept is not None:
        send.tensor = send.kept = None
    send.taken = True
