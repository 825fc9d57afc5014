"""The same question for a constraint solver, which finds the best order and proves that it is.

    variables      a start time for each action
    on a rank      actions do not overlap
    inputs         start >= end of what is needed + its time on the way
    micro-batches  the n-th F of a stage is that of micro-batch n, and so for I and W: they are all alike
    memory         F takes, I and W give back; at no time more than the cap
    wanted         the earliest last end

Ports are not in the model (a message may wait for one in the simulator), so its bound holds for the simulator too, and the simulator
has the last word on what an order takes.

The solver is OR-tools CP-SAT (Apache 2.0), an optional dependency: ``pip install "partkit[search]"``. It counts in whole numbers:
costs are scaled so that they become whole, or are cut off after 6 digits.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import ceil, lcm
from typing import Any, NamedTuple

from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.searching.problem import Problem


class Proof(NamedTuple):
    """What the solver has found."""

    schedule: Schedule | None
    bound: float
    """No order takes less."""


def solve(problem: Problem, known: float, seconds: float) -> Proof:
    """The best order that the solver finds.

    Args:
        problem: up to some hundred actions.
        known: a makespan that can be reached; only what is no slower is looked for.
        seconds: how long it may look.

    Raises:
        ImportError: OR-tools is not installed.

    Example:
        >>> proof = solve(Problem((0, 1), 2, split=False), known=9.0, seconds=10)
        >>> proof.bound
        9.0
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as missing:
        raise ImportError('the exact search needs OR-tools: pip install "partkit[search]"') from missing
    scale = _scale([*(t for times in problem.seconds.values() for t in times), *_travels(problem)])
    model = _Model(cp_model.CpModel(), problem, scale, ceil(known * scale - 1e-6))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.random_seed = 0
    solver.parameters.num_workers = 1
    status = solver.solve(model.model)
    bound = float(solver.best_objective_bound) / scale
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Proof(None, known if status == cp_model.INFEASIBLE else bound)
    starts = {action: solver.value(variable) for action, variable in model.start.items()}
    return Proof(_in_order(problem, starts), bound)


def _scale(values: list[float]) -> int:
    """A factor that makes all of these whole; or, if there is no small one, leaves 6 digits of the largest."""
    parts = [Fraction(value).limit_denominator(1000) for value in values]
    factor = lcm(*(part.denominator for part in parts))
    exact = all(abs(part - value) <= 1e-12 * max(1.0, abs(value)) for part, value in zip(parts, values, strict=True))
    return factor if exact and factor <= 10**6 else int(10**6 / max(map(abs, values))) or 1


def _whole(value: float, scale: int) -> int:
    """Rounded down, so that the bound stays a bound."""
    return int(value * scale + 1e-6)


def _travels(problem: Problem) -> list[float]:
    down = [problem.travel(stage, "F") for stage in range(problem.num_stages - 1)]
    return down + [problem.travel(stage, "B") for stage in range(1, problem.num_stages)]


def _in_order(problem: Problem, starts: dict[Action, int]) -> Schedule:
    lines: list[list[Action]] = [[] for _ in range(problem.num_ranks)]
    for action in sorted(starts, key=lambda action: (starts[action], problem.seconds[action.kind][action.stage], action)):
        lines[problem.placement[action.stage]].append(action)
    return Schedule(tuple(map(tuple, lines)), problem.placement, problem.num_microbatches)


class _Model:
    """The rows of the module's table, one method each."""

    def __init__(self, model: Any, problem: Problem, scale: int, horizon: int) -> None:
        self.model, self.problem, self.scale = model, problem, scale
        self.start = {action: model.new_int_var(0, horizon, str(action)) for action in problem.actions}
        self.lasts = {action: _whole(problem.seconds[action.kind][action.stage], scale) for action in self.start}
        self._no_overlap()
        self._inputs()
        self._alike()
        if problem.memory_cap is not None:
            self._memory(problem.memory_cap)
        end = model.new_int_var(0, horizon, "makespan")
        for action, start in self.start.items():
            model.add(end >= start + self.lasts[action])
        model.minimize(end)

    def _no_overlap(self) -> None:
        intervals: dict[int, list[Any]] = defaultdict(list)
        for action, start in self.start.items():
            interval = self.model.new_fixed_size_interval_var(start, self.lasts[action], f"interval {action}")
            intervals[self.problem.placement[action.stage]].append(interval)
        for of_rank in intervals.values():
            self.model.add_no_overlap(of_rank)

    def _inputs(self) -> None:
        for action, start in self.start.items():
            for maker, travel in self.problem.inputs(action):
                self.model.add(start >= self.start[maker] + self.lasts[maker] + _whole(travel, self.scale))

    def _alike(self) -> None:
        for action, start in self.start.items():
            if action.microbatch:
                before = action._replace(microbatch=action.microbatch - 1)
                self.model.add(start >= self.start[before] + self.lasts[before])

    def _memory(self, cap: float) -> None:
        changes = {action: self.problem.change[action.kind][action.stage] for action in self.start}
        scale = _scale([cap, *changes.values()])
        for rank in range(self.problem.num_ranks):
            own = [action for action in self.start if self.problem.placement[action.stage] == rank and changes[action]]
            times = [self.start[action] + (0 if action.kind == "F" else self.lasts[action]) for action in own]
            self.model.add_reservoir_constraint(times, [round(changes[action] * scale) for action in own], 0, _whole(cap, scale))
