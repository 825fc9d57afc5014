"""One run of a function on all ranks: its trace and output as they grow, its end as results or as one exception."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from partkit.diagnosis import Operation
from partkit.tracing import Trace
from partkit.worlds.bell import Bell
from partkit.worlds.errors import Failure, RankError, killed_text, rank_died, rank_error, ranks_stuck, warn_of_posted
from partkit.worlds.messages import Allow
from partkit.worlds.output import Line, Output, make_screen
from partkit.worlds.results import Results
from partkit.worlds.supervisor import Supervisor
from partkit.worlds.travel import unpack

if TYPE_CHECKING:
    from partkit.worlds.world import World


class Run:
    """A function that runs, or ran, on all ranks of a world. `World.start` makes it.

    Attributes:
        world: where it runs.
        trace: its events; grows while it goes on.
        output: what its ranks print.
    """

    def __init__(self, world: World, number: int, nudge: Callable[[], None], tell: Callable[[dict[int, object]], None]) -> None:
        self.world = world
        self.number = number
        self._nudge, self._tell = nudge, tell
        self.trace = Trace(world.size, origin=time.perf_counter())
        self.output = Output(world.size)
        self.supervisor = Supervisor(world.size, time.monotonic(), world.timeout)
        self.payloads: dict[int, bytes] = {}
        self.posted: dict[int, list[Operation]] = {}  # messages that ranks have left behind
        self.failures: dict[int, Failure] = {}
        self.suffered: dict[int, bytes] = {}  # what ranks raised because of others: pickled failures
        self.died: dict[int, int | None] = {}
        self.killed: set[int] = set()  # those of them that we killed, since they did not stop when told
        self.defect: str | None = None  # of partkit itself
        self.stopped = False
        self.seen = False  # whether somebody has been told how it ended
        self.new_lines: deque[Line] = deque()
        self.changed = Bell()
        self._screen = make_screen(self.output)
        self._shown_at: float | None = None  # for a run in the background: when its display was last brought up to date
        self._results: Results | None = None

    # -- filled by the collector ---------------------------------------------------------------------------------

    @property
    def unfinished(self) -> set[int]:
        """Ranks that have not answered yet."""
        return set(range(self.world.size)) - self.payloads.keys() - self.failures.keys() - self.suffered.keys() - self.died.keys()

    def finish(self) -> None:
        """All ranks have answered: close the books. Called once, by the collector."""
        self.new_lines.extend(self.output.finish())
        self.trace.finished.set()
        self.show_in_background(at_once=True)

    # -- asked by the user ---------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        return self.trace.finished.is_set()

    def wait(self, timeout: float | None = None) -> Results:
        """Block until it is over, showing what ranks print; the stop button ends it.

        Args:
            timeout: seconds to wait; None for as long as it takes. The run goes on after a time-out.

        Raises:
            RankError: a rank raised (`RankDied`: its process ended; `RanksStuck`: nothing can move any more, or not in time).
            TimeoutError: it is not over after ``timeout``.
            KeyboardInterrupt: it was stopped, here or by ``stop()``.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self.done:
                if not self.new_lines:
                    self.changed.wait(0.1 if deadline is None else min(0.1, deadline - time.monotonic()))
                self._show()
                if deadline is not None and time.monotonic() >= deadline and not self.done:
                    raise TimeoutError(f"the run is not over after {timeout} s; it goes on")
        except KeyboardInterrupt:
            self.stop()
            raise KeyboardInterrupt(killed_text(sorted(self.killed))) from None
        self._show()
        return self.results()

    def results(self) -> Results:
        """What the ranks returned; raises what they raised. Only once it is over."""
        if not self.done:
            raise RuntimeError("the run is not over; wait() for it, or await it")
        self.seen = True
        problem = self.problem()
        if problem is not None:
            raise problem
        if self._results is None:
            warn_of_posted(self.posted)
            self._results = Results(unpack(self.payloads[rank]) for rank in range(self.world.size))
        return self._results

    def problem(self) -> BaseException | None:
        """How it failed; None if it did not. The cause comes before what followed from it."""
        killed, died = sorted(self.killed), {rank: code for rank, code in self.died.items() if rank not in self.killed}
        if self.defect is not None:
            return RuntimeError(f"this is a defect of partkit, and this world can't go on: {self.defect}; start a new one")
        if self.supervisor.diagnosis is not None:
            return ranks_stuck(self.supervisor.diagnosis, killed)
        if self.stopped:
            return KeyboardInterrupt(killed_text(killed))
        if died:
            return rank_died(died, sorted(self.suffered.keys() | self.failures.keys() | self.killed), killed)
        if self.failures:
            return self._with_original(list(self.failures.values()), sorted(self.suffered.keys() | self.killed))
        if self.suffered:  # nobody is the cause: what they say is all there is
            return self._with_original([unpack(payload) for payload in self.suffered.values()], [])
        return None

    def _with_original(self, failures: list[Failure], suffered: list[int]) -> RankError:
        """The exception for what ranks raised; the first rank's own exception, if it could travel, is its cause."""
        error = rank_error(failures, suffered, sorted(self.killed))
        original = min(failures).pickled
        if original is not None:
            with suppress(Exception):
                error.__cause__ = unpack(original)
        return error

    def stop(self) -> None:
        """End it on all ranks; returns when it is over, within 2 s. Variables of the ranks stay as they are."""
        if self.done:
            return
        self.stopped = True  # also for the second time: an impatient user may have interrupted the first
        self.supervisor.stop(time.monotonic())
        self._nudge()
        self.changed.wait_for(lambda: self.done, timeout=5)
        self.seen = True

    def allow(self, numbers: Mapping[int, Collection[int]] | None = None) -> None:
        """Let messages go that are held (`partkit.recording`).

        Args:
            numbers: by rank the numbers of its sends; all others of that rank are held. None opens the gates of all ranks.
        """
        everyone: dict[int, object] = {rank: Allow(self.number, None) for rank in range(self.world.size)}
        self._tell(everyone if numbers is None else {rank: Allow(self.number, tuple(own)) for rank, own in numbers.items()})

    def to_background(self) -> None:
        """Claim a place for the output in the cell that is running now: the run goes on after the cell."""
        if self._screen.any_thread:
            self._screen.open()
            self._shown_at = time.monotonic()

    def show_in_background(self, *, at_once: bool = False) -> None:
        """Bring the display up to date, ten times a second at most; called by the collector."""
        now = time.monotonic()
        if self._shown_at is not None and (at_once or now - self._shown_at > 0.1):
            self._shown_at = now
            self._show()

    def _show(self) -> None:
        """Bring the screen up to date; from the thread that waits."""
        lines = [self.new_lines.popleft() for _ in range(len(self.new_lines))]
        if lines:
            self._screen.arrived(lines)
        self._screen.ended(set(range(self.world.size)) - self.unfinished)
        if self.done:
            self._screen.close()

    def __await__(self) -> Generator[object, None, Results]:
        return self._ended().__await__()

    async def _ended(self) -> Results:
        try:
            while not self.done:
                await asyncio.sleep(0.02)
                self._show()
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.stop()
            raise
        self._show()
        return self.results()

    def __repr__(self) -> str:
        return f"Run({self.world.size} ranks, {'over' if self.done else 'going on'})"
