"""Why a slot is empty: what the rank's next action waits for, and what else it could have done meanwhile.

    rank 0  F0 F1  ?  . B0 --      rank 0 waits: its next action 0B0 needs 1B0. Rank 1 begins it at 2 and ends it at 4.
    rank 1   . F0 B0 -- F1 B1

An empty slot has one of five reasons: what is needed has not begun; it is being run; its message is on the way; the rank is done;
or nothing has been placed there yet. Needs are those of `partkit.pipeline_parallel.rules`, times those of the plan.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from partkit.figures.studio import Board
from partkit.figures.studio_state import Slot
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.rules import needs
from partkit.pipeline_parallel.validate import WORDS
from partkit.tracing import KIND_CODE

MOST = 4
"""Names in a list; more are counted."""


class Arrival(NamedTuple):
    """When something that an action needs was made, and when it is where the action runs."""

    maker: Slot
    rank: int
    """On which it was made."""
    time: float


def why(board: Board, rank: int, time: float) -> str:
    """What ``rank`` does at ``time``; if it is nothing, why.

    Args:
        board: the schedule as far as it is built.
        rank: whose slot.
        time: in the unit of the costs; with the default costs, the number of the slot.

    Raises:
        ValueError: there is no such rank, or the time is below 0.

    Example:
        >>> from partkit.pipeline_parallel import gpipe
        >>> board = Board.of(gpipe(2, 2))
        >>> print(why(board, 0, 2))
        Rank 0 waits: its next action 0B0 needs 1B0. Rank 1 begins it only at 3 and ends it at 5.
        >>> print(why(board, 0, 5.5))
        Rank 0 runs 0B0, the backward of stage 0 on micro-batch 0, from 5 to 7.
    """
    if not 0 <= rank < board.schedule.num_ranks:
        raise ValueError(f"why(rank={rank}): the ranks of this schedule are 0 to {board.schedule.num_ranks - 1}")
    if not 0 <= time < inf:
        raise ValueError(f"why(slot={time}): a slot is a time from 0 on")
    line = board.lines[rank]
    now = next((slot for slot in line if slot.start <= time < slot.end), None)
    if now is not None:
        return f"Rank {rank} runs {now.action}, {_words(now.action)}, from {now.start:g} to {now.end:g}."
    following = next((place for place, slot in enumerate(line) if slot.start > time), None)
    return _after(board, rank) if following is None else _gap(board, rank, time, following)


def _gap(board: Board, rank: int, time: float, place: int) -> str:
    """Between two actions, or before the first."""
    following = board.lines[rank][place]
    last = max(arrivals(board, rank, following.action), key=lambda arrival: arrival.time, default=None)
    if last is None:  # only where a time is nearly that of the start
        return f"Rank {rank} is about to run {following.action}, at {following.start:g}."
    needed = f"Rank {rank} waits: its next action {following.action} needs {last.maker.action}. "
    return needed + _state(last, time) + _meanwhile(board, rank, time, place)


def _state(arrival: Arrival, time: float) -> str:
    slot, rank = arrival.maker, arrival.rank
    way = f"; its message arrives at {arrival.time:g}" if arrival.time > slot.end else ""
    if time < slot.start:
        return f"Rank {rank} begins it only at {slot.start:g} and ends it at {slot.end:g}{way}."
    if time < slot.end:
        return f"Rank {rank} is running it, until {slot.end:g}{way}."
    return f"Rank {rank} has done it at {slot.end:g}, and its message is on the way until {arrival.time:g}."


def _meanwhile(board: Board, rank: int, time: float, place: int) -> str:
    ready = could_run(board, rank, time, place)
    return f" It could run {_some(ready)} now, but its order puts {'that' if len(ready) == 1 else 'them'} later." if ready else ""


def could_run(board: Board, rank: int, time: float, place: int) -> list[Action]:
    """What comes later in the rank's order, and was ready.

    Args:
        board: the schedule as far as it is built.
        rank: one that stands idle.
        time: when.
        place: of its next action in its list.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> could_run(Board.of(one_f_one_b(2, 4)), 0, 2.0, 2)
        [0F2, 0F3]
    """
    done = {slot.action for slot in board.lines[rank][:place]}
    ready = []
    for slot in board.lines[rank][place + 1 :]:
        found = arrivals(board, rank, slot.action)
        if all(arrival.time <= time and (arrival.rank != rank or arrival.maker.action in done) for arrival in found):
            ready.append(slot.action)
    return ready


def arrivals(board: Board, rank: int, action: Action) -> list[Arrival]:
    """Everything that ``action`` needs, with when it is on ``rank``.

    Example:
        >>> from partkit.pipeline_parallel import gpipe
        >>> [(arrival.maker.action, arrival.time) for arrival in arrivals(Board.of(gpipe(2, 1)), 0, Action(0, "B", 0))]
        [(0F0, 1.0), (1B0, 4.0)]
    """
    found = []
    for need in needs(action, board.schedule.num_stages):
        if (maker := board.made.get(need)) is None:
            continue
        home = board.schedule.placement[maker.stage]
        slot = next(slot for slot in board.lines[home] if slot.action == maker)
        found.append(Arrival(slot, home, slot.end if home == rank else _arrived(board, maker, rank, slot.end)))
    return found


def _arrived(board: Board, maker: Action, rank: int, otherwise: float) -> float:
    """When the message that follows ``maker`` is on ``rank``."""
    rows = board.plan.columns
    tag = board.plan.strings.index(str(maker))
    ends = rows["end"][(rows["kind"] == KIND_CODE["recv"]) & (rows["rank"] == rank) & (rows["tag"] == tag)]
    return float(ends[0]) if len(ends) else otherwise


def _after(board: Board, rank: int) -> str:
    """Behind the last action so far."""
    left = [action for action in board.left() if board.schedule.placement[action.stage] == rank]
    if not left:
        end, all_end = board.lines[rank][-1].end if board.lines[rank] else 0.0, board.plan.makespan
        rest = f" The last rank ends at {all_end:g}." if not board.num_left and all_end > end else ""
        return f"Rank {rank} has done all its work, at {end:g}.{rest}"
    if offers := board.possible(rank):
        return f"Nothing has been placed here yet. Rank {rank} can run next: {_some(offers)}."
    refused = board.refusal(left[0])
    return f"Nothing can be placed on rank {rank} yet: {refused.reason if refused else ''}."


def _some(actions: list[Action] | tuple[Action, ...]) -> str:
    more = len(actions) - MOST
    return ", ".join(map(str, actions[:MOST])) + (f" and {more} more" if more > 0 else "")


def _words(action: Action) -> str:
    what = WORDS.get(action.kind, "the optimizer's step")
    return f"{what} of stage {action.stage} on micro-batch {action.microbatch}"
