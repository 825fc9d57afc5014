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

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from partkit.virtual_time import Computation

Combine = Callable[[Tensor, Tensor], object]
"""``combine(mine, arrived)`` changes ``mine``, element by element: `torch.Tensor.add_`, say."""


class Work(Protocol):
    """A message on its way."""

    def wait(self) -> object:
        """Block until this side of the message is done."""


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

    def exchange(
        self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None = None, own: Tensor | None = None
    ) -> tuple[Work, Work] | None:
        """Inside a collective: receive into ``buffer`` and send ``x``, both contiguous, under one tag.

        Args:
            x: for world rank ``dst``.
            dst: may be this rank, as ``src``.
            buffer: for what comes from world rank ``src``.
            src: world rank.
            tag: of both messages.
            combine: as in `irecv`.
            own: contiguous, of the shape of ``buffer``: what arrives lands in the buffer, then ``combine(buffer, own)``; piece by
                piece if the wire likes.

        Returns:
            The receive and the send, to be waited for in this order. Or None: this wire wants the two one by one, nothing has been done.
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
