"""What a collective costs: messages and bytes by rank, steps, seconds; from a formula, or from the list of its messages.

The alpha-beta model: a message of k bytes takes ``latency + k / bandwidth`` on its link; a rank sends one message and
receives one at a time (one-port, full duplex), and a message begins when both sides are ready for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from partkit.cluster.hardware import LOOPBACK, Link

Numbers = NDArray[np.int64]
Round = Sequence[tuple[int, int, int]] | Numbers
"""Messages ``(src, dst, nbytes)``, as a list or as the rows of an array."""


class Cost(NamedTuple):
    """What a collective costs: what a trace of it shows, and how long it takes in the model.

    Example:
        >>> Cost.of_rounds([[(0, 1, 8)], [(0, 2, 8), (1, 3, 8)]], size=4, link=Link(latency=1.0, bandwidth=8.0))
        Cost(messages=(2, 1, 0, 0), bytes_sent=(16, 8, 0, 0), steps=2, seconds=4.0)
    """

    messages: tuple[int, ...]
    """Messages that each rank sends, by rank."""
    bytes_sent: tuple[int, ...]
    """Bytes that each rank sends, by rank."""
    steps: int
    """Rounds of messages, one after the other."""
    seconds: float
    """Time from the common start to the last end, each rank having links of its own."""

    def work(self, link: Link) -> float:
        """The time, in seconds, of the messages of all ranks through the channels that they share; 0 if each pair has a link of its own.

        Args:
            link: that of the formula, with its ``channels``.

        Example:
            >>> Cost(messages=(2, 1, 0, 0), bytes_sent=(16, 8, 0, 0), steps=2, seconds=4.0).work(Link(latency=1.0, bandwidth=8.0, channels=1))
            6.0
        """
        return 0.0 if link.channels is None else (sum(self.messages) * link.latency + sum(self.bytes_sent) / link.bandwidth) / link.channels

    def through(self, link: Link) -> Cost:
        """The same with the seconds that it takes where ranks share channels: the longest chain of messages or all of them, whichever is longer.

        Args:
            link: that of the formula, with its ``channels``.

        Example:
            >>> Cost(messages=(2, 1, 0, 0), bytes_sent=(16, 8, 0, 0), steps=2, seconds=4.0).through(Link(1.0, 8.0, channels=1)).seconds
            6.0
        """
        return self._replace(seconds=max(self.seconds, self.work(link)))

    @staticmethod
    def of_rounds(rounds: Iterable[Round], size: int, link: Link | Callable[[int, int], Link] = LOOPBACK) -> Cost:
        """The cost of an algorithm that is a list of rounds of messages ``(src, dst, nbytes)``.

        In a round, each rank sends at most one message and receives at most one, both at once; it goes on when both are
        done. Nobody waits for the others' rounds: a message begins as soon as its two ranks have got so far.

        Args:
            rounds: the messages.
            size: number of ranks.
            link: between any two ranks, or ``link(src, dst)`` where links differ.
        """
        messages, sent, ready, steps = np.zeros(size, int), np.zeros(size, int), np.zeros(size), 0
        for round_ in rounds:
            if len(round_):
                src, dst, nbytes = np.asarray(round_).T
                messages[src] += 1
                sent[src] += nbytes
                end = np.maximum(ready[src], ready[dst]) + _seconds(link, src, dst, nbytes)
                ready[src] = end  # later than before, as is each end of a message; a rank that does both goes on after the later
                ready[dst] = np.maximum(ready[dst], end)
                steps += 1
        return Cost(tuple(messages.tolist()), tuple(sent.tolist()), steps, float(ready.max()))


def _seconds(link: Link | Callable[[int, int], Link], src: Numbers, dst: Numbers, nbytes: Numbers) -> Any:
    """Of each message of a round."""
    if callable(link):
        return [link(a, b).seconds(k) for a, b, k in zip(src.tolist(), dst.tolist(), nbytes.tolist(), strict=True)]
    return link.latency + nbytes / link.bandwidth


class CostFunction(Protocol):
    """Gives the cost of one algorithm."""

    def __call__(self, numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
        """Cost of one call.

        Args:
            numel: elements of the tensor that each rank passes in; what that is, says the collective.
            itemsize: bytes of an element.
            size: number of ranks.
            link: the link between any two of them.
        """


def nothing(size: int) -> Cost:
    """The cost of a collective in which nobody sends."""
    return Cost((0,) * size, (0,) * size, 0, 0.0)
