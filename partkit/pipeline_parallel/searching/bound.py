"""A bound: no order of the actions can be faster, whatever the memory.

Rank r can't begin before a micro-batch has come down to its first stage, and then has all its work to do; and if its backwards are
whole, the gradient of its last one still has to travel up to the first stage:

    head  |  work of rank r  |  tail          the largest sum over all ranks

A micro-batch alone has to go down and up: that is a bound too. The bound is reached by 1F1B and GPipe (whole backwards, equal
stages, free messages) and by ZB-H1 (split, F = I = W), so those are optimal there.
"""

from __future__ import annotations

from partkit.pipeline_parallel.searching.problem import Problem


def lower_bound(problem: Problem) -> float:
    """Seconds that every schedule for ``problem`` takes at least.

    Example:
        >>> lower_bound(Problem((0, 1, 2, 3), 8, split=False)), lower_bound(Problem((0, 1, 2, 3), 8))
        (33.0, 27.0)
    """
    down, up = _down(problem), _up(problem)
    ranks = range(problem.num_ranks)
    return float(max(max(_of_rank(problem, rank, down, up) for rank in ranks), _of_one_microbatch(problem, down, up)))


def _of_rank(problem: Problem, rank: int, down: list[float], up: list[float]) -> float:
    stages = [stage for stage, place in enumerate(problem.placement) if place == rank]
    work = problem.num_microbatches * sum(problem.seconds[kind][stage] for kind in problem.kinds for stage in stages)
    tail = 0.0 if problem.split else min(up[stage] for stage in stages)
    return min(down[stage] for stage in stages) + work + tail


def _of_one_microbatch(problem: Problem, down: list[float], up: list[float]) -> float:
    last = problem.num_stages - 1
    way = down[last] + problem.seconds["F"][last] + problem.seconds[problem.kinds[1]][last] + up[last]
    return way + (problem.seconds["W"][0] if problem.split else 0.0)


def _down(problem: Problem) -> list[float]:
    """By stage: when the first activation can be there."""
    found = [0.0]
    for stage in range(problem.num_stages - 1):
        found.append(found[-1] + problem.seconds["F"][stage] + problem.travel(stage, "F"))
    return found


def _up(problem: Problem) -> list[float]:
    """By stage: from the end of its backward to the end of the first stage's."""
    found = [0.0]
    for stage in range(1, problem.num_stages):
        found.append(problem.travel(stage, "B") + problem.seconds[problem.kinds[1]][stage - 1] + found[-1])
    return found
