"""PipeDream: 1F1B that never flushes. Every backward is followed by an optimizer step, and the next forward does not wait.

There is no end of a batch at which ranks wait for each other, so there is no bubble once the pipeline is full. The price:
between the forward of a micro-batch and its backward a stage has changed its weights. So that forward and backward use the
same, each stage keeps the weights of every micro-batch that is on its way ("weight stashing"): p - s versions on stage s.

pipedream(3, 5), F = 2, B = 4, step (S) = 1:

    rank 0  F0 -- F1 -- F2 --  .  .  .  .  .  .  .  . B0 -- -- -- S0 F3 -- B1 -- -- -- S1 F4 -- B2 -- -- -- S2  .  . B3 -- -- -- S3  .  . B4 -- -- -- S4
    rank 1   .  . F0 -- F1 --  .  .  .  . B0 -- -- -- S0 F2 -- B1 -- -- -- S1 F3 -- B2 -- -- -- S2 F4 -- B3 -- -- -- S3  .  . B4 -- -- -- S4  .  .  .  .
    rank 2   .  .  .  . F0 -- B0 -- -- -- S0 F1 -- B1 -- -- -- S1 F2 -- B2 -- -- -- S2 F3 -- B3 -- -- -- S3 F4 -- B4 -- -- -- S4  .  .  .  .  .  .  .  .

A gradient of stage s is made from weights that are p - 1 - s steps old (0 on the last stage) and applied to the newest.

    bubble              none in the steady state
    kept activations    min(m, p - s) on stage s, as 1F1B
    weights             min(m, p - s) versions on stage s

Source: Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training" (weight stashing).
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.one_by_one import forwards_ahead
from partkit.pipeline_parallel.schedules.stepping import with_steps


def pipedream(num_ranks: int, num_microbatches: int) -> Schedule:
    """1F1B without a flush, an optimizer step after every backward; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, the length of the stream.

    Example:
        >>> print(pipedream(2, 3))
        rank 0: 0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0B2 0STEP2
        rank 1: 1F0 1B0 1STEP0 1F1 1B1 1STEP1 1F2 1B2 1STEP2
    """
    check("pipedream", num_ranks, num_microbatches)
    lines = (with_steps(forwards_ahead(stage, num_microbatches, ahead=num_ranks - stage), every=1) for stage in range(num_ranks))
    return Schedule(tuple(map(tuple, lines)), tuple(range(num_ranks)), num_microbatches, name="PipeDream")
