"""A schedule as arrays: one row for each action that takes time, ranks one after the other, each in its own order.

    row     rank  stage  kind  microbatch     made, needs           the schedule behind it
     0       0      0     F       0           -  -                  rank 0: 0F0 0B0
     1       0      0     B       0           0  3                  rank 1: 1F0 1B0
     2       1      1     F       0           0  -
     3       1      1     B       0           2  -

`made` and `needs` are rows: what `rules.needs` states for one action, worked out for all at once (a test compares the two,
action by action). `made` is what the same stage has done for this micro-batch before: F for I and B, I for W, W for STEP;
`needs` comes from the neighbouring stage, and from another rank if that stage lies on one. So a million actions are a dozen
operations of numpy, and the simulator never touches an `Action`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.pipeline_parallel.action import KINDS, Action, flat
from partkit.pipeline_parallel.schedule import Schedule

Ints = npt.NDArray[np.int64]
CODE = {kind: code for code, kind in enumerate(KINDS)}
F, B, I, W, STEP = (CODE[kind] for kind in ("F", "B", "I", "W", "STEP"))  # noqa: E741 (the field's letter)
SEND_F, RECV_F, SEND_B, RECV_B = (CODE[kind] for kind in ("SEND_F", "RECV_F", "SEND_B", "RECV_B"))
NONE = -1
"""A row that is not there."""
ABSENT = -2
"""A row that should be there: something that is needed and that nobody makes."""


class Columns(NamedTuple):
    """Every action of a schedule, message actions too, in rank-major order."""

    rank: Ints
    stage: Ints
    kind: Ints
    microbatch: Ints


class Table(NamedTuple):
    """The actions of a schedule that take time. n rows; rows of rank r are ``first[r]`` to ``first[r + 1]``."""

    rank: Ints
    stage: Ints
    kind: Ints
    microbatch: Ints
    first: Ints
    """(ranks + 1,): where each rank's rows begin."""
    made: Ints
    """Row of what the same stage must have done before; NONE or ABSENT."""
    needs: Ints
    """Row of what the neighbouring stage must have done before; NONE or ABSENT."""

    def action(self, row: int) -> Action:
        """One row in words."""
        return Action(int(self.stage[row]), KINDS[self.kind[row]], int(self.microbatch[row]))


def columns(schedule: Schedule) -> Columns:
    """All actions of ``schedule`` as arrays, overlapped pairs taken apart."""
    lines: Sequence[Sequence[Action]] = schedule.ranks
    kind = _column(lines, lambda every: map(CODE.__getitem__, map(itemgetter(1), every)))
    if (kind == CODE["OVERLAP_F_B"]).any():
        lines = [flat(line) for line in lines]
        kind = _column(lines, lambda every: map(CODE.__getitem__, map(itemgetter(1), every)))
    stage = _column(lines, lambda every: map(itemgetter(0), every))
    if (kind >= CODE["UNSHARD"]).any():  # these have no micro-batch
        microbatch = _column(lines, lambda every: (-1 if i is None else i for i in map(itemgetter(2), every)))
    else:
        microbatch = _column(lines, lambda every: map(itemgetter(2), every))
    return Columns(np.repeat(np.arange(len(lines)), [len(line) for line in lines]), stage, kind, microbatch)


def _column(lines: Sequence[Sequence[Action]], read: Callable[[Iterable[Action]], Iterable[Any]]) -> Ints:
    """A number of every action."""
    return np.fromiter(read(chain.from_iterable(lines)), np.int64, sum(map(len, lines)))


def table(schedule: Schedule, every: Columns | None = None) -> Table:
    """The timed actions of ``schedule`` with what each of them needs.

    Example:
        >>> t = table(Schedule.parse("rank 0: 0F0 0B0\\nrank 1: 1F0 1B0"))
        >>> t.made.tolist(), t.needs.tolist(), t.first.tolist()
        ([-1, 0, -1, 2], [-1, 3, 0, -1], [0, 2, 4])
    """
    every = columns(schedule) if every is None else every
    timed = one_of(every.kind, F, B, I, W, STEP)
    rank, stage, kind, microbatch = (column[timed] for column in every)
    first = np.searchsorted(rank, np.arange(schedule.num_ranks + 1))
    made, needed = _needs(stage, kind, microbatch, schedule.num_stages)
    return Table(rank, stage, kind, microbatch, first, made, needed)


def one_of(kind: Ints, *codes: int) -> npt.NDArray[np.bool_]:
    """Which rows are of these kinds."""
    chosen = np.zeros(len(KINDS), dtype=np.bool_)
    chosen[list(codes)] = True
    found: npt.NDArray[np.bool_] = chosen[kind]
    return found


def _needs(stage: Ints, kind: Ints, microbatch: Ints, num_stages: int) -> tuple[Ints, Ints]:
    """The rule of `rules.needs`, for all rows at once."""
    shape = int(stage.max(initial=0)) + 2, int(microbatch.max(initial=0)) + 1
    rows = np.arange(len(stage))
    where = {made: np.full(shape, ABSENT) for made in (F, I, W)}
    for made, makers in ((F, (F,)), (I, (I, B)), (W, (W, B))):
        chosen = one_of(kind, *makers)
        where[made][stage[chosen], microbatch[chosen]] = rows[chosen]
    own, neighbour = np.full(len(stage), NONE), np.full(len(stage), NONE)
    for kinds, made in (((I, B), F), ((W,), I), ((STEP,), W)):
        chosen = one_of(kind, *kinds)
        own[chosen] = where[made][stage[chosen], microbatch[chosen]]
    place = stage % num_stages
    for kinds, made, step, inner in (((F,), F, -1, place > 0), ((I, B), I, +1, place < num_stages - 1)):
        chosen = one_of(kind, *kinds) & inner
        neighbour[chosen] = where[made][stage[chosen] + step, microbatch[chosen]]
    return own, neighbour
