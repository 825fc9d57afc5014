"""Forward only: a pipeline that infers or evaluates. Nothing is kept, nothing comes back.

forward_only(4, 4):

    rank 0  F0 F1 F2 F3  .  .  .
    rank 1   . F0 F1 F2 F3  .  .
    rank 2   .  . F0 F1 F2 F3  .
    rank 3   .  .  . F0 F1 F2 F3

    makespan    (m + p - 1) F
    bubble      (p - 1) F, a share of (p - 1) / (m + p - 1)
"""

from __future__ import annotations

from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check


def forward_only(num_ranks: int, num_microbatches: int) -> Schedule:
    """Forwards alone; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, any number.

    Example:
        >>> print(forward_only(2, 3))
        rank 0: 0F0 0F1 0F2
        rank 1: 1F0 1F1 1F2
    """
    check("forward_only", num_ranks, num_microbatches)
    lines = (tuple(Action(stage, "F", i) for i in range(num_microbatches)) for stage in range(num_ranks))
    return Schedule(tuple(lines), tuple(range(num_ranks)), num_microbatches, name="forward only")
