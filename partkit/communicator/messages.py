"""Messages between two ranks of a group, seen from one of them: the half of `Communicator` that talks to the wire."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from partkit.communicator.context import RankContext
from partkit.communicator.exchange import exchange, exchange_all
from partkit.communicator.memory import check_dense, inbox_for, packed
from partkit.communicator.pending import Patience, Pending
from partkit.transport.base import Combine, Exchange
from partkit.virtual_time.program import ANYBODY


class PointToPoint:
    """Sending and receiving in a group.

    Args:
        context: what this rank's communicators share.
        ranks: world ranks of the group, in group order.
        name: name of the group in traces and messages; empty for the world.

    Example:
        >>> import partkit as pk
        >>> def pass_on(comm):
        ...     if comm.rank == 0:
        ...         comm.send(torch.tensor([7]), dst=1)
        ...         return None
        ...     return comm.recv(torch.zeros(1, dtype=torch.int64), src=0).item()
        >>> with pk.World(2) as world:
        ...     world.run(pass_on)
        [None, 7]
    """

    def __init__(self, context: RankContext, ranks: tuple[int, ...], name: str) -> None:
        self._context = context
        self.ranks = ranks
        self.name = name
        self.size = len(ranks)
        self.world_rank = context.transport.rank
        self._place = ranks.index(self.world_rank) if self.world_rank in ranks else None

    @property
    def rank(self) -> int:
        """This rank's place in the group.

        Raises:
            NotInGroup: the rank that asks is none of the group's.
        """
        if self._place is None:
            raise NotInGroup(f"rank {self.world_rank} is not in group {self.name!r} of ranks {', '.join(map(str, self.ranks))}, so it can't communicate in it")
        return self._place

    def __contains__(self, world_rank: object) -> bool:
        return world_rank in self.ranks

    def isend(self, x: Tensor, dst: int, tag: str = "") -> Pending:
        """Start to send ``x`` to rank ``dst`` of this group. Do not change ``x`` before ``wait()``.

        Args:
            x: any shape and dtype; need not be contiguous.
            dst: group rank.
            tag: only a receive with the same tag, dtype and number of elements takes it.
        """
        return Pending(self, "send", packed(x), self._peer(dst, "dst"), str(tag))

    def irecv(self, buffer: Tensor, src: int | None, tag: str = "", combine: Combine | None = None, timeout: float | None = None) -> Pending:
        """Start to fill ``buffer`` from rank ``src`` of this group. Its contents are undefined before ``wait()``.

        Args:
            buffer: shape and dtype of what comes; need not be contiguous.
            src: group rank; None, on simulated ranks, takes what is sent first: ``pending.peer`` says who it was.
            tag: only a send with the same tag, dtype and number of elements fills it.
            combine: ``combine(buffer, arrived)`` instead of overwriting: `torch.Tensor.add_` adds what comes in.
            timeout: on simulated ranks: seconds after which ``wait()`` raises TimeoutError, if nobody has sent by then.
        """
        if src is None or timeout is not None:
            return self._irecv_first(buffer, src, tag, combine, timeout)
        if buffer.requires_grad:
            buffer = buffer.detach()
        inbox = inbox_for(buffer)
        return Pending(self, "recv", inbox, self._peer(src, "src"), str(tag), None if inbox is buffer else buffer, combine)

    def send(self, x: Tensor, dst: int, tag: str = "") -> None:
        """Send ``x`` to ``dst`` and wait until it has taken it: a rendezvous, even for one element.

        Raises:
            ValueError: ``dst`` is this rank itself, which could never receive while it sends.
        """
        if self._peer(dst, "dst") == self.world_rank:
            raise ValueError(f"rank {self.rank} sends to itself: send waits for the receive, so this would never end; use sendrecv")
        self.isend(x, dst, tag).wait()

    def recv(self, buffer: Tensor, src: int | None, tag: str = "", combine: Combine | None = None, timeout: float | None = None) -> Tensor:
        """Fill ``buffer`` from ``src``, or combine it with what comes; returns it. Arguments: see `irecv`."""
        if src is not None and self._peer(src, "src") == self.world_rank:
            raise ValueError(f"rank {self.rank} receives from itself: recv waits for the send, so this would never end; use sendrecv")
        return self.irecv(buffer, src, tag, combine, timeout).wait()

    def sendrecv(self, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str = "", combine: Combine | None = None, own: Tensor | None = None) -> Tensor:
        """Send ``x`` to ``dst`` while filling ``buffer`` from ``src``; returns the buffer. Never deadlocks in a ring.

        With ``combine``, what arrives is combined into the buffer instead: ``combine(buffer, arrived)``; with ``own`` too, it is
        put in the buffer, and ``own`` is combined into it: ``combine(buffer, own)``. ``x`` must then be other memory than
        ``buffer``: a part that has been added to already would be sent.

        Example:
            >>> import partkit as pk
            >>> def shift(comm):
            ...     right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            ...     mine = torch.tensor([comm.rank])
            ...     return comm.sendrecv(mine, right, torch.empty_like(mine), left).item()
            >>> with pk.World(3) as world:
            ...     list(world.run(shift))
            [2, 0, 1]
        """
        if own is not None and combine is None:
            raise ValueError("sendrecv(own=...): say how it is combined into what arrives, for example combine=torch.Tensor.add_")
        if self._context.call is not None and exchange(self, x, dst, buffer, src, tag, combine, own):
            return buffer
        incoming, outgoing = self.irecv(buffer, src, tag, combine if own is None else None), self.isend(x, dst, tag)
        received = incoming.wait()
        if combine is not None and own is not None:
            combine(received, own)
        outgoing.wait()
        return received

    def sendrecv_all(self, exchanges: Sequence[Exchange]) -> None:
        """Several `sendrecv`, of which none sends or overwrites what another one brings. For authors of collectives.

        Live ranks have all of them under way at once, so that nobody waits for a rank that is busy with another. Simulated ranks do
        one after the other, which takes as long: they send one message and receive one at a time.

        Args:
            exchanges: in an order in which everybody could do them one after the other.

        Example:
            >>> import partkit as pk
            >>> from partkit.communicator import Exchange
            >>> def swap_with_all(comm):
            ...     mine, others = torch.tensor([comm.rank]), torch.full((comm.size,), comm.rank)
            ...     places = [((comm.rank + s) % comm.size, (comm.rank - s) % comm.size) for s in range(1, comm.size)]
            ...     comm.sendrecv_all([Exchange(mine, dst, others[src : src + 1], src) for dst, src in places])
            ...     return others.tolist()
            >>> with pk.World(3) as world:
            ...     world.run(swap_with_all)[0]
            [0, 1, 2]
        """
        if self._context.call is None or not exchange_all(self, exchanges):
            for x, dst, buffer, src, tag in exchanges:
                self.sendrecv(x, dst, buffer, src, tag)

    def _irecv_first(self, buffer: Tensor, src: int | None, tag: str, combine: Combine | None, timeout: float | None) -> Pending:
        """A receive that depends on what comes first, or on when it comes."""
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout={timeout!r}: seconds to wait for a send, at least 0")
        check_dense(buffer, "buffer")
        inbox = torch.empty(buffer.shape, dtype=buffer.dtype, device=buffer.device)
        peer = ANYBODY if src is None else self._peer(src, "src")
        return Pending(self, "recv", inbox, peer, str(tag), buffer.detach(), combine, Patience(timeout))

    def _peer(self, rank: int, argument: str) -> int:
        if self._place is None:
            self.rank  # noqa: B018 (it raises)
        if not 0 <= rank < self.size:
            raise ValueError(f"{argument}={rank!r} is outside this group, whose ranks are 0 to {self.size - 1}")
        return self.ranks[rank]


class NotInGroup(ValueError):
    """A rank used a communicator of a group to which it does not belong."""
