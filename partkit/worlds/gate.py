"""A gate before the sends of a rank, for runs that are stepped: the rank's main thread waits in it, the kernel opens it.

    rank's main thread     gate.wait()                      its n-th send waits until n < allowed
    rank's watcher         gate.allow(3)  <-- Allow(3)      the first three may go
    kernel                 run.allow(rank, 3)               run.allow() lets all go

How many may go is told as a total, so that an order that comes twice, or late, lets no message go unseen.
A rank that waits here counts as running: nothing is stuck as long as somebody can let it go.
"""

from __future__ import annotations

from partkit.worlds.bell import Bell

LOOK_SECONDS = 1.0


class Gate:
    """Counts the sends of one rank, and holds those that may not go yet.

    Example:
        >>> gate = Gate()
        >>> gate.allow(1)
        >>> gate.wait()
    """

    def __init__(self) -> None:
        self._changed = Bell()
        self._num_asked = 0
        self._allowed: int | None = 0

    def close(self) -> None:
        """Count from zero, and let nothing go: another run begins."""
        self._num_asked, self._allowed = 0, 0

    def allow(self, upto: int | None) -> None:
        """Let the first ``upto`` sends of the run go; None for all. From any thread."""
        self._allowed = upto
        self._changed.ring()

    def wait(self) -> None:
        """Hold the next send until it may go. From one thread; an exception raised in it, by a stop button, ends the wait."""
        number = self._num_asked
        self._num_asked += 1
        while (allowed := self._allowed) is not None and number >= allowed:
            self._changed.wait(LOOK_SECONDS)
