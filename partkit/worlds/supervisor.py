"""When a run must be ended, and how hard: decisions only. The collector asks, and does what it is told.

    silence    0.4 s without a message from any rank     -> ask each unfinished rank what it is doing
    stuck      twice the same answer: all blocked, no send meets a receive     -> the run fails with a diagnosis
    late       a time-out was set: a rank has waited longer for one message    -> the same
    failed     a rank raised    -> a moment for the others to fail in the same way, then abort them
    aborted    1.2 s later a rank still has not answered    -> kill it

A rank that computes, or waits in something that partkit does not know, counts as running: slow is never called stuck. With a
time-out, ranks are also asked four times a second while messages come and go between others.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from partkit.diagnosis import Diagnosis, RankState, explain, is_stuck, late

SILENCE_SECONDS = 0.4
LOOK_SECONDS = 0.2
WAIT_SECONDS = 0.25
FELLOW_SECONDS = 0.25
KILL_SECONDS = 1.2

Step = Literal["nothing", "look", "abort", "kill"]


class Supervisor:
    """Watches one run.

    Args:
        size: number of ranks.
        now: the present, in the clock of every later call (seconds, monotonic).
        timeout: seconds that a rank may wait for one message; None for as long as it takes.
    """

    def __init__(self, size: int, now: float, timeout: float | None = None) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout={timeout!r}: seconds that a rank may wait for one message, above 0, or None")
        self._size = size
        self._timeout = timeout
        self._waiting: dict[int, tuple[int, float]] = {}  # by rank: its progress, and since when it is blocked there
        self._latest: dict[int, RankState] = {}
        self._wait_at = now + WAIT_SECONDS
        self._quiet_since = now
        self._states: dict[int, RankState] = {}
        self._finished: dict[int, RankState] = {}
        self._last_look: tuple[RankState, ...] | None = None
        self._look_at = now + SILENCE_SECONDS
        self._abort_at: float | None = None
        self._kill_at: float | None = None
        self.diagnosis: Diagnosis | None = None

    def heard(self, now: float) -> None:
        """A rank sent something that shows that the run goes on."""
        self._look_at = now + SILENCE_SECONDS
        self._states.clear()
        self._last_look = None

    def failed(self, now: float) -> None:
        """A rank raised or died: the others get a moment, for the same may happen to them."""
        if self._abort_at is None and self._kill_at is None:
            self._abort_at = now + FELLOW_SECONDS

    def stop(self, now: float) -> None:
        """The user wants the run to end."""
        if self._kill_at is None:
            self._abort_at = now

    def step(self, now: float) -> Step:
        """What to do at this moment."""
        if self._kill_at is not None:
            return "kill" if now >= self._kill_at else "nothing"
        if self._abort_at is not None:
            if now < self._abort_at:
                return "nothing"
            self._kill_at = now + KILL_SECONDS
            return "abort"
        if now < self._look_at and (self._timeout is None or now < self._wait_at):
            return "nothing"
        self._look_at, self._wait_at = now + LOOK_SECONDS, now + WAIT_SECONDS
        self._states.clear()
        return "look"

    def waits(self, state: RankState, now: float) -> Diagnosis | None:
        """A rank's answer; a diagnosis once it has waited for the same message longer than the time-out."""
        self._latest[state.rank] = state
        progress, since = self._waiting.get(state.rank, (-1, now))
        if state.status != "blocked" or progress != state.progress:
            since = now
        self._waiting[state.rank] = state.progress, since
        if self._timeout is None or now - since <= self._timeout:
            return None
        self.diagnosis = late([self._latest[rank] for rank in sorted(self._latest)], self._timeout)
        return self.diagnosis

    def saw(self, state: RankState, unfinished: Collection[int]) -> Diagnosis | None:
        """A rank's answer; a diagnosis once all have answered the same twice and can never move.

        Args:
            state: what the rank is doing.
            unfinished: ranks whose result is still to come.
        """
        if state.rank not in unfinished:
            self._finished[state.rank] = state  # for the record of its calls; it may answer later than those that wait for it
            return None
        self._states[state.rank] = state
        if not set(unfinished) <= self._states.keys():
            return None
        look = tuple(self._states[rank] for rank in sorted(unfinished))
        known = {**self._finished, **self._states}
        everyone = [known.get(rank, RankState(rank, "finished")) for rank in range(self._size)]
        self._states.clear()  # each answer counts for one look
        if is_stuck(everyone) and look == self._last_look:
            self.diagnosis = explain(everyone)
            return self.diagnosis
        self._last_look = look
        return None
