"""How one thread tells another that something has changed, when the waiting one may be interrupted at any moment.

`threading.Condition` and `threading.Event` are written in Python: a stop button that lands inside of their ``wait`` leaves
them with a lock that is not held ("release unlocked lock"), or held for ever. A `queue.SimpleQueue` waits in C and is left
in order.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import suppress

POLL_SECONDS = 0.1
"""A ring wakes one thread; others that wait look again after so long."""


class Bell:
    """Rung by one thread, waited for by another."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wake whoever waits, or the next who will."""
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, timeout: float) -> None:
        """Sleep until it rings, at most ``timeout`` seconds. Look again at what you wait for: it may ring for something else."""
        with suppress(queue.Empty):
            self._rings.get(timeout=max(0.0, timeout))

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Sleep until ``condition`` holds; False if it does not within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.wait(min(POLL_SECONDS, deadline - time.monotonic()))
        return True
