"""Patterns of messages as rounds, of which the costs of several collectives are put together.

A round is a list of messages ``(src, dst, nbytes)``, in which a rank sends at most one and receives at most one; see
`partkit.cluster.cost.Cost.of_rounds`. ``blocks`` are bytes, one number for each place.

    ring             reduce_scatter_ring, all_gather_ring    what each rank passes to the next one, step by step
    butterfly        halving, doubling                       `partkit.butterfly`
    ranks beyond     fold, unfold                            the second rank of each team of two, before and after a butterfly
"""

from __future__ import annotations

from collections.abc import Sequence

from partkit import butterfly

Rounds = list[list[tuple[int, int, int]]]


def reduce_scatter_ring(blocks: Sequence[int], ranks: Sequence[int]) -> Rounds:
    """In step s the rank at place r passes on block r - s.

    Example:
        >>> reduce_scatter_ring([3, 2], ranks=[5, 7])
        [[(5, 7, 2), (7, 5, 3)]]
    """
    size = len(ranks)
    return [[(ranks[r], ranks[(r + 1) % size], blocks[(r - step) % size]) for r in range(size)] for step in range(1, size)]


def all_gather_ring(blocks: Sequence[int], ranks: Sequence[int]) -> Rounds:
    """In step s the rank at place r passes on block r - s + 1.

    Example:
        >>> all_gather_ring([3, 2], ranks=[5, 7])
        [[(5, 7, 3), (7, 5, 2)]]
    """
    return reduce_scatter_ring([*blocks[1:], *blocks[:1]], ranks)


def side_by_side(patterns: Sequence[Rounds]) -> Rounds:
    """Several groups of ranks that do the same at the same time, each for itself.

    Example:
        >>> side_by_side([[[(0, 1, 5)]], [[(2, 3, 4)]]])
        [[(0, 1, 5), (2, 3, 4)]]
    """
    return [[message for messages in together for message in messages] for together in zip(*patterns, strict=True)]


def halving(blocks: Sequence[int], ranks: Sequence[int]) -> Rounds:
    """The butterfly backwards, for as many places as there are blocks, a power of two.

    Example:
        >>> halving([3, 2], ranks=[0, 2])
        [[(0, 2, 2), (2, 0, 3)]]
    """
    steps = [butterfly.halving(place, len(ranks)) for place in range(len(ranks))]
    return [[(ranks[place], ranks[e.partner], sum(blocks[b] for b in e.give)) for place, e in enumerate(step)] for step in zip(*steps, strict=True)]


def doubling(blocks: Sequence[int], ranks: Sequence[int]) -> Rounds:
    """The butterfly forwards.

    Example:
        >>> doubling([3, 2], ranks=[0, 2])
        [[(2, 0, 2), (0, 2, 3)]]
    """
    return [[(dst, src, nbytes) for src, dst, nbytes in round_] for round_ in reversed(halving(blocks, ranks))]


def fold(nbytes: Sequence[int], size: int) -> Rounds:
    """The second rank of each team of two sends its ``nbytes`` to the first; no round if there is none.

    Example:
        >>> fold([9, 9, 9], size=3)
        [[(1, 0, 9)]]
    """
    pairs = [(team[1], team[0], nbytes[team[1]]) for team in butterfly.teams(size) if len(team) == 2]
    return [pairs] if pairs else []


def unfold(nbytes: Sequence[int], size: int) -> Rounds:
    """The first rank of each team of two sends the second its ``nbytes``.

    Example:
        >>> unfold([9, 9, 9], size=3)
        [[(0, 1, 9)]]
    """
    return [[(dst, src, k) for src, dst, k in round_] for round_ in fold(nbytes, size)]


def firsts(size: int) -> list[int]:
    """The ranks that take part in a butterfly, by place.

    Example:
        >>> firsts(6)
        [0, 2, 4, 5]
    """
    return [team[0] for team in butterfly.teams(size)]
