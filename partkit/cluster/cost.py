"""What a collective costs: messages and bytes by rank, steps, seconds; from a formula, or from the list of its messages.

The alpha-beta model: a message of k bytes takes ``latency + k / bandwidth`` on its link; a rank sends one message and
receives one at a time (one-port, full duplex), and a message begins when both sides are ready for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from partkit.cluster.hardware import LOOPBACK, Link


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
    """Time from the common start to the last end."""

    @staticmethod
    def of_rounds(rounds: Iterable[Sequence[tuple[int, int, int]]], size: int, link: Link | Callable[[int, int], Link] = LOOPBACK) -> Cost:
        """The cost of an algorithm that is a list of rounds of messages ``(src, dst, nbytes)``.

        In a round, each rank sends at most one message and receives at most one, both at once; it goes on when both are
        done. Nobody waits for the others' rounds: a message begins as soon as its two ranks have got so far.

        Args:
            rounds: the messages.
            size: number of ranks.
            link: between any two ranks, or ``link(src, dst)`` where links differ.
        """
        link_of = link if callable(link) else lambda src, dst: link
        messages, sent, ready, steps = [0] * size, [0] * size, [0.0] * size, 0
        for round_ in rounds:
            begin = ready[:]
            for src, dst, nbytes in round_:
                messages[src] += 1
                sent[src] += nbytes
                end = max(begin[src], begin[dst]) + link_of(src, dst).seconds(nbytes)
                ready[src], ready[dst] = max(ready[src], end), max(ready[dst], end)
            steps += bool(round_)
        return Cost(tuple(messages), tuple(sent), steps, max(ready))


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
