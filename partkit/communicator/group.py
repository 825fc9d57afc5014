"""`Communicator`: the ranks of a group, seen from one of them. What a rank's function talks to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor

from partkit.cluster import Cluster
from partkit.communicator.context import RankContext
from partkit.communicator.messages import PointToPoint
from partkit.communicator.naming import call_site
from partkit.communicator.ongoing import Collective, Ongoing
from partkit.mesh import Mesh
from partkit.tracing import Event
from partkit.virtual_time import Computation

current: ContextVar[Communicator | None] = ContextVar("partkit_communicator", default=None)
"""The communicator of the rank whose function is running; for instruments that are handed none (`partkit.watch`)."""


class Communicator(PointToPoint):
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
        super().__init__(context, tuple(range(context.transport.size)) if ranks is None else tuple(ranks), name)
        self.mesh = mesh

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

    @property
    def choices(self) -> dict[tuple[str, int, int], str]:
        """What ``algorithm="auto"`` has chosen on this rank: by operation, bytes and number of ranks."""
        return self._context.choices

    def native_group(self) -> Any:
        """The process group of torch.distributed for these ranks, made when first asked for. Where there is none, it refuses."""
        return self._context.transport.native_group(self.ranks)

    def __repr__(self) -> str:
        place = "not in it" if self._place is None else f"rank {self._place}"
        return f"Communicator({place} of {self.size}{', ' + self.name if self.name else ''})"
