"""Interleaved 1F1B: several small stages a rank, so that the pipeline fills in less time.

The layers are cut in p v stages, and looped: rank r has stages r, r + p, r + 2p, ... A stage takes 1 / v of the time, so the last
rank gets its first work v times sooner. The price is messages at p v - 1 cuts in place of p - 1, and some more activations.

interleaved(3, 6), two stages a rank, small letters for the second, F = 1 and B = 2:

    rank 0  F0 F1 F2 f0 f1 f2 F3 F4  .  . b0 -- F5 b1 -- f3 b2 -- f4 B0 -- f5 B1 --  . B2 --  . b3 --  . b4 --  . b5 -- B3 -- B4 -- B5 --
    rank 1   . F0 F1 F2 f0 f1 f2  . b0 -- F3 b1 -- F4 b2 -- F5 B0 -- f3 B1 -- f4 B2 -- f5 b3 --  . b4 --  . b5 -- B3 -- B4 -- B5 --  .  .
    rank 2   .  . F0 F1 F2 f0 b0 -- f1 b1 -- f2 b2 -- F3 B0 -- F4 B1 -- F5 B2 -- f3 b3 -- f4 b4 -- f5 b5 -- B3 -- B4 -- B5 --  .  .  .  .

Each rank takes micro-batches in groups of about p: the group through its first stage, the same group through its second, ..., then the
next group; backwards likewise, last stage first. It runs (v - 1) g + 2(p - 1 - r) + 1 forwards ahead, where g is the largest
group, then one backward, one forward. Groups are as equal as they can be, and none is smaller than p, unless m is.

    makespan            (m v + p - 1)(F + B), if p divides m; F and B of one of the p v stages
    bubble              (p - 1)(F + B), a share of (p - 1) / (m v + p - 1): 1 / v of 1F1B's
    kept activations    (v - 1) p + 2(p - 1 - r) + 1 stages' worth on rank r, if p divides m, and at most m v

Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (schedule with
interleaved stages).
"""

from __future__ import annotations

from partkit.partition import block_range
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check


def interleaved(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> Schedule:
    """1F1B over looped stages.

    Args:
        num_ranks: p.
        num_microbatches: m, any number; multiples of p have the smallest bubble.
        stages_per_rank: v; there are p v stages.

    Example:
        >>> print(interleaved(2, 2))
        rank 0: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
        rank 1: 1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
    """
    check("interleaved", num_ranks, num_microbatches, stages_per_rank=stages_per_rank)
    p, m, v = num_ranks, num_microbatches, stages_per_rank
    groups = [block_range(m, max(1, m // p), number) for number in range(max(1, m // p))]
    lines = []
    for rank in range(p):
        stages = range(rank, p * v, p)
        forwards = [Action(stage, "F", i) for group in groups for stage in stages for i in group]
        backwards = [Action(stage, "B", i) for group in groups for stage in reversed(stages) for i in group]
        ahead = (v - 1) * len(groups[0]) + 2 * (p - 1 - rank) + 1
        lines.append(tuple(_alternate(forwards, backwards, min(ahead, m * v))))
    return Schedule(tuple(lines), tuple(range(p)) * v, m, name="interleaved 1F1B")


def _alternate(forwards: list[Action], backwards: list[Action], ahead: int) -> list[Action]:
    """``ahead`` forwards, then one backward, one forward, and the backwards that are left."""
    line = forwards[:ahead]
    for count, backward in enumerate(backwards):
        line.append(backward)
        line.extend(forwards[ahead + count : ahead + count + 1])
    return line
