"""ZB-H2: no bubble between a stage's first action and its last, for about twice the memory of 1F1B.

More forwards in advance fill the gap before the first gradient arrives, and more weight gradients left for the end fill the
gap behind the last: every stage works without a pause, each shifted by one forward against the stage before.

zb_h2(4, 8), F = I = W = 1:

    rank 0  F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7  .  .  .
    rank 1   . F0 F1 F2 F3 F4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 I7 W5 W6 W7  .  .
    rank 2   .  . F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3 W4 W5 W6 W7  .
    rank 3   .  .  . F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 W4 W5 W6 W7

    bubble              (p - 1)(F + I - 2W) within a stage: none, if the three are equal
    kept                2p - 1 on every stage: 2(p - s) - 1 from F to I, and 2s from I to W

What is left is the shift: the last rank ends p - 1 forwards after the first. The next step can begin in it, if the optimizer
does not wait for all ranks.

Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.2.
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.one_by_one import weights_behind


def zb_h2(num_ranks: int, num_microbatches: int) -> Schedule:
    """Split backward without bubbles inside a stage; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, any number; at least 2p - 1 to fill the pipeline.

    Example:
        >>> print(zb_h2(2, 3))
        rank 0: 0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2
        rank 1: 1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2
    """
    check("zb_h2", num_ranks, num_microbatches)
    lines = (weights_behind(stage, num_microbatches, ahead=2 * (num_ranks - stage) - 1, behind=2 * stage) for stage in range(num_ranks))
    return Schedule(tuple(map(tuple, lines)), tuple(range(num_ranks)), num_microbatches, name="ZB-H2")
