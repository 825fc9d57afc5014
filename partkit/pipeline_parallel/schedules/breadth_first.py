"""Breadth-first: several stages a rank, and all micro-batches through one stage before the next stage begins.

Stages are looped: rank r has stages r, r + p, r + 2p, ... Looping shortens the way to fill the pipeline, as in interleaved
1F1B; going breadth-first, each stage is visited once forward and once backward, so that sharded weights are gathered once for
all micro-batches, and gradients can be reduced as soon as their stage is done.

breadth_first(3, 3), two stages a rank, small letters for the second, F = 1 and B = 2:

    rank 0  F0 F1 F2 f0 f1 f2  .  .  .  .  .  . b0 -- b1 -- b2 -- B0 -- B1 -- B2 --
    rank 1   . F0 F1 F2 f0 f1 f2  .  .  . b0 -- b1 -- b2 -- B0 -- B1 -- B2 --  .  .
    rank 2   .  . F0 F1 F2 f0 f1 f2 b0 -- b1 -- b2 -- B0 -- B1 -- B2 --  .  .  .  .

    makespan            (m v + p - 1)(F + B), if m >= p; F and B of one stage, v stages a rank
    bubble              (p - 1)(F + B), a share of (p - 1) / (m v + p - 1)
    kept activations    m v stages' worth on every rank, as GPipe

Source: Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism". torch.distributed.pipelining (ScheduleLoopedBFS)
runs the backwards of a stage in falling order of micro-batches; here they rise, so that the last stage begins where its first forward is longest done.
"""

from __future__ import annotations

from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check


def breadth_first(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> Schedule:
    """Looped stages, one after the other; all forwards, then all backwards.

    Args:
        num_ranks: p.
        num_microbatches: m, any number.
        stages_per_rank: v; there are p v stages.

    Example:
        >>> print(breadth_first(2, 2))
        rank 0: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
        rank 1: 1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1
    """
    check("breadth_first", num_ranks, num_microbatches, stages_per_rank=stages_per_rank)
    lines = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * stages_per_rank, num_ranks)
        forwards = [Action(stage, "F", i) for stage in stages for i in range(num_microbatches)]
        backwards = [Action(stage, "B", i) for stage in reversed(stages) for i in range(num_microbatches)]
        lines.append((*forwards, *backwards))
    return Schedule(tuple(lines), tuple(range(num_ranks)) * stages_per_rank, num_microbatches, name="breadth-first")
