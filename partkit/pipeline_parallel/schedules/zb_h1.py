"""ZB-H1: 1F1B with the backward split in two, at the memory of 1F1B.

Only the gradient of the input (I) is awaited by the stage before. The gradient of the weights (W) can wait, and so it fills
what would be bubble. Stage s lets W lag s micro-batches behind I: later stages, which keep fewer forwards alive, lag more,
so that p micro-batches of memory are enough everywhere.

zb_h1(4, 8), F = I = W = 1:

    rank 0  F0 F1 F2 F3  .  .  . I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7
    rank 1   . F0 F1 F2  .  . I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7
    rank 2   .  . F0 F1  . I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7
    rank 3   .  .  . F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7

    bubble              (p - 1)(F + I - W), against (p - 1)(F + I + W) of 1F1B: a third, if the three are equal
    kept                p on every stage: p - s from F to I, and s from I to W

Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.1.
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.one_by_one import weights_behind


def zb_h1(num_ranks: int, num_microbatches: int) -> Schedule:
    """1F1B with split backward, at the memory of 1F1B; one stage a rank.

    Args:
        num_ranks: p, ranks and stages.
        num_microbatches: m, any number.

    Example:
        >>> print(zb_h1(2, 3))
        rank 0: 0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2
        rank 1: 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2
    """
    check("zb_h1", num_ranks, num_microbatches)
    lines = (weights_behind(stage, num_microbatches, ahead=num_ranks - stage, behind=stage) for stage in range(num_ranks))
    return Schedule(tuple(map(tuple, lines)), tuple(range(num_ranks)), num_microbatches, name="ZB-H1")
