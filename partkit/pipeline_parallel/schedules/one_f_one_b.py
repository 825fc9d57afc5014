"""1F1B: as soon as a stage can run a backward, it alternates: one forward, one backward.

What a forward keeps is freed by its backward, so the sooner a backward runs, the less is kept. Stage s runs p - s forwards,
as many as it takes until the first gradient comes back to it, and from then on a forward only after a backward.

one_f_one_b(4, 6):

    rank 0  F0 F1 F2 F3  .  .  .  .  .  . B0 -- F4 B1 -- F5 B2 --  . B3 --  . B4 --  . B5 --
    rank 1   . F0 F1 F2  .  .  .  . B0 -- F3 B1 -- F4 B2 -- F5 B3 --  . B4 --  . B5 --  .  .
    rank 2   .  . F0 F1  .  . B0 -- F2 B1 -- F3 B2 -- F4 B3 -- F5 B4 --  . B5 --  .  .  .  .
    rank 3   .  .  . F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 -- F4 B4 -- F5 B5 --  .  .  .  .  .  .

    makespan            (m + p - 1)(F + B), as GPipe
    bubble              (p - 1)(F + B), a share of (p - 1) / (m + p - 1), as GPipe
    kept activations    min(m, p - s) on stage s, in place of m

Sends must not block: stage s would wait for stage s + 1 to take an activation, which waits for stage s to take a gradient.

Source: Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training" (PipeDream-Flush); Narayanan et al.
2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM".
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.one_by_one import forwards_ahead


def one_f_one_b(num_ranks: int, num_microbatches: int) -> Schedule:
    """One forward, one backward; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, any number; fewer than p leave stages idle, but are right.

    Example:
        >>> print(one_f_one_b(2, 3))
        rank 0: 0F0 0F1 0B0 0F2 0B1 0B2
        rank 1: 1F0 1B0 1F1 1B1 1F2 1B2
    """
    check("one_f_one_b", num_ranks, num_microbatches)
    lines = (forwards_ahead(stage, num_microbatches, ahead=num_ranks - stage) for stage in range(num_ranks))
    return Schedule(tuple(map(tuple, lines)), tuple(range(num_ranks)), num_microbatches, name="1F1B")
