"""What a rank does, as far as time is concerned: a list of posts, waits and durations.

    [0.5, a, b, b, a]     compute 0.5 s; post a; post b; wait for b; wait for a

A side of a message stands in the list of its rank twice: first where it is posted, then where it is waited for. What stands
there again and again, ``receive, send, receive, send``, may be kept in a table instead (`partkit.virtual_time.exchanges`); a `Run`
stands in the list for many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, Protocol

NEVER = float("inf")
ANYBODY = -1
"""In place of a rank: whoever sends first."""
NOBODY = -1
"""In place of an exchange: none, or not known yet."""


class Terms:
    """What a receive takes that takes the first message to come: from anybody, or before a deadline.

    Args:
        peer: from whom, or `ANYBODY`.
        kind: only a send of this kind fits (`Side.kind`).
        timeout: seconds after which it gives up, if no send has met it by then.

    Attributes:
        expired: it has given up.
    """

    __slots__ = ("expired", "kind", "peer", "timeout")

    def __init__(self, peer: int, kind: object, timeout: float = NEVER) -> None:
        self.peer = peer
        self.kind = kind
        self.timeout = timeout
        self.expired = False

    def fit(self, send: Side) -> bool:
        """Whether this message may be taken."""
        return self.peer in (ANYBODY, send.rank) and send.kind == self.kind


class Side:
    """One side of a message: a send or a receive.

    Args:
        rank: whose side it is.
        peer: the rank on the other side.
        nbytes: how much travels.
        is_send: whether it is the sender's side.

    Attributes:
        other: the other side, once it is known which one it is.
        posted: when it was posted; negative before that.
        end: when the message has arrived; infinite until that is known.
        awaited: whether its rank stands still until ``end`` is known.
        terms: of a receive that takes the first message to come; the engine then finds its other side.
        timed: whether it depends on time if the message arrives: `Engine.run` tells when that is known.
        order: which of its rank's it is, in the order of posting.
    """

    __slots__ = ("awaited", "end", "is_send", "nbytes", "order", "other", "peer", "posted", "rank", "terms", "timed")

    def __init__(self, rank: int, peer: int, nbytes: int, is_send: bool) -> None:
        self.rank = rank
        self.peer = peer
        self.nbytes = nbytes
        self.is_send = is_send
        self.other: Side | None = None
        self.posted = -1.0
        self.order = 0
        self.end = NEVER
        self.awaited = False
        self.timed = False
        self.terms: Terms | None = None

    @property
    def kind(self) -> object:
        """What must be equal on both sides, beside the ranks."""
        return None

    def __repr__(self) -> str:
        way = "->" if self.is_send else "<-"
        return f"Side({self.rank} {way} {self.peer}, {self.nbytes} bytes)"


class Computation(NamedTuple):
    """Work whose time depends on who does it.

    Example:
        >>> Computation(flops=2e9, nbytes=1e6)
        Computation(flops=2000000000.0, nbytes=1000000.0, dtype='float32')
    """

    flops: float
    nbytes: float = 0.0
    """Bytes between memory and the arithmetic units."""
    dtype: str = "float32"


class Run:
    """Exchanges that a rank does one after the other: rows of a table.

    Each of them is four things done: its receive posted, its send posted, its receive waited for, its send waited for.

    Args:
        first: its first row.
        mark: how much the rank has done before.

    Attributes:
        pieces: rows that stand side by side, each time from where to behind where: between them are rows of other ranks.
        over: the rank has come to its end, so that what follows is another run.

    Example:
        >>> run = Run(first=3, mark=0)
        >>> run.pieces[-1][1] = 5
        >>> list(run.rows())
        [3, 4]
    """

    __slots__ = ("mark", "over", "pieces")

    def __init__(self, first: int, mark: int) -> None:
        self.pieces = [[first, first]]
        self.mark = mark
        self.over = False

    def rows(self) -> Iterator[int]:
        """One by one."""
        return chain.from_iterable(range(first, end) for first, end in self.pieces)


Entry = Side | Computation | float | Run
"""A line of a rank's list: a side (posted, or waited for), a computation, a stated duration in seconds, or a run of exchanges."""


class Network(Protocol):
    """Knows how long things take. It is asked in the order of time."""

    def message(self, src: int, dst: int, nbytes: int, start: float) -> float:
        """Seconds of a message that begins at ``start``."""

    def computation(self, rank: int, work: Computation | float, start: float) -> float:
        """Seconds of a computation, or of a stated duration, that begins at ``start``."""

    @property
    def steady(self) -> bool:
        """Whether all takes as long at whatever time it begins, and however often it has been asked."""

    def death(self, rank: int) -> float:
        """When the rank dies: messages that are not done by then never arrive. Infinite for a rank that lives."""


def meet(send: Side, recv: Side) -> None:
    """These two are the sides of one message.

    Example:
        >>> send, recv = Side(0, 1, 8, is_send=True), Side(1, 0, 8, is_send=False)
        >>> meet(send, recv)
        >>> send.other is recv and recv.other is send
        True
    """
    send.other, recv.other = recv, send
