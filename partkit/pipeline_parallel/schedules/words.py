"""Schedules told as phases: words that a rank repeats. For ranks with two stages, numbered 0 and 1 on each rank.

    ("F0", 3) ("F1 F0", 1) ("F1 I1 W1", 2)   =   F0 F0 F0  F1 F0  F1 I1 W1 F1 I1 W1

A letter takes the next micro-batch of its kind and stage, so words have no micro-batches in them. B is I and W in one. A ``W``
without a stage takes whatever weight gradient has been waiting longest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from partkit.pipeline_parallel.action import KINDS, Action

Phase = tuple[str, int]
"""A word, and how often it is repeated."""


def spell(phases: Iterable[Phase], stages: Sequence[int], first: Sequence[int] = (0, 0)) -> Iterator[Action]:
    """The actions of one rank.

    Args:
        phases: what it does, in order.
        stages: the stages that the phases call 0 and 1.
        first: the first micro-batch of each.

    Example:
        >>> list(spell([("F0", 2), ("F1 I1", 1), ("B0", 1), ("W", 1)], stages=(2, 5)))
        [2F0, 2F1, 5F0, 5I0, 2B0, 5W0]
    """
    counts: Counter[tuple[str, int]] = Counter()
    waiting: list[tuple[int, int]] = []  # weight gradients: place, micro-batch

    def letters() -> Iterator[str]:
        for word, times in phases:
            yield from word.split() * times

    for letter in letters():
        place = int(letter[1]) if len(letter) == 2 else waiting[0][0]
        if letter[0] == "W":
            i = next(i for where, i in waiting if where == place)
            waiting.remove((place, i))
        else:
            made = "I" if letter[0] == "B" else letter[0]
            i = first[place] + counts[made, place]
            counts[made, place] += 1
            if letter[0] == "I":
                waiting.append((place, i))
        yield Action(stages[place], next(kind for kind in KINDS if kind == letter[0]), i)
