"""A gate on the wire of a rank, for runs that are stepped: messages wait in it, the kernel lets them go one by one.

    rank's main thread     gate.hold(post, channel)           its n-th send waits; the rank goes on until it needs what does not come
    rank's watcher         gate.allow((2, 5))  <-- Allow      the sends number 2 and 5 are posted, by this thread
    kernel                 run.allow({rank: (2, 5)})          run.allow() opens the gate for all

Messages are named by number, so that an order that comes twice, or late, lets nothing else go. Messages of one channel keep their
order: with one go those before it. A send in the gate counts as posted, for the rank it is: if its receive is there too nothing is
stuck, however long nobody lets it go; and a deadlock is one in the gate as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import NamedTuple


class _Held(NamedTuple):
    post: Callable[[], None]
    channel: Hashable


class Gate:
    """Holds the sends of one rank.

    Example:
        >>> gate = Gate()
        >>> for name in "abc":
        ...     gate.hold(lambda name=name: print("posted", name), channel=name)
        >>> gate.allow((1,))
        posted b
        >>> gate.allow(None)
        posted a
        posted c
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # also round posting: what the two threads post stays in order
        self._held: dict[int, _Held] = {}
        self._number = 0
        self._open = False

    def close(self) -> None:
        """Another run begins: forget what is held, count from zero."""
        with self._lock:
            self._held.clear()
            self._number, self._open = 0, False

    def hold(self, post: Callable[[], None], channel: Hashable) -> None:
        """Call ``post`` once this send, the next in number, may go; at once if the gate is open.

        Args:
            post: puts the message on the wire; must not raise.
            channel: messages of one channel keep their order.
        """
        with self._lock:
            self._held[self._number] = _Held(post, channel)
            self._number += 1
            if self._open:
                self._post_all()

    def allow(self, numbers: tuple[int, ...] | None) -> None:
        """Let these sends go and hold all others; None: let all go, now and from now on. From any thread."""
        with self._lock:
            self._open = numbers is None
            if numbers is None:
                self._post_all()
            for number in numbers or ():
                self._post_up_to(number)

    def _post_all(self) -> None:
        while self._held:
            self._held.pop(next(iter(self._held))).post()

    def _post_up_to(self, number: int) -> None:
        """Post one, and before it those of its channel that were held before it."""
        if number in self._held:
            channel = self._held[number].channel
            for each in [n for n, held in self._held.items() if n <= number and held.channel == channel]:
                self._held.pop(each).post()
