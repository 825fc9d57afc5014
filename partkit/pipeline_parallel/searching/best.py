"""The search: known schedules and greed first, then proof where the problem is small; and an honest gap.

    bound <= best possible makespan <= what was found          gap = found / bound - 1

A gap of 0 is a proof. For large problems the bound is that of `searching.bound` and the gap is what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from partkit.pipeline_parallel.passes import split_backward
from partkit.pipeline_parallel.recognition import known, recognize
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.searching.bound import lower_bound
from partkit.pipeline_parallel.searching.exact import solve
from partkit.pipeline_parallel.searching.greedy import greedy
from partkit.pipeline_parallel.searching.problem import Problem
from partkit.pipeline_parallel.simulation import simulate
from partkit.pipeline_parallel.validate import violations

SMALL = 200
"""Actions up to which the solver is asked."""


class Found(NamedTuple):
    """The best schedule that was found, and how good it is."""

    schedule: Schedule
    makespan: float
    bound: float
    """No schedule for this problem takes less."""
    name: str | None
    """What it is called, if it is a known one."""

    @property
    def gap(self) -> float:
        """By what share it may be longer than the best; 0 if it is proved to be the best."""
        gap = self.makespan / self.bound - 1 if self.bound else 0.0
        return 0.0 if abs(gap) < 1e-12 else gap  # sums in another order


def search(problem: Problem, seconds: float = 10.0) -> Found:
    """The best schedule for ``problem`` that can be found.

    Args:
        problem: stages on ranks, micro-batches, costs, memory cap, link.
        seconds: how long the solver may look. Without OR-tools, or for more than `SMALL` actions, it is not asked.

    Raises:
        ValueError: no schedule that was tried keeps to the memory cap.

    Example:
        >>> found = search(Problem((0, 1, 2, 3), 8, memory_cap=4, split=False))
        >>> found.name, found.makespan, found.gap
        ('1F1B', 33.0, 0.0)
    """
    best = min((_tried(problem, schedule) for schedule in _candidates(problem)), key=lambda found: found.makespan, default=None)
    bound = lower_bound(problem)
    size = len(problem.kinds) * problem.num_stages * problem.num_microbatches
    if size <= SMALL and find_spec("ortools") is not None and (best is None or best.makespan > bound * (1 + 1e-9)):
        proof = solve(problem, _one_by_one(problem) if best is None else best.makespan, seconds)
        bound = max(bound, proof.bound)
        if proof.schedule is not None:
            proved = _tried(problem, proof.schedule)
            best = proved if best is None or proved.makespan < best.makespan else best
    if best is None:
        raise ValueError(f"no schedule was found that keeps to memory_cap={problem.memory_cap}")
    return best._replace(bound=bound, name=recognize(best.schedule))


def _candidates(problem: Problem) -> Iterator[Schedule]:
    """Known schedules of this size and greedy ones, as far as they keep to the cap."""
    like = Schedule(((),) * problem.num_ranks, problem.placement, problem.num_microbatches)
    for schedule in [*known(like), *greedy(problem)]:
        whole = {action.kind for line in schedule.ranks for action in line}
        if whole == {"F", "B"} and problem.split:
            schedule = split_backward(schedule)
        elif whole != set(problem.kinds):
            continue
        if not violations(schedule, costs=problem.costs, memory_cap=problem.memory_cap):
            yield schedule


def _tried(problem: Problem, schedule: Schedule) -> Found:
    return Found(schedule, simulate(schedule, problem.costs, problem.link).makespan, 0.0, None)


def _one_by_one(problem: Problem) -> float:
    """What it takes to do everything one after the other: always possible."""
    travel = sum(problem.travel(s, "F") for s in range(problem.num_stages - 1)) + sum(problem.travel(s, "B") for s in range(1, problem.num_stages))
    return problem.num_microbatches * (travel + sum(sum(times) for times in problem.seconds.values()))
