"""PipeDream-2BW: PipeDream that gathers gradients over a batch, so that two versions of the weights are enough.

A stage steps after every b micro-batches (b >= p). The first micro-batches of a batch are started before the steps of the batch
before have been made everywhere; so batch t uses version t - 1 on all stages, the last that every stage has by then. A new
version is made while micro-batches still need the old one, and when the next is made, nobody does: two buffers.

pipedream_2bw(3, 6, 3), F = 1, B = 2, step (S) = 1:

    rank 0  F0 F1 F2  .  .  .  . B0 -- F3 B1 -- F4 B2 -- S2 F5 B3 --  . B4 --  . B5 -- S5
    rank 1   . F0 F1  .  . B0 -- F2 B1 -- F3 B2 -- S2 F4 B3 -- F5 B4 --  . B5 -- S5  .  .
    rank 2   .  . F0 B0 -- F1 B1 -- F2 B2 -- S2 F3 B3 -- F4 B4 -- F5 B5 -- S5  .  .  .  .

The weights follow W(t+1) = W(t) - lr * gradient(W(t-1)): every gradient is one step old, on every stage alike.

    bubble              none in the steady state
    kept activations    min(m, p - s) on stage s, as 1F1B
    weights             2 versions

Source: Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training" (double-buffered weight updates).
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.one_by_one import forwards_ahead
from partkit.pipeline_parallel.schedules.stepping import with_steps


def pipedream_2bw(num_ranks: int, num_microbatches: int, batch: int | None = None) -> Schedule:
    """1F1B without a flush, an optimizer step after each batch of backwards; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, the length of the stream; a multiple of ``batch``.
        batch: b, micro-batches whose gradients are gathered for a step; p by default, and no less.

    Example:
        >>> print(pipedream_2bw(2, 4))
        rank 0: 0F0 0F1 0B0 0F2 0B1 0STEP1 0F3 0B2 0B3 0STEP3
        rank 1: 1F0 1B0 1F1 1B1 1STEP1 1F2 1B2 1F3 1B3 1STEP3
    """
    check("pipedream_2bw", num_ranks, num_microbatches)
    every = num_ranks if batch is None else batch
    if every < num_ranks:
        raise ValueError(f"pipedream_2bw(batch={every}): with {num_ranks} stages a batch is at least {num_ranks} micro-batches, or two versions are not enough")
    if num_microbatches % every:
        enough = every * (num_microbatches // every + 1)
        raise ValueError(f"pipedream_2bw({num_ranks}, {num_microbatches}, batch={every}): the stream must end with a batch; {enough} micro-batches would")
    lines = (with_steps(forwards_ahead(stage, num_microbatches, ahead=num_ranks - stage), every) for stage in range(num_ranks))
    return Schedule(tuple(map(tuple, lines)), tuple(range(num_ranks)), num_microbatches, name="PipeDream-2BW")
