"""The butterfly: everyone exchanges with a partner 1 away, then 2, then 4, ...; after log2 of their number all have met.

    places 0 ... 7     step 1    0-1  2-3  4-5  6-7
                       step 2    0-2  1-3  4-6  5-7
                       step 3    0-4  1-5  2-6  3-7

Forwards it gathers: before step k a place holds 2^(k-1) blocks, those of the places that it has met, and it gives them all to
its partner, for as many. Backwards it reduces: a place is in charge of all blocks at first, gives its partner the half that the
partner keeps, and takes the other half from it; in the end one block is left.

    place 0 of 4      give     take                            give     take
    forwards   1 ->   b0       b1              backwards  2 -> b2 b3    b0 b1
               2 ->   b0 b1    b2 b3                      1 -> b1       b0

It needs a power of two. Other numbers of ranks are first cut in teams of one or two neighbours by the rule of
`partkit.partition`, and the first rank of each team takes part for its team; the blocks of a team are neighbours, too.

    p = 6     teams    0 1    2 3    4    5         ranks 0, 2, 4, 5 take the places 0, 1, 2, 3

References: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", sections 3.1
and 4.2; Rabenseifner 2004, "Optimization of collective reduction operations", section 2 (the ranks beyond a power of two).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from partkit.partition import block_range


class Exchange(NamedTuple):
    """What one place does at one step."""

    partner: int
    """The place with which it exchanges."""
    give: range
    """The blocks that go to the partner."""
    take: range
    """The blocks that come from it."""


@cache
def doubling(place: int, places: int) -> tuple[Exchange, ...]:
    """What ``place`` does at each step, forwards: what it has, and so what it gives, doubles.

    Args:
        place: from 0 to ``places`` - 1.
        places: a power of two.

    Example:
        >>> doubling(0, 4)
        (Exchange(partner=1, give=range(0, 1), take=range(1, 2)), Exchange(partner=2, give=range(0, 2), take=range(2, 4)))
    """
    distances = [2**k for k in range(places.bit_length() - 1)]
    return tuple(Exchange(place ^ far, _met(place, far), _met(place ^ far, far)) for far in distances)


@cache
def halving(place: int, places: int) -> tuple[Exchange, ...]:
    """What ``place`` does at each step, backwards: what it is in charge of, ``take``, halves.

    Example:
        >>> halving(0, 4)
        (Exchange(partner=2, give=range(2, 4), take=range(0, 2)), Exchange(partner=1, give=range(1, 2), take=range(0, 1)))
    """
    return tuple(Exchange(partner, give=take, take=give) for partner, give, take in reversed(doubling(place, places)))


def _met(place: int, count: int) -> range:
    """The ``count`` places, a power of two, among which ``place`` is after exchanges at all smaller distances."""
    first = place // count * count
    return range(first, first + count)


@cache
def teams(size: int) -> tuple[range, ...]:
    """The ranks in as many teams as the largest power of two that is not above ``size``.

    Example:
        >>> teams(6)
        (range(0, 2), range(2, 4), range(4, 5), range(5, 6))
    """
    places = 1 << (size.bit_length() - 1)
    return tuple(block_range(size, places, place) for place in range(places))
