"""What a rank does, as far as time is concerned: a list of posts, waits and durations.

    [0.5, a, b, b, a]     compute 0.5 s; post a; post b; wait for b; wait for a

A side of a message stands in the list of its rank twice: first where it is posted, then where it is waited for.
"""

from __future__ import annotations

NEVER = float("inf")


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
    """

    __slots__ = ("awaited", "end", "is_send", "nbytes", "other", "peer", "posted", "rank")

    def __init__(self, rank: int, peer: int, nbytes: int, is_send: bool) -> None:
        self.rank = rank
        self.peer = peer
        self.nbytes = nbytes
        self.is_send = is_send
        self.other: Side | None = None
        self.posted = -1.0
        self.end = NEVER
        self.awaited = False

    def __repr__(self) -> str:
        way = "->" if self.is_send else "<-"
        return f"Side({self.rank} {way} {self.peer}, {self.nbytes} bytes)"


Entry = Side | float
"""A line of a rank's list: a side (posted, or waited for), or a duration in seconds."""


def meet(send: Side, recv: Side) -> None:
    """These two are the sides of one message.

    Example:
        >>> send, recv = Side(0, 1, 8, is_send=True), Side(1, 0, 8, is_send=False)
        >>> meet(send, recv)
        >>> send.other is recv and recv.other is send
        True
    """
    send.other, recv.other = recv, send
