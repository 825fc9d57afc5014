"""What one has built beside the known schedules: makespan, bubble and memory on the same ranks, micro-batches, costs and link.

    schedule         stages a rank  makespan  bubble  most kept
    yours                        1        35    31 %          3
    GPipe                        1        33    27 %          8
    1F1B                         1        33    27 %          4
    interleaved                  2        30    20 %          6

Every known schedule of that size is in the table, also those with several stages a rank: costs are of all layers of a rank, so a
stage that is half a rank takes half of them. Asynchronous schedules (PipeDream) are in it too; their weights are not those
of one process.

Cost: each schedule is made once for each size, and simulated once for each costs and link; who shows a table keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from partkit.figures.studio import Board
from partkit.figures.studio_state import FORWARD
from partkit.pipeline_parallel import SCHEDULES, make
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.measure import bubble_share
from partkit.pipeline_parallel.memory import peak_memory
from partkit.pipeline_parallel.passes import split_backward
from partkit.pipeline_parallel.recognition import recognize
from partkit.pipeline_parallel.schedule import Schedule

Lines = tuple[tuple[Action, ...], ...]
STAGES_A_RANK = 2
"""For known schedules that can have any number."""


class Measures(NamedTuple):
    """What is compared."""

    makespan: float
    bubble: float
    """Idle share of all ranks' time, from 0 to 1."""
    peak: float
    """The most that a rank keeps at a time."""


class Rival(NamedTuple):
    """A known schedule at the size of a board."""

    key: str
    """The function that makes it: ``one_f_one_b``."""
    board: Board
    measures: Measures
    order: Lines
    """Its actions with the backward in two, for comparison."""

    @property
    def name(self) -> str:
        """What it is called: ``1F1B``."""
        return self.board.schedule.name


def measures(board: Board) -> Measures:
    """Makespan, bubble and memory of what is on a board; of what has been placed, if it is not complete.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> measures(Board.of(one_f_one_b(4, 8)))
        Measures(makespan=33.0, bubble=0.2727272727272727, peak=4.0)
    """
    peak = max(peak_memory(board.settled, board.stage_costs), default=0.0)
    return Measures(board.plan.makespan, bubble_share(board.plan), peak)


def known(key: str, num_ranks: int, num_microbatches: int) -> Schedule:
    """The known schedule of that name and size.

    Raises:
        ValueError: there is none of this size; the error says which there are.

    Example:
        >>> known("interleaved", 2, 4)
        <Schedule interleaved 1F1B: 2 ranks, 4 stages, 4 micro-batches>
    """
    more = (STAGES_A_RANK,) if key in ("interleaved", "breadth_first") else ()
    return make(key, num_ranks, num_microbatches, *more)


def rivals(board: Board, before: Iterable[Rival] = ()) -> tuple[Rival, ...]:
    """Every known schedule with as many ranks and micro-batches, under the same costs.

    Args:
        board: whose size, costs and link count.
        before: an earlier answer; schedules of the same size are taken from it, not made anew.

    Example:
        >>> [rival.name for rival in rivals(Board.blank(3, 4)) if rival.measures.peak <= 3]
        ['1F1B', 'ZB-H1', 'ZB-V', 'PipeDream']
    """
    made = {rival.key: rival for rival in before if _size(rival.board) == _size(board)}
    keys = [key for key in SCHEDULES if (key == "forward_only") == (board.kinds == FORWARD)]
    return tuple(rival for key in keys for rival in _rival(key, board, made.get(key)))


def _size(board: Board) -> tuple[int, int]:
    return board.schedule.num_ranks, board.schedule.num_microbatches


def _rival(key: str, board: Board, before: Rival | None) -> Iterator[Rival]:
    try:
        own = Board.of(known(key, *_size(board))) if before is None else before.board
        other = under(board, own)
        yield Rival(key, other, measures(other), order(other.schedule) if before is None else before.order)
    except ValueError:  # there is none of this size, or the costs are of other stages
        return


def under(board: Board, other: Board) -> Board:
    """``other`` under the costs, the link and the memory cap of ``board``.

    Example:
        >>> from partkit.cluster import Link
        >>> under(Board(Board.blank(2, 2).schedule, link=Link(1.0, 1.0)), Board.blank(3, 4)).link
        Link(latency=1.0, bandwidth=1.0)
    """
    return Board(other.schedule, other.kinds, board.costs, board.link, board.memory_cap)


def order(schedule: Schedule) -> Lines:
    """Its actions with the backward in two: what two schedules must agree in to be called the same.

    Example:
        >>> order(Schedule.parse("rank 0: 0F0 0B0"))
        ((0F0, 0I0, 0W0),)
    """
    return split_backward(schedule).ranks


def name_of(board: Board, others: Iterable[Rival]) -> str:
    """What has been built, in words: a known schedule, the beginning of one, or neither.

    Args:
        board: the schedule as far as it is built.
        others: the known schedules of this size.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> board = Board.of(one_f_one_b(2, 3))
        >>> name_of(board, rivals(board)), name_of(board.remove("0B2"), rivals(board))
        ('1F1B', 'so far as 1F1B')
    """
    if not board.num_left:  # only then, since `recognize` makes all of them anew
        return recognize(board.schedule) or "an order without a name"
    if not board.made:
        return "nothing placed yet"
    names = list(dict.fromkeys(other.name for other in others if begins(board, other)))
    return f"so far as {', '.join(names[:-1])}{' or ' if names[:-1] else ''}{names[-1]}" if names else "so far as no known schedule"


def begins(board: Board, other: Rival) -> bool:
    """Whether every rank has done so far what it does first in the other schedule."""
    same = board.schedule.placement == other.board.schedule.placement and board.schedule.replicas == other.board.schedule.replicas
    return same and all(whole[: len(line)] == line for line, whole in zip(order(board.schedule), other.order, strict=True))
