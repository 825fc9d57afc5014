"""What all communicators of one rank share: its wire, its recorder, and what it is doing at this moment."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from partkit.diagnosis import Call, RankState
from partkit.tracing import Recorder
from partkit.transport.base import Transport

if TYPE_CHECKING:
    from partkit.communicator.pending import Pending


class RankContext:
    """What all communicators of one rank share."""

    def __init__(self, transport: Transport, recorder: Recorder) -> None:
        self.transport = transport
        self.recorder = recorder
        self.spans: list[str] = []
        self.calls: list[Call] = []
        self.pending: dict[int, Pending] = {}
        self.blocked_on: Pending | None = None
        self.progress = 0
        self.num_calls: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self.num_messages: Counter[tuple[str, int, str, str]] = Counter()

    def begin_run(self) -> None:
        """Start counting messages and calls from zero; forget what an earlier run left posted."""
        for counts in (self.num_calls, self.num_messages, self.pending, self.spans, self.calls):
            counts.clear()
        self.blocked_on = None
        self.recorder.reset()

    def state(self) -> RankState:
        """What this rank is doing; may be called from another thread at any moment."""
        blocked_on = self.blocked_on
        posted = tuple(p.operation for p in list(self.pending.values()))
        call = self.calls[-1] if self.calls else None
        return RankState(
            rank=self.transport.rank,
            status="running" if blocked_on is None else "blocked",
            blocked_on=None if blocked_on is None else blocked_on.operation,
            posted=posted,
            call=call,
            num_calls=self.num_calls.total(),
            progress=self.progress,
        )
