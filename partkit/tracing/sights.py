"""What ranks held and sent, for runs that were recorded with values: small tensors as text, and whose data is in each element.

A rank's sights come in order, each with what has changed since the one before. Rank 1 of 3, in a ring:

    moment  message       what is new in its memory                          whose data
    post    recv from 0   tensor 0: 10 11 12                                 {1} {1} {1}
                          tensor 1: (an empty buffer of one element)         {}
    post    send to 2     -
    done    recv from 0   tensor 1: 2                                        {0}
    done    send to 2     -
    post    recv from 0   tensor 0: 10 11 14     it has added what came      {1} {1} {0, 1}
    ...
    end                   what is left

A set of ranks is a number with bit r for rank r, so a sight is at most `MAX_RANKS` ranks wide. `partkit.recording` makes sights,
`partkit.figures.stepper` reads them. A run that was not recorded has none, and its trace is as small and as fast as ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

MAX_RANKS = 62
"""Bits of a set of ranks."""

Moment = Literal["post", "go", "done", "end"]
"""A message was posted (of a send: is about to be); a held send was let go; a message is done; the recording ended."""


class Strip(NamedTuple):
    """A small tensor's memory at a moment, element by element."""

    number: int
    """Which memory of its rank, from 0, in the order of first sight."""
    what: str
    """dtype and number of elements: ``float32[8]``."""
    values: tuple[str, ...]
    """As people read them: four significant digits; empty where nobody has written."""
    who: tuple[int, ...]
    """For each element the ranks whose data is in it, as a set of bits; 0 for memory that nobody has written."""


class Sight(NamedTuple):
    """What a rank held at a moment, and which message it was at."""

    rank: int
    moment: Moment
    time: float
    """Seconds since the start of the run."""
    kind: Literal["send", "recv", ""] = ""
    peer: int = -1
    tag: str = ""
    group: str = ""
    seq: int = 0
    """With kind, ranks, tag and group it names the message, as in an `Event`."""
    span: str = ""
    what: str = ""
    """dtype and shape of the message: ``float32[2]``."""
    nbytes: int = 0
    who: int = 0
    """All ranks whose data is in the message."""
    strip: int = -1
    """The memory that the message is read from or written to; -1 if it is not small."""
    first: int = 0
    num_elements: int = 0
    """Elements ``first`` to ``first + num_elements`` of it."""
    number: int = -1
    """Of a send that waits until it is let go: its number among those of its rank, from 0; else -1."""
    strips: tuple[Strip, ...] = ()
    """What is new or has changed since the rank's sight before."""
    gone: tuple[int, ...] = ()
    """Numbers of memories that were freed since."""


def pack(sights: Iterable[Sight]) -> list[list[Any]]:
    """Sights as plain lists, for JSON.

    Example:
        >>> unpack(pack([Sight(0, "end", 1.5, strips=(Strip(0, "int64[1]", ("7",), (1,)),))]))[0].strips[0].values
        ('7',)
    """
    return [[*sight] for sight in sights]


def unpack(rows: Iterable[list[Any]]) -> list[Sight]:
    """What `pack` packed."""
    sights = (Sight(*row) for row in rows)
    return [s._replace(strips=tuple(Strip(n, what, tuple(v), tuple(w)) for n, what, v, w in s.strips), gone=tuple(s.gone)) for s in sights]


def members(who: int) -> tuple[int, ...]:
    """The ranks of a set.

    Example:
        >>> members(0b1101)
        (0, 2, 3)
    """
    return tuple(rank for rank in range(who.bit_length()) if who >> rank & 1)
