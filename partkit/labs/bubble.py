"""Exercise: beat a bubble under a memory cap, with any schedule on any placement of stages.

    asked        4 ranks, 8 micro-batches; bubble below 10 %; at most 4 micro-batches kept on a rank
    1F1B         27 %, keeps 4          too slow
    ZB-H2        11 %, keeps 7          too much, and still too slow
    your own     ?

Costs are those of all layers of a rank. Cut in v stages a rank, each takes 1 / v of the time and of the memory, so that the model stays
the same however it is cut. Memory is that of activations; the weights of a second pipeline (Chimera, DualPipe) are not in it. The
bubble is the share of all ranks' time in which they are idle, from the first start to the last end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from partkit.figures.studio import Board
from partkit.labs.schedules import Planner, Unreadable, read_freely, wasted
from partkit.labs.verdict import Finding, Verdict
from partkit.pipeline_parallel import Costs, Schedule, bubble_share, peak_memory, recognize, violations
from partkit.pipeline_parallel.costs import UNIT
from partkit.pipeline_parallel.memory import kept

MOST_FINDINGS = 3


def check_bubble(
    schedule: Schedule | Planner | Any, bubble: float = 0.1, memory_cap: float = 4, *, ranks: int = 4, microbatches: int = 8, costs: Costs = UNIT
) -> Verdict:
    """Judge a schedule by what it is good for: how long ranks are idle, and how much they keep.

    Args:
        schedule: a `Schedule`, its text, a list of actions for each rank, or a function of ranks and micro-batches that gives one.
        bubble: the share of all ranks' time in which they may be idle; less is wanted.
        memory_cap: what a rank may keep at a time, in the unit of ``costs.memory``; by default in micro-batches of all layers of a rank.
        ranks: p.
        microbatches: m.
        costs: of all layers of a rank.

    Returns:
        A verdict with bubble and memory, and where they come from.

    Example:
        >>> from partkit.labs import check_bubble
        >>> from partkit.pipeline_parallel import zb_h1, zb_v
        >>> check_bubble(zb_h1)
        a bubble below 10 %: not yet
          ok    memory: rank 0 keeps most, 4 of 4
          look  bubble: 11.1 % of all ranks' time; this is ZB-H1; less than 10 % is asked for. At 4: Rank 1 waits: ...
        >>> bool(check_bubble(zb_v(4, 8)))
        True
    """
    name = f"a bubble below {100 * bubble:.3g} %"
    try:
        made = read_freely(schedule(ranks, microbatches) if callable(schedule) else schedule)
        told = list(_unfit(made, ranks, microbatches))
    except Unreadable as problem:
        told = [str(problem)]
    except Exception as error:
        told = [f"your function raised {type(error).__name__}: {error}"]
    if told:
        return Verdict(name, [Finding(False, text) for text in told[:MOST_FINDINGS]])
    board = replace(Board.of(made), costs=costs)
    return Verdict(name, [_memory(board, memory_cap), _time(board, bubble, memory_cap)])


def _unfit(schedule: Schedule, ranks: int, microbatches: int) -> Iterator[str]:
    """Why it can't be compared: another size, or it can't run."""
    if schedule.num_ranks != ranks:
        yield f"the schedule has {schedule.num_ranks} ranks, {ranks} are asked for"
    if schedule.num_microbatches != microbatches:
        yield f"the schedule has {schedule.num_microbatches} micro-batches, {microbatches} are asked for"
    if not any(action.kind in ("B", "I") for line in schedule.ranks for action in line):
        yield "there is no backward in it; each stage has one for every micro-batch"
    yield from map(str, violations(schedule))


def _memory(board: Board, cap: float) -> Finding:
    peaks = peak_memory(board.schedule, board.stage_costs)
    if max(peaks) <= cap * (1 + 1e-12):
        return Finding(True, f"memory: rank {peaks.index(max(peaks))} keeps most, {max(peaks):g} of {cap:g}")
    rank = next(rank for rank, peak in enumerate(peaks) if peak > cap * (1 + 1e-12))
    action, total = next((action, total) for action, total in kept(board.schedule, rank, board.stage_costs) if total > cap * (1 + 1e-12))
    return Finding(False, f"memory: after {action} rank {rank} keeps {total:g}, {cap:g} are allowed; let it free something first, by a B or W")


def _time(board: Board, bubble: float, cap: float) -> Finding:
    share = bubble_share(board.plan)
    name = recognize(board.schedule)
    words = f"bubble: {100 * share:.3g} % of all ranks' time" + (f"; this is {name}" if name else "")
    if share < bubble:
        return Finding(True, words)
    return Finding(False, f"{words}; less than {100 * bubble:.3g} % is asked for. {_reason(board, cap)}")


def _reason(board: Board, cap: float) -> str:
    """What could be better: slots that something could fill; or, if there are none, the way of the first micro-batch to the last rank."""
    first = [line[0].start for line in board.lines]
    late = first.index(max(first))
    head = sum(first) / (board.plan.makespan * len(first))
    inside = wasted(board, [cap] * len(first))
    outside = f"{100 * head:.3g} % are lost before the first micro-batch has come to every rank (to rank {late} at {max(first):g})"
    return f"{inside} And {outside}." if inside else f"{outside}: shorter stages, several on a rank, let it come sooner."
