"""`Communicator`: the ranks of a group, seen from one of them. What a rank's function talks to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from partkit.cluster import Cluster
from partkit.communicator.context import RankContext
from partkit.communicator.exchange import exchange
from partkit.communicator.memory import check_dense, inbox_for, packed
from partkit.communicator.naming import call_site
from partkit.communicator.ongoing import Collective, Ongoing
from partkit.communicator.pending import Patience, Pending
from partkit.mesh import Mesh
from partkit.tracing import Event
from partkit.transport.base import Combine
from partkit.virtual_time import Computation
from partkit.virtual_time.program import ANYBODY

current: ContextVar[Communicator | None] = ContextVar("partkit_communicator", default=None)
"""The communicator of the rank whose function is running; for instruments that are handed none (`partkit.watch`)."""


class Communicator:
    """A group of ranks, seen from one of them.

    Args:
        context: what this rank's communicators share.
        ranks: world ranks of the group, in group order; all ranks by default.
        name: name of the group in traces and messages; empty for the world.
        mesh: names the axes for `group`.

    Attributes:
        rank: this rank's place in the group, from 0.
        size: number of ranks in the group.
        ranks: world rank of each place.

    Example:
        >>> import partkit as pk
        >>> def who(comm):
        ...     pair = comm.subgroup([1, 2])
        ...     return comm.rank, comm.size, pair.rank if comm.rank in pair else None
        >>> with pk.World(3) as world:
        ...     world.run(who)
        [(0, 3, None), (1, 3, 0), (2, 3, 1)]
    """

    def __init__(self, context: RankContext, ranks: Sequence[int] | None = None, *, name: str = "", mesh: Mesh | None = None) -> None:
        self._context = context
        self.ranks: tuple[int, ...] = tuple(range(context.transport.size)) if ranks is None else tuple(ranks)
        self.name = name
        self.mesh = mesh
        self.size = len(self.ranks)
        self.world_rank = context.transport.rank
        self._place = self.ranks.index(self.world_rank) if self.world_rank in self.ranks else None

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

    # -- point to point ------------------------------------------------------------------------------------------

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

    # -- groups --------------------------------------------------------------------------------------------------

    def group(self, axis: str) -> Communicator:
        """The ranks along ``axis`` of the world's mesh that differ from this one only in that coordinate.

        Raises:
            ValueError: the world has no mesh (give one: ``World(pk.Mesh(dp=2, tp=2))``), or no such axis.
        """
        if self.mesh is None:
            raise ValueError(f"comm.group({axis!r}): this world has no mesh; start it with one, for example World(pk.Mesh(dp=2, tp=2))")
        return Communicator(self._context, self.mesh.group(axis, self.world_rank), name=axis)

    def subgroup(self, ranks: Sequence[int], name: str | None = None) -> Communicator:
        """Some ranks of this group, in the given order. All ranks may call it; only members may communicate in it.

        Raises:
            ValueError: a rank appears twice or is outside this group.
        """
        outside = [rank for rank in ranks if not 0 <= rank < self.size]
        if outside or len(set(ranks)) != len(ranks) or not ranks:
            raise ValueError(f"subgroup({list(ranks)}): give different ranks of this group, from 0 to {self.size - 1}")
        world_ranks = tuple(self.ranks[rank] for rank in ranks)
        return Communicator(self._context, world_ranks, name="ranks " + ",".join(map(str, world_ranks)) if name is None else name)

    # -- the trace -----------------------------------------------------------------------------------------------

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Name a stretch of this rank's time; spans nest. Shown as a bar around what happens inside."""
        context, start = self._context, self._context.transport.now()
        outer, context.span = context.span, context.inside(name)
        try:
            yield
        finally:
            context.span = outer
            context.recorder.add("span", start, context.transport.now(), tag=name, span=outer, site=context.line_of_event(), group=self.name)

    def compute(self, name: str, *, seconds: float | None = None, flops: float = 0.0, bytes: float = 0.0, dtype: str = "float32") -> None:
        """Stand in for a computation: the rank is busy for as long as it takes, nothing is computed.

        Args:
            name: for the trace.
            seconds: of this world's time; or else
            flops: floating-point operations, and
            bytes: moved between memory and the arithmetic units: the time follows from the rank's `Device` (on live ranks, of
                ``comm.cluster``).
            dtype: in which the operations are done; devices are not as fast in each.

        Raises:
            ValueError: a number is negative, or both ways are used, or none.
        """
        if (seconds is None) == (flops == bytes == 0):
            raise ValueError(f"compute({name!r}): give seconds=..., or else flops=... and bytes=...")
        if not ((seconds is None or seconds >= 0) and flops >= 0 and bytes >= 0):
            raise ValueError(f"compute({name!r}, seconds={seconds!r}, flops={flops!r}, bytes={bytes!r}): a duration is at least 0, and so are the others")
        context, start = self._context, self._context.transport.now()
        if seconds is not None:
            context.transport.sleep(seconds)
            value, counted = seconds, 0
        else:
            context.transport.sleep(self.cluster.device_of(self.world_rank).seconds(flops, bytes, dtype), Computation(flops, bytes, dtype))
            name, value, counted = f"{name} [{dtype}]", flops, 1
        context.recorder.add("compute", start, context.transport.now(), -1, int(bytes), counted, name, context.span, call_site(), self.name, value)

    def log(self, name: str, value: float, *, site: str | None = None, more: int = 0) -> None:
        """Note a number (a loss, an accuracy) in the trace; a live curve shows it while the run goes on.

        Args:
            name: what it is; numbers of one name make one curve a rank.
            value: a number, or a tensor of one element.
            site, more: for instruments: the source line, if not the caller's; how many numbers of the same moment follow.
        """
        context, now, site = self._context, self._context.transport.now(), call_site() if site is None else site
        context.recorder.add("metric", now, now, seq=more, tag=name, span=context.span, site=site, group=self.name, value=float(value))

    def collective(self, name: str, x: Tensor, detail: str, what: str | None = None) -> Collective:
        """Everything inside ``with comm.collective(...):`` belongs to one collective call on ``x``. For authors of collectives.

        The call's name, shape, dtype, detail and number go into the wire tag of each message inside, so ranks that call
        different things never exchange a byte; they wait, and the supervisor lays their calls side by side.

        Args:
            name: of the operation: ``all_reduce``.
            x: this rank's tensor, whose bytes the event shows.
            detail: what must agree between the ranks, beside dtype and shape: ``sum, ring``.
            what: dtype and shape that must agree, in words; those of ``x`` by default.
        """
        return Collective(self, name, x, detail, what)

    def ongoing(self, name: str, x: Tensor, detail: str) -> Ongoing:
        """Begin a collective call on ``x`` that goes on while this rank does other things. For authors of collectives.

        Post and wait for its messages inside ``with ongoing:``, as often as need be; ``ongoing.end()`` notes its end. All
        ranks must enter their ongoing collectives in the same order.
        """
        return Ongoing(self, name, x, detail)

    def now(self) -> float:
        """Seconds, in the clock of this world."""
        return self._context.transport.seconds()

    @property
    def open_spans(self) -> str:
        """The spans and collectives that this rank is inside of, outermost first: ``step/backward``."""
        return self._context.span

    @property
    def in_collective(self) -> bool:
        """Whether this rank is inside of a collective call."""
        return self._context.call is not None

    def note(self, event: Event) -> None:
        """Add to the trace what an instrument has observed (`partkit.watching`); times are those of `now`. From any thread."""
        peer = -1 if event.peer is None else event.peer
        self._context.recorder.add(event.kind, event.start, event.end, peer, event.nbytes, event.seq, event.tag, event.span, event.site, event.group)

    @property
    def cluster(self) -> Cluster:
        """What the ranks run on; ``algorithm="auto"`` chooses by it."""
        return self._context.cluster

    def native_group(self) -> Any:
        """The process group of torch.distributed for these ranks, made when first asked for. Where there is none, it refuses."""
        return self._context.transport.native_group(self.ranks)

    # -- helpers -------------------------------------------------------------------------------------------------

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

    def __repr__(self) -> str:
        place = "not in it" if self._place is None else f"rank {self._place}"
        return f"Communicator({place} of {self.size}{', ' + self.name if self.name else ''})"


class NotInGroup(ValueError):
    """A rank used a communicator of a group to which it does not belong."""
