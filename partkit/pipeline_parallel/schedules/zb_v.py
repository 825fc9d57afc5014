"""ZB-V: no bubble at the memory of 1F1B, with two stages on each rank, placed in a V.

The pipeline goes down the ranks and comes back: rank r has stage r and stage 2p - 1 - r. So rank 0 has the first and the last
stage, its first backward can start as soon as the first micro-batch has gone down and up, and every rank frees memory at
the same pace.

zb_v(3, 6), small letters for the stages on the way back, F = I = W = 1:

    rank 0  F0 F1 F2 F3 F4 f0 i0 w0 f1 i1 w1 f2 i2 w2 F5 I0 W0 f3 i3 w3 I1 W1 f4 i4 w4 I2 W2 f5 i5 w5 I3 W3 I4 W4 I5 W5  .  .
    rank 1   . F0 F1 F2 f0 F3 f1 i0 w0 f2 i1 w1 F4 I0 W0 f3 i2 w2 F5 I1 W1 f4 i3 w3 I2 W2 f5 i4 w4 I3 i5 I4 W3 I5 W4 w5 W5  .
    rank 2   .  . F0 f0 F1 f1 F2 f2 i0 w0 F3 I0 W0 f3 i1 w1 F4 I1 W1 f4 i2 w2 F5 I2 W2 f5 i3 w3 I3 i4 I4 i5 I5 W3 w4 w5 W4 W5

Rank r, in words ("0" on the way down, "1" on the way back):

    F0                     2(p - r) - 1 times       until its first micro-batch has come back
    F1 F0                  r
    F1 I1 W1               p - r
    F0 I0 W0 F1 I1 W1      m - 2p + r + 1           steady state
    I0 W0 F1 I1 W1         p - r - 1                no forwards left on the way down
    I0 I1                  r                        gradients first ...
    I0 W0                  p - r
    W1, W0                 r each                   ... then the weights that were left

    bubble                 none inside a rank if F = I = W and m >= 2p - 1
    kept                   2p stages' worth, half a stage of 1F1B each: p, as 1F1B on its first rank

Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", second version (ZB-V).
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.words import Phase, spell


def zb_v(num_ranks: int, num_microbatches: int) -> Schedule:
    """Two stages a rank in a V, split backward.

    Args:
        num_ranks: p; there are 2p stages.
        num_microbatches: m, any number; with fewer than 2p - 1, the micro-batches that are not there are left out of the order
            for 2p - 1.

    Example:
        >>> print(zb_v(2, 2))
        rank 0: 0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1
        rank 1: 1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1
    """
    check("zb_v", num_ranks, num_microbatches)
    full = max(num_microbatches, 2 * num_ranks - 1)
    lines = (spell(_phases(num_ranks, rank, full), (rank, 2 * num_ranks - 1 - rank)) for rank in range(num_ranks))
    kept = tuple(tuple(action for action in line if (action.microbatch or 0) < num_microbatches) for line in lines)
    return Schedule(kept, (*range(num_ranks), *reversed(range(num_ranks))), num_microbatches, name="ZB-V")


def _phases(p: int, r: int, m: int) -> list[Phase]:
    """The table of the module's text."""
    return [
        ("F0", 2 * (p - r) - 1),
        ("F1 F0", r),
        ("F1 I1 W1", p - r),
        ("F0 I0 W0 F1 I1 W1", m - 2 * p + r + 1),
        ("I0 W0 F1 I1 W1", p - r - 1),
        ("I0 I1", r),
        ("I0 W0", p - r),
        ("W1", r),
        ("W0", r),
    ]
