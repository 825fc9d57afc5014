"""What all communicators of one rank share: its wire, its recorder, and what it is doing at this moment."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from partkit.cluster import Cluster
from partkit.communicator.naming import call_site
from partkit.diagnosis import Call, Due, Operation, RankState
from partkit.tracing import Recorder
from partkit.transport.base import Transport

if TYPE_CHECKING:
    from partkit.communicator.exchange import Opened
    from partkit.communicator.group import Communicator

KEPT_CALLS = 32
"""Of the collectives that a rank has entered, so many of the last are remembered, for whoever explains why it stands still."""


class Gate(Protocol):
    """Holds sends until somebody lets them go (`partkit.recording`)."""

    def hold(self, post: Callable[[], None], channel: Hashable) -> None:
        """Call ``post`` once the next send may go; messages of one channel keep their order."""


class UnderWay(Protocol):
    """One message that was posted and may not be done yet, or two that go together."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """In words, for the supervisor; what is being waited for comes first."""


class RankContext:
    """What all communicators of one rank share.

    Args:
        transport: the wire.
        recorder: where events go.
        cluster: what the ranks run on; algorithms are chosen by it, so it is the same on all ranks.

    Attributes:
        span: the open spans and collectives, outermost first: ``step/backward``.
        site: the user's line that is running, where it has been looked up for all that follows (`at_one_line`).
        call: the innermost collective call that this rank is inside of.
        calls: the collectives that it has entered last.
        gate: where sends can be held; None if nobody could let them go.
        lane: the short way of the last exchange (`partkit.communicator.exchange`).
        due: differentiable movements whose backward has not run, oldest first (`partkit.functional` keeps it).
        backward_of: the one whose backward this rank is in.
        choices: of ``algorithm="auto"``, by operation, bytes and number of ranks (`partkit.collectives.calling` keeps it).
    """

    def __init__(self, transport: Transport, recorder: Recorder, cluster: Cluster | None = None) -> None:
        self.transport = transport
        self.recorder = recorder
        self.cluster = Cluster() if cluster is None else cluster
        self.span = ""
        self.site = ""
        self.call: Call | None = None
        self.calls: deque[Call] = deque(maxlen=KEPT_CALLS)
        self.gate: Gate | None = None
        self.lane: Opened | None = None
        self.due: dict[Due, None] = {}
        self.backward_of: Due | None = None
        self.choices: dict[tuple[str, int, int], str] = {}
        self.num_due: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self.pending: dict[int, UnderWay] = {}
        self.blocked_on: UnderWay | None = None
        self.progress = 0
        self.num_calls: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self.num_messages: dict[tuple[str, int, str, str], int] = {}
        self.num_alike: Counter[Hashable] = Counter()

    def begin_run(self) -> None:
        """Start counting messages and calls from zero; forget what an earlier run left posted."""
        self.num_calls.clear()
        self.calls.clear()
        self.lane = None
        self.num_messages.clear()
        self.num_alike.clear()
        self.pending.clear()
        self.due.clear()
        self.num_due.clear()
        self.site = ""
        self.span, self.call, self.blocked_on, self.backward_of = "", None, None, None
        self.recorder.reset()

    def inside(self, name: str) -> str:
        """The path of a span called ``name`` that opens now."""
        return f"{self.span}/{name}" if self.span else name

    def line_of_event(self) -> str:
        """The user's line that is running; empty where nothing is recorded, since finding it costs more than all else about an event."""
        return (self.site or call_site()) if self.recorder.enabled else ""

    def state(self) -> RankState:
        """What this rank is doing; may be called from another thread at any moment."""
        blocked_on = self.blocked_on
        return RankState(
            rank=self.transport.rank,
            status="running" if blocked_on is None else "blocked",
            blocked_on=None if blocked_on is None else blocked_on.operations[0],
            posted=tuple(operation for message in list(self.pending.values()) for operation in message.operations),
            call=self.call,
            num_calls=self.num_calls.total(),
            progress=self.progress,
            backward_of=self.backward_of,
            due=tuple(self.due),
            calls=tuple(self.calls.copy()),
        )


@contextmanager
def at_one_line(comm: Communicator) -> Iterator[None]:
    """Inside, messages and spans of this rank are said to come from the user's line that is running now: it is looked up once, not for each.

    Example:
        >>> import torch, partkit as pk
        >>> def twice(comm):
        ...     with at_one_line(comm):
        ...         for _ in range(2):
        ...             comm.sendrecv(torch.ones(1), 0, torch.empty(1), 0)
        >>> with pk.SimulatedWorld(1) as world:
        ...     results = world.run(twice)
        ...     len({event.site for event in world.trace.events if event.kind == "send"})
        1
    """
    context = comm._context
    outer, context.site = context.site, context.site or call_site()
    try:
        yield
    finally:
        context.site = outer
