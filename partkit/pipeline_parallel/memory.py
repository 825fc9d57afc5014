"""What a rank keeps for backwards still to come, and the most it keeps at a time. A question of order, not of time.

    rank 1 of one_f_one_b(3, 4)    F0 F1 B0 F2 B1 F3 B2 B3
    micro-batches kept             1  2  1  2  1  2  1  0         at most 2

F begins to keep, B ends it; where the backward is split, I frees what only it needed, and W the rest (`Costs.memory` and
`Costs.weight_memory`). Every action of a stage is on one rank, so the list of a rank alone decides its memory; when its actions
run does not matter.

Source: Qi et al. 2023, Zero Bubble Pipeline Parallelism: M_B kept until the gradient of the input is made, M_W after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from partkit.pipeline_parallel.action import Action, flat
from partkit.pipeline_parallel.costs import UNIT, Costs
from partkit.pipeline_parallel.schedule import Schedule


def kept(schedule: Schedule, rank: int, costs: Costs = UNIT) -> Iterator[tuple[Action, float]]:
    """Every action of ``rank`` with what is kept once it is done, in the unit of ``costs.memory``.

    Example:
        >>> list(kept(Schedule.parse("rank 0: 0F0 0F1 0I0 0W0 0B1"), 0, Costs(memory=3, weight_memory=1)))
        [(0F0, 3.0), (0F1, 6.0), (0I0, 4.0), (0W0, 3.0), (0B1, 0.0)]
    """
    memory, for_weights = costs.kept(schedule.num_stages)
    total, trains = 0.0, has_backward(schedule)
    for action in flat(schedule.ranks[rank]):
        place = action.stage % schedule.num_stages
        change = {"F": memory[place] * trains, "I": for_weights[place] - memory[place], "W": -for_weights[place], "B": -memory[place]}
        total += change.get(action.kind, 0.0)
        yield action, total


def has_backward(schedule: Schedule) -> bool:
    """Whether anything has to be kept: in a schedule of forwards alone nothing has."""
    return any(action.kind in ("B", "I") for line in schedule.ranks for action in flat(line))


def peak_memory(schedule: Schedule, costs: Costs = UNIT) -> tuple[float, ...]:
    """By rank: the most that it keeps at a time, in the unit of ``costs.memory``; by default in micro-batches on a stage.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, one_f_one_b
        >>> peak_memory(one_f_one_b(4, 8)), peak_memory(gpipe(4, 8))
        ((4.0, 3.0, 2.0, 1.0), (8.0, 8.0, 8.0, 8.0))
    """
    return tuple(max((total for _, total in kept(schedule, rank, costs)), default=0.0) for rank in range(schedule.num_ranks))


def peak_microbatches(schedule: Schedule) -> tuple[int, ...]:
    """By stage: the most micro-batches that are alive on it at a time, from F to the end of the backward.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> peak_microbatches(one_f_one_b(4, 8)), peak_microbatches(one_f_one_b(4, 2))
        ((4, 3, 2, 1), (2, 2, 2, 1))
    """
    alive: Counter[int] = Counter()
    most: Counter[int] = Counter()
    change = {"F": 1, "B": -1, "W": -1} if has_backward(schedule) else {}
    for line in schedule.ranks:
        for action in flat(line):
            alive[action.stage] += change.get(action.kind, 0)
            most[action.stage] = max(most[action.stage], alive[action.stage])
    return tuple(most[stage] for stage in range(len(schedule.placement)))
