"""DualPipe: micro-batches enter at both ends of the ranks, and meet; forwards are paired with backwards.

Every stage lies on two ranks: stage s on rank s for one half of the micro-batches, which go down, and on rank p - 1 - s for the
other half, which go up. So each rank holds the weights of two stages, and both copies must be kept equal after the step. In the
steady state a forward of one direction stands beside a whole backward of the other (see `dual_pipe_v`).

dual_pipe(4, 8), 4 to 7 is the second replica, F = I = W = 1:

    rank 0  0F0 0F1 0F2 7F4 7I4 7W4 7F5 0F3 7B5 --- 7F6 0B0 --- 7B6 --- 7F7   . 0B1 --- 7B7 --- 0I2 0W2 0I3 0W3
    rank 1    . 1F0 6F4 1F1 6F5 1F2 6B4 --- 6F6 1B0 --- 1F3 6B5 --- 6F7 1B1 --- 6B6 --- 1B2 --- 6I7 1I3 6W7 1W3
    rank 2    . 5F4 2F0 5F5 2F1 5F6 2B0 --- 2F2 5B4 --- 5F7 2B1 --- 2F3 5B5 --- 2B2 --- 5B6 --- 2I3 5I7 2W3 5W7
    rank 3  4F4 4F5 4F6 3F0 3I0 3W0 3F1 4F7 3B1 --- 3F2 4B4 --- 3B2 --- 3F3   . 4B5 --- 3B3 --- 4I6 4W6 4I7 4W7

Ranks r and p - 1 - r do the same with the directions exchanged, and together look like one rank of a V of p / 2 ranks: each does what
`dual_pipe_v` does on rank min(r, p - 1 - r) with m / 2 micro-batches in each direction.

    bubble              (p/2 - 1)(F&B + B - 3W) if pairs run as one, in F&B = F + B, and W <= F <= I; 1F1B: (p - 1)(F + B)
                        (p/2 - 1)(F + I - W) if the two stand one after the other, as here, and F = I
    kept activations    p + 1 stages' worth
    weights             2 stages, where 1F1B has 1

Source: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", on DualPipe: its example of 8 ranks and its comparison of bubbles and memory.
"""

from __future__ import annotations

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check
from partkit.pipeline_parallel.schedules.dual_pipe_v import phases
from partkit.pipeline_parallel.schedules.words import spell


def dual_pipe(num_ranks: int, num_microbatches: int) -> Schedule:
    """Two pipelines in opposite directions, forwards paired with backwards; two replicas.

    Args:
        num_ranks: p, even.
        num_microbatches: m, even and at least 2p.

    Example:
        >>> print(dual_pipe(2, 4))
        2 replicas
        rank 0: 0F0 3F2 0F1 3B2 3F3 0B0 3B3 0I1 0W1
        rank 1: 2F2 1F0 2F3 1B0 1F1 2B2 1B1 2I3 2W3
    """
    check("dual_pipe", num_ranks, num_microbatches, even=True, least=2 * num_ranks)
    p, half = num_ranks, num_microbatches // 2
    down, up = [(rank, 0) for rank in range(p)], [(2 * p - 1 - rank, half) for rank in range(p)]  # stage and first micro-batch
    lines = []
    for rank in range(p):
        near, far = (down[rank], up[rank]) if rank < p // 2 else (up[rank], down[rank])  # where the rank is early, where late
        lines.append(tuple(spell(phases(p // 2, min(rank, p - 1 - rank), half), (near[0], far[0]), (near[1], far[1]))))
    return Schedule(tuple(lines), (*range(p), *reversed(range(p))), num_microbatches, replicas=2, name="DualPipe")
