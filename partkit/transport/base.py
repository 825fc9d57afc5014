"""The seam between partkit and the wire. Everything above talks to a `Transport`; nothing else touches a wire or a clock.

The contract, which every implementation keeps (`partkit.testing.check_transport`):

1. Messages from one rank to another under one tag arrive in the order in which they were sent.
2. ``isend`` and ``irecv`` return at once. ``Work.wait`` of a send returns after the receiver has taken the tensor
   (a rendezvous, even for one element); until then the sender must not change it.
3. Messages that differ in tag, dtype or number of elements never meet: they wait, and whoever supervises the ranks
   explains why. (On gloo a receive buffer that is too small would end the process.)
4. Tensors are contiguous and may be empty. A rank may send to itself, as to any other.
5. A receive with ``combine`` does ``combine(buffer, arrived)`` instead of overwriting the buffer: piece by piece as they
   arrive, if the wire likes, each element once. It has been done when ``wait`` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from partkit.virtual_time import Computation

Combine = Callable[[Tensor, Tensor], object]
"""``combine(mine, arrived)`` changes ``mine``, element by element: `torch.Tensor.add_`, say."""


class Work(Protocol):
    """A message on its way."""

    def wait(self) -> object:
        """Block until this side of the message is done."""


class Exchange(NamedTuple):
    """A send and a receive that go together: of ``x`` to ``dst``, and into ``buffer`` from ``src``, under one tag.

    Example:
        >>> Exchange(torch.ones(1), 1, torch.empty(1), 3, "shift").dst
        1
    """

    x: Tensor
    dst: int
    """Place in the group, as the next rank."""
    buffer: Tensor
    src: int
    tag: str = ""


class Lane(Protocol):
    """A short way for the exchanges of one rank in one collective call and one group: what they have in common is done once."""

    def exchange(self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None, own: Tensor | None) -> Any:
        """Receive into ``buffer`` and send ``x``.

        Args:
            x: for rank ``dst``.
            dst: place in the group, as ``src``.
            buffer: for what comes from rank ``src``.
            src: as ``dst``.
            tag: of both messages.
            combine: as in `Transport.irecv`.
            own: of the shape of ``buffer``: what arrives lands in the buffer, then ``combine(buffer, own)``; piece by piece if the
                wire likes.

        Returns:
            False: this wire wants the two one by one, nothing has been done. True: all is done and noted. A tuple, the receive
            and the send: both are under way, to be waited for in this order. Anything else: what the rank stands still in.
        """

    def exchange_all(self, exchanges: Sequence[Exchange]) -> tuple[Work, ...] | None:
        """Begin exchanges of which none needs what another one brings, all at once.

        Returns:
            All receives and then all sends, to be waited for in this order. Or None: this wire wants them one after the other,
            nothing has been done.
        """


class Transport(Protocol):
    """Moves tensors between ``size`` ranks; this end belongs to ``rank``."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def now(self) -> float:
        """This moment as events keep it: in seconds, or as a mark that the world turns into seconds when the run is over."""

    def seconds(self) -> float:
        """This moment in seconds, in the clock of this world; comparable between its ranks."""

    def isend(self, tensor: Tensor, dst: int, tag: str) -> Work:
        """Start to send ``tensor`` (contiguous) to world rank ``dst``."""

    def irecv(self, buffer: Tensor, src: int, tag: str, combine: Combine | None = None) -> Work:
        """Start to fill ``buffer`` (contiguous) from world rank ``src``, or to combine it with what arrives."""

    def lane(self, ranks: tuple[int, ...], before: str, span: str, site: str, group: str) -> Lane | None:
        """The short way of exchanges in the collective call that this rank is inside of; None if there is none.

        Args:
            ranks: world rank of each place of the group.
            before: what stands before each tag on the wire: ``before|tag``.
            span: of the events, as the next two.
            site: source line.
            group: its name.
        """

    def irecv_first(self, buffer: Tensor, src: int, tag: str, timeout: float | None) -> Work:
        """Start to fill ``buffer`` with what comes first.

        Args:
            buffer: contiguous.
            src: world rank; negative for anybody. The ``peer`` of what is returned says who it was, once it is done.
            tag: as in `irecv`.
            timeout: seconds after which ``wait`` raises TimeoutError, if nobody has sent by then.

        Raises:
            RuntimeError: this wire can't.
        """

    def sleep(self, seconds: float, work: Computation | None = None) -> None:
        """Let ``seconds`` of this world's time pass on this rank, or as long as it takes for ``work``, if the wire knows."""

    def enter(self) -> None:
        """This rank goes into a collective. Until it leaves, nobody can see in which order the ranks' code runs."""

    def leave(self, *, failed: bool) -> None:
        """This rank comes out of a collective, by an exception if it ``failed``."""

    def native_group(self, ranks: tuple[int, ...]) -> Any:
        """A process group of torch.distributed that holds ``ranks``, in this order.

        Raises:
            RuntimeError: this wire has nothing native.
        """


def is_plain(x: Tensor) -> bool:
    """Whether a tensor can travel as it is: one block of memory, without a history."""
    return x.layout is torch.strided and x.is_contiguous() and not (x.requires_grad or x.is_neg() or x.is_conj())


def check_numbers(x: Tensor) -> None:
    """Refuse a tensor on the "meta" device, of which there is only the shape; for wires between processes, which gloo would end.

    Raises:
        ValueError: it has no numbers.
    """
    if x.is_meta:
        raise ValueError(
            f"a tensor of {x.numel()} elements of {x.dtype} is on the meta device: it has a shape but no numbers, so it can't be sent or received; "
            'give it memory first (a module: module.to_empty(device="cpu"), then set its parameters), or simulate: SimulatedWorld(n, numbers=False)'
        )
