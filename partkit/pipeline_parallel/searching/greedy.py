"""Greedy: whenever a rank is free, it does the most urgent thing that is ready. In the order of time, on all ranks at once.

    1. the gradient that others wait for (I, or B), oldest micro-batch first
    2. a forward, the latest stage first, as far as memory and the number in advance allow
    3. a weight gradient (W), for which nobody waits

How many forwards a stage may run in advance is what the known schedules differ in (`schedules.one_by_one`), so several numbers are
tried: the memory cap alone, p - s, and 2(p - s) - 1. Each gives an order; the simulator says how long it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.searching.problem import Problem

InAdvance = Callable[[int], int]
"""By stage: how many micro-batches it may have between F and I."""


def greedy(problem: Problem) -> Iterator[Schedule]:
    """The orders that greed finds; none if every one runs out of memory.

    Example:
        >>> [str(schedule.ranks[1][:4]) for schedule in greedy(Problem((0, 1), 2, split=False))][0]
        '(1F0, 1B0, 1F1, 1B1)'
    """
    stages, m = problem.num_stages, problem.num_microbatches
    choices: tuple[InAdvance, ...] = (lambda stage: m, lambda stage: stages - stage, lambda stage: 2 * (stages - stage) - 1)
    for in_advance in choices:
        order = _Greedy(problem, in_advance).run()
        if order is not None:
            yield Schedule(tuple(map(tuple, order)), problem.placement, m)


class _Greedy:
    """What has been done, when things are there, and what each rank keeps."""

    def __init__(self, problem: Problem, in_advance: InAdvance) -> None:
        self.problem, self.in_advance = problem, in_advance
        self.stages = [[s for s, place in enumerate(problem.placement) if place == rank] for rank in range(problem.num_ranks)]
        self.done = {kind: [0] * problem.num_stages for kind in problem.kinds}
        self.end: dict[Action, float] = {}
        self.kept = [0.0] * problem.num_ranks
        self.order: list[list[Action]] = [[] for _ in range(problem.num_ranks)]

    def run(self) -> list[list[Action]] | None:
        """The order of each rank; None if memory leaves nothing to do."""
        problem, moments = self.problem, [(0.0, rank) for rank in range(self.problem.num_ranks)]
        heapify(moments)
        left = len(problem.kinds) * problem.num_stages * problem.num_microbatches
        free = [0.0] * problem.num_ranks
        while moments and left:
            now, rank = heappop(moments)
            if free[rank] > now:
                continue
            action = self._most_urgent(rank, now)
            if action is None:
                continue
            left -= 1
            self._do(rank, action, now)
            free[rank] = self.end[action]
            heappush(moments, (free[rank], rank))
            for stage, kind in ((action.stage + 1, "F"), (action.stage - 1, problem.kinds[1])):
                if 0 <= stage < problem.num_stages and kind == action.kind:  # the neighbour may go on when it has arrived
                    heappush(moments, (self.end[action] + problem.travel(action.stage, kind), problem.placement[stage]))
        return None if left else self.order

    def _do(self, rank: int, action: Action, now: float) -> None:
        self.end[action] = now + self.problem.seconds[action.kind][action.stage]
        self.done[action.kind][action.stage] += 1
        self.kept[rank] += self.problem.change[action.kind][action.stage]
        self.order[rank].append(action)

    def _most_urgent(self, rank: int, now: float) -> Action | None:
        gradient, *rest = self.problem.kinds[1:]
        candidates = [(stage, gradient) for stage in sorted(self.stages[rank], key=lambda s: self.done[gradient][s])]
        candidates += [(stage, "F") for stage in reversed(self.stages[rank])]
        candidates += [(stage, kind) for kind in rest for stage in self.stages[rank]]
        return next((action for stage, kind in candidates if (action := self._ready(rank, stage, kind, now)) is not None), None)

    def _ready(self, rank: int, stage: int, kind: str, now: float) -> Action | None:
        """The next action of this kind on this stage, if it can start now."""
        i = self.done[kind][stage]
        if i == self.problem.num_microbatches:
            return None
        if kind == "F" and not self._room(rank, stage):
            return None
        action = Action(stage, kind, i)  # type: ignore[arg-type]
        arrived = all(maker in self.end and self.end[maker] + travel <= now for maker, travel in self.problem.inputs(action))
        return action if arrived else None

    def _room(self, rank: int, stage: int) -> bool:
        """Whether one more forward fits, and leaves room for the same micro-batch on the rank's later stages."""
        ahead = self.done["F"][stage] - self.done[self.problem.kinds[1]][stage]
        if ahead >= self.in_advance(stage):
            return False
        later = sum(self.problem.memory[s] for s in self.stages[rank] if s > stage)
        cap = self.problem.memory_cap
        return cap is None or self.kept[rank] + self.problem.memory[stage] + later <= cap * (1 + 1e-12)
