"""When a run must be ended, and how hard: decisions only. The collector asks, and does what it is told.

    silence    0.4 s without a message from any rank     -> ask each unfinished rank what it is doing
    stuck      twice the same answer: all blocked, no send meets a receive     -> the run fails with a diagnosis
    failed     a rank raised    -> a moment for the others to fail in the same way, then abort them
    aborted    1.2 s later a rank still has not answered    -> kill it

A rank that computes, or waits in something that partkit does not know, counts as running: slow is never called stuck.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from partkit.diagnosis import Diagnosis, RankState, explain, is_stuck

SILENCE_SECONDS = 0.4
LOOK_SECONDS = 0.2
FELLOW_SECONDS = 0.25
KILL_SECONDS = 1.2

Step = Literal["nothing", "look", "abort", "kill"]


class Supervisor:
    """Watches one run.

    Args:
        size: number of ranks.
        now: the present, in the clock of every later call (seconds, monotonic).
    """

    def __init__(self, size: int, now: float) -> None:
        self._size = size
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
        if now < self._look_at:
            return "nothing"
        self._look_at = now + LOOK_SECONDS
        self._states.clear()
        return "look"

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
