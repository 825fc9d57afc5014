"""A run of simulated ranks that goes on while the cell that started it has returned; the twin of `partkit.worlds.run.Run`.

the thread of the run      carries it out; ten times a second it looks whether it is to stop
whoever waits              shows what ranks have printed, and gets the results or what went wrong
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

from partkit.worlds.results import Results
from partkit.worlds.simulated_run import SimulatedRun

if TYPE_CHECKING:
    from partkit.worlds.simulated import SimulatedWorld

POLL_SECONDS = 0.02


class BackgroundRun:
    """A function that runs, or ran, on all ranks of a simulated world. `SimulatedWorld.start` makes it.

    Args:
        world: where it runs.
        run: what is to be carried out.

    Attributes:
        trace: its events; there when it is over.
        seen: whether somebody has been told how it ended.

    Example:
        >>> import asyncio, partkit as pk
        >>> async def square() -> list[int]:
        ...     with pk.SimulatedWorld(3) as world:
        ...         return list(await world.start(lambda comm: comm.rank ** 2))
        >>> asyncio.run(square())
        [0, 1, 4]
    """

    def __init__(self, world: SimulatedWorld, run: SimulatedRun) -> None:
        self.world, self.trace = world, run.trace
        self.seen = False
        self._run = run
        self._stopping = threading.Event()
        self._problem: BaseException | None = None
        self._results: Results | None = None
        if run.screen.any_thread:
            run.screen.open()
        self._thread = threading.Thread(target=self._carry_out, name="partkit simulated run", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> Results:
        """Block until it is over, showing what ranks print; the stop button ends it.

        Args:
            timeout: seconds of this machine's time; None for as long as it takes. The run goes on after a time-out.

        Raises:
            RankError: a rank raised (`RanksStuck`: nothing can move any more; `RankDied`: others wait for a rank that died).
            TimeoutError: it is not over after ``timeout``.
            KeyboardInterrupt: it was stopped, here or by ``stop()``.
        """
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        try:
            while not self.done:
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"the run is not over after {timeout} s; it goes on")
                self._thread.join(min(0.1, max(0.0, deadline - time.monotonic())))
                self._run.show()
        except KeyboardInterrupt:
            self.stop()
            raise
        return self.results()

    def results(self) -> Results:
        """What the ranks returned; raises what went wrong. Only once it is over."""
        if not self.done:
            raise RuntimeError("the run is not over; wait() for it, or await it")
        if not self.seen:
            self._run.show(over=True)
        self.seen = True
        if self._problem is not None:
            raise self._problem
        if self._results is None:
            self._results = self._run.results()
        return self._results

    def stop(self) -> None:
        """End it on all ranks; returns when it is over."""
        self._stopping.set()
        self._thread.join()
        self.seen = True

    def _carry_out(self) -> None:
        try:
            self._run.carry_out(self._meanwhile)
        except BaseException as problem:
            self._problem = problem
        if self._run.screen.any_thread:
            self._run.show(over=True)

    def _meanwhile(self) -> None:
        if self._stopping.is_set():
            raise KeyboardInterrupt("the run was stopped")
        if self._run.screen.any_thread:
            self._run.show()

    def __await__(self) -> Generator[object, None, Results]:
        return self._ended().__await__()

    async def _ended(self) -> Results:
        try:
            while not self.done:
                await asyncio.sleep(POLL_SECONDS)
                self._run.show()
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.stop()
            raise
        return self.results()

    def __repr__(self) -> str:
        return f"BackgroundRun({self.world.size} simulated ranks, {'over' if self.done else 'going on'})"
