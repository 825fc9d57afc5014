"""Eager 1F1B: 1F1B with more forwards in advance, so that messages have time to travel.

In 1F1B a stage waits for each gradient for as long as a message takes, once in each direction, in every round of the steady
state. Eager 1F1B keeps 2(p - s) - 1 micro-batches alive on stage s in place of p - s: between a forward and its backward
there is always another pair of actions for the rank to do, under which both messages hide.

eager_one_f_one_b(3, 6), a message as long as a forward:

    rank 0  F0 F1 F2 F3 F4  .  .  .  .  .  . B0 -- F5 B1 --  . B2 --  . B3 --  . B4 --  . B5 --
    rank 1   .  . F0 F1 F2  .  .  . B0 -- F3 B1 -- F4 B2 -- F5 B3 --  . B4 --  . B5 --  .  .  .
    rank 2   .  .  .  . F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 -- F4 B4 -- F5 B5 --  .  .  .  .  .  .

and one_f_one_b(3, 6) on the same link:

    rank 0  F0 F1 F2  .  .  .  .  .  .  .  . B0 -- F3 B1 -- F4  .  . B2 -- F5  .  . B3 --  . B4 --  .  .  . B5 --
    rank 1   .  . F0 F1  .  .  .  . B0 -- F2 B1 --  .  . F3 B2 -- F4  .  . B3 -- F5 B4 --  .  .  . B5 --  .  .  .
    rank 2   .  .  .  . F0 B0 -- F1 B1 --  .  . F2 B2 --  .  . F3 B3 -- F4 B4 --  .  . F5 B5 --  .  .  .  .  .  .

    makespan            as 1F1B if messages are free; less if they are not and m is large
    kept activations    min(m, 2(p - s) - 1) on stage s

Source: Zhuang et al. 2022, "On Optimizing the Communication of Model Parallelism" (eager-1F1B).
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.one_by_one import forwards_ahead


def eager_one_f_one_b(num_ranks: int, num_microbatches: int) -> Schedule:
    """1F1B with twice the forwards in advance; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, any number.

    Example:
        >>> print(eager_one_f_one_b(2, 4))
        rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3
        rank 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
    """
    check("eager_one_f_one_b", num_ranks, num_microbatches)
    lines = (forwards_ahead(stage, num_microbatches, ahead=2 * (num_ranks - stage) - 1) for stage in range(num_ranks))
    return Schedule(tuple(map(tuple, lines)), tuple(range(num_ranks)), num_microbatches, name="eager 1F1B")
