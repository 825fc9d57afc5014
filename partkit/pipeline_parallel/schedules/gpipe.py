"""GPipe: all forwards, then all backwards.

A batch is cut in m micro-batches, so that while stage 1 works on the first, stage 0 can begin the second. Without that
(m = 1) one rank works and p - 1 wait: naive model parallelism.

gpipe(4, 4):

    rank 0  F0 F1 F2 F3  .  .  .  .  .  .  .  .  . B0 -- B1 -- B2 -- B3 --
    rank 1   . F0 F1 F2 F3  .  .  .  .  .  . B0 -- B1 -- B2 -- B3 --  .  .
    rank 2   .  . F0 F1 F2 F3  .  .  . B0 -- B1 -- B2 -- B3 --  .  .  .  .
    rank 3   .  .  . F0 F1 F2 F3 B0 -- B1 -- B2 -- B3 --  .  .  .  .  .  .

F and B are the times of a forward and a backward on one stage:

    makespan            (m + p - 1)(F + B)
    bubble              (p - 1)(F + B), a share of (p - 1) / (m + p - 1)
    kept activations    m on every stage

The bubble shrinks with m and the memory grows with it. 1F1B has the same bubble and needs less.

Source: Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism".
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.one_by_one import forwards_ahead


def gpipe(num_ranks: int, num_microbatches: int) -> Schedule:
    """All forwards, then all backwards; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, any number.

    Example:
        >>> print(gpipe(2, 3))
        rank 0: 0F0 0F1 0F2 0B0 0B1 0B2
        rank 1: 1F0 1F1 1F2 1B0 1B1 1B2
    """
    check("gpipe", num_ranks, num_microbatches)
    lines = (forwards_ahead(stage, num_microbatches, ahead=num_microbatches) for stage in range(num_ranks))
    return Schedule(tuple(map(tuple, lines)), tuple(range(num_ranks)), num_microbatches, name="GPipe")
