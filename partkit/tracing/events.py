"""What an event is, and how it lies in an array: one record of `RECORD`, strings as indices into a table."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Kind = Literal["send", "recv", "compute", "span", "collective", "metric"]
Clock = Literal["wall", "virtual", "planned"]
KINDS: tuple[Kind, ...] = ("send", "recv", "compute", "span", "collective", "metric")
KIND_CODE: dict[str, int] = {kind: code for code, kind in enumerate(KINDS)}

RECORD = np.dtype(
    [
        ("rank", "<i4"),
        ("kind", "<u1"),
        ("start", "<f8"),
        ("end", "<f8"),
        ("peer", "<i4"),  # world rank of the other side, -1 for none
        ("nbytes", "<i8"),
        ("seq", "<i4"),
        ("tag", "<i4"),  # this and the next three: index into the table of strings
        ("span", "<i4"),
        ("site", "<i4"),
        ("group", "<i4"),
        ("value", "<f8"),  # of a metric; of a computation: seconds, as stated (seq 0), or floating-point operations (seq 1)
        ("waited", "<f8"),  # when the rank began to stand still for a message; `start` for what nobody waits for
        ("begun", "<i4"),  # of a simulated run: how much its rank had done at `start` and at `end` (`partkit.tracing.replay`)
        ("done", "<i4"),  # of a live run: for how many microseconds its thread had worked at `end`, -1 if nobody looked (`partkit.tracing.recorder`)
    ]
)
Columns = npt.NDArray[Any]


class Event(NamedTuple):
    """Something that one rank did between two moments.

    Example:
        >>> event = Event(rank=0, kind="send", start=0.5, end=0.75, peer=1, nbytes=1024)
        >>> event.end - event.start, event.peer
        (0.25, 1)
    """

    rank: int
    kind: Kind
    start: float
    """Seconds since the start of the run."""
    end: float
    peer: int | None = None
    """World rank of the other side of a message."""
    nbytes: int = 0
    tag: str = ""
    """Name of the message, of the computation or of the span."""
    seq: int = 0
    """n-th message from src to dst under this tag, from 0; of a metric: how many of the same moment follow."""
    span: str = ""
    """The collectives and spans around it, outermost first: ``step/all_reduce``."""
    site: str = ""
    """Source line that caused it: ``file:line`` or ``In [3]:4``."""
    group: str = ""
    """The communicator's name; empty for the whole world."""
    value: float = 0.0
    """The number that a metric notes."""


class Message(NamedTuple):
    """A send event and its receive event."""

    send: Event
    recv: Event
