"""Balance: cut a row of layers so that the slowest stage is as fast as can be. Pure.

    layers    3  1  4  1  5  9  2  6      4 stages      3 1 4 | 1 5 | 9 | 2 6      the slowest takes 9
                                                                                  (3 1 | 4 1 5 | 9 | 2 6 takes 10)

Let best(s, n) be the time of the slowest of s stages that share the first n layers. The last of them has the layers from k on:

    best(s, n) = min over k of max( best(s - 1, k), cost of layers k .. n - 1 )

A stage whose layers need more memory than it may have costs infinity; what layers keep of a micro-batch counts as often as there are
micro-batches in flight on that stage. Ties go to the earliest cut.

Cost: O(stages x layers^2) additions. All ways are covered, so it equals brute force, which has C(layers - 1, stages - 1) cuts to look at.

Source: the linear partition problem, as in Narayanan et al. 2019, "PipeDream", without replicated stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf


def balance(
    costs: Sequence[float],
    num_stages: int,
    *,
    memory: Sequence[float] | None = None,
    kept: Sequence[float] | None = None,
    alive: Sequence[int] | None = None,
    cap: float | Sequence[float] = inf,
    scale: Sequence[float] | None = None,
) -> list[int]:
    """Where each stage but the first begins.

    Args:
        costs: of each layer, in seconds or whatever adds up; at least 0.
        num_stages: how many stages; each gets at least one layer.
        memory: of each layer, if there is a cap.
        kept: of each layer, for each micro-batch in flight.
        alive: by stage, the most micro-batches in flight (`partkit.pipeline_parallel.peak_microbatches`); one by default.
        cap: the most that the layers of a stage may need; one number, or one for each stage (1F1B keeps more on early ones).
        scale: by stage, what the costs of its layers are multiplied by; 1 by default. With ``alive`` as ``scale`` and what layers keep as
            ``costs``, stages become even in memory.

    Returns:
        The number of the layer at which stages 1, 2, ... begin.

    Raises:
        ValueError: fewer layers than stages, or no cut keeps to the cap.

    Example:
        >>> balance([3, 1, 4, 1, 5, 9, 2, 6], 4)
        [3, 5, 6]
        >>> balance([1, 1, 1, 1], 2, memory=[5, 1, 1, 1], cap=6), balance([1, 1, 1, 1], 2, memory=[5, 1, 1, 1], cap=5)
        ([2], [1])
        >>> balance([1, 1, 1, 1], 2, kept=[1, 1, 1, 1], alive=[2, 1], cap=3)  # 1F1B: stage 0 keeps two micro-batches
        [1]
        >>> balance([1, 1, 1, 1, 1, 1], 2, scale=[2, 1])
        [2]
    """
    n = len(costs)
    if not 1 <= num_stages <= n:
        raise ValueError(f"{n} layers can't be cut in {num_stages} stages: each needs at least one")
    caps = [float(cap)] * num_stages if isinstance(cap, int | float) else list(cap)
    if len(caps) != num_stages:
        raise ValueError(f"cap={caps}: give one number, or one for each of the {num_stages} stages")
    seconds = list(accumulate(costs, initial=0.0))
    fixed = list(accumulate(memory or [0.0] * n, initial=0.0))
    each = list(accumulate(kept or [0.0] * n, initial=0.0))
    flying, factor = alive or [1] * num_stages, scale or [1.0] * num_stages

    def cost(first: int, end: int, stage: int) -> float:
        needed = fixed[end] - fixed[first] + flying[stage] * (each[end] - each[first])
        return factor[stage] * (seconds[end] - seconds[first]) if needed <= caps[stage] else inf

    best = [0.0] + [inf] * n
    begins: list[list[int]] = []
    for stage in range(num_stages):
        choices = [min(((max(best[k], cost(k, end, stage)), k) for k in range(stage, end)), default=(inf, 0)) for end in range(n + 1)]
        best = [value for value, _ in choices]
        begins.append([k for _, k in choices])
    if best[n] == inf:
        largest = max(a + b for a, b in zip(memory or [0.0] * n, kept or [0.0] * n, strict=True))
        raise ValueError(f"no cut in {num_stages} stages keeps to cap={cap!r}: together the layers need {fixed[-1] + each[-1]:g}, the largest {largest:g}")
    return _walk_back(begins, n)


def _walk_back(begins: Sequence[Sequence[int]], end: int) -> list[int]:
    """From where the last stage begins to where the second does."""
    starts = []
    for begin in reversed(begins[1:]):
        end = begin[end]
        starts.append(end)
    return starts[::-1]
