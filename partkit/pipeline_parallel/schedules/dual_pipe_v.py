"""DualPipe-V: a V of stages whose steady state pairs a forward of one half with a backward of the other.

Placed as ZB-V. In the steady state every forward on the way down stands beside a whole backward on the way back, and the other
way round. A pair can run as one: the messages of the one under the arithmetic of the other. (Here the two stand one after
the other; torch.distributed.pipelining writes such a pair as one OVERLAP_F_B.)

dual_pipe_v(3, 7), small letters for the stages on the way back, F = I = W = 1:

    rank 0  F0 F1 F2 F3 F4 f0 i0 w0 f1 i1 w1 f2 F5 b2 -- f3 B0 -- F6 b3 -- f4 B1 -- b4 -- f5  . B2 -- b5 -- f6  . B3 -- b6 -- I4 W4 I5 W5 I6 W6
    rank 1   . F0 F1 F2 f0 F3 f1 i0 w0 f2 F4 b1 -- f3 B0 -- F5 b2 -- f4 B1 -- F6 b3 -- f5 B2 -- b4 -- f6  . B3 -- b5 -- B4 -- i6 I5 w6 I6 W5 W6
    rank 2   .  . F0 f0 F1 f1 F2 f2 F3 b0 -- f3 B0 -- F4 b1 -- f4 B1 -- F5 b2 -- f5 B2 -- F6 b3 -- f6 B3 -- b4 -- B4 -- b5 -- I5 i6 I6 W5 w6 W6

Rank r, in words ("0" on the way down, "1" on the way back; a W alone takes the oldest that waits):

    F0                2(p - r - 1) times
    F0 F1             r + 1
    I1 W F1           p - r - 1
    F0 B1 F1 B0       m - 2p + r + 1       steady state: two pairs
    B1 F1 B0          p - r - 1
    B1 B0             r + 1                its second half split, for what is left to fill
    W I0 (or B0)      p - r - 1
    W                 r + 1

    kept              2p + 1 stages' worth on every rank, half a stage of 1F1B each

Source: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", and the DualPipe repository (Li et al. 2025), where the V
is DualPipe cut in half.
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.words import Phase, spell


def dual_pipe_v(num_ranks: int, num_microbatches: int) -> Schedule:
    """Two stages a rank in a V, forwards paired with backwards.

    Args:
        num_ranks: p; there are 2p stages.
        num_microbatches: m, at least 2p.

    Example:
        >>> print(dual_pipe_v(2, 4))
        rank 0: 0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3F2 0B0 3B2 3F3 0B1 3B3 0I2 0W2 0I3 0W3
        rank 1: 1F0 2F0 1F1 2F1 1F2 2B0 2F2 1B0 1F3 2B1 2F3 1B1 2B2 1B2 2I3 1I3 2W3 1W3
    """
    check("dual_pipe_v", num_ranks, num_microbatches, least=2 * num_ranks)
    lines = (tuple(spell(phases(num_ranks, rank, num_microbatches), (rank, 2 * num_ranks - 1 - rank))) for rank in range(num_ranks))
    return Schedule(tuple(lines), (*range(num_ranks), *reversed(range(num_ranks))), num_microbatches, name="DualPipe-V")


def phases(p: int, r: int, m: int) -> list[Phase]:
    """The table of the module's text; DualPipe speaks it too."""
    return [
        ("F0", 2 * (p - r - 1)),
        ("F0 F1", r + 1),
        ("I1 W F1", p - r - 1),
        ("F0 B1 F1 B0", m - 2 * p + r + 1),
        ("B1 F1 B0", p - r - 1),
        *_ending(r),
        ("W I0", p - r - 1),
        ("W", r + 1),
    ]


def _ending(r: int) -> list[Phase]:
    """``B1 B0`` r + 1 times, split from half way on: from the middle pair's second half on even ranks, from its first on odd."""
    half = (r + 1) // 2
    if r % 2:
        return [("B1 B0", half), ("I1 I0", r + 1 - half)]
    return [("B1 B0", half), ("B1 I0", 1), ("I1 I0", r - half)]
