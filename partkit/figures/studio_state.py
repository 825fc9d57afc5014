"""A schedule as far as it is built: what is there, what is left, when it happens, what is kept.

    rank 0  F0 F1 F2 F3  .  . B0 --        made: 0F0 ... 0F3, 0I0 and 0W0 (by 0B0), ...
    rank 1   . F0 F1 F2 B0 -- B1 --        left: 0B1, 1F3, ...          kept on rank 1: 1 2 3 2 1

Nothing here changes anything; moves are in `partkit.figures.studio`. Costs are those of all layers of one rank. Cut in v stages a rank,
each stage takes 1 / v of them, so that schedules with one stage a rank and with several are compared on the same model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from partkit.cluster import Link
from partkit.pipeline_parallel.action import Action, Kind
from partkit.pipeline_parallel.costs import UNIT, Costs
from partkit.pipeline_parallel.memory import kept
from partkit.pipeline_parallel.rules import gives
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.simulation import FREE, simulate
from partkit.tracing import KIND_CODE, Trace

Kinds = tuple[Kind, ...]
FORWARD: Kinds = ("F",)
WHOLE: Kinds = ("F", "B")
SPLIT: Kinds = ("F", "I", "W")


class Slot(NamedTuple):
    """When a rank runs an action."""

    action: Action
    start: float
    end: float


@dataclass(frozen=True)
class State:
    """A schedule as far as it is built, and what it is asked to be.

    Args:
        schedule: the actions so far; messages and overlapped pairs are written out of it by `of`.
        kinds: what is to be done to every micro-batch on every stage: `FORWARD`, `WHOLE` or `SPLIT`.
        costs: of all layers of a rank, in any unit of time; a sequence is taken as given, a number for each stage.
        link: between any two ranks, in the same unit.
        memory_cap: the most that a rank may keep, in the unit of ``costs.memory``.

    Example:
        >>> state = State(Schedule.parse("rank 0: 0F0 0F1 0B0"))
        >>> list(state.left()), state.plan.makespan, state.kept
        ([0B1], 4.0, ((1.0, 2.0, 1.0),))
    """

    schedule: Schedule
    kinds: Kinds = WHOLE
    costs: Costs = UNIT
    link: Link = FREE
    memory_cap: float | None = None

    @cached_property
    def stage_costs(self) -> Costs:
        """Of one stage: a rank's costs over its number of stages; messages stay as they are."""
        return per_stage(self.costs, self.schedule)

    @cached_property
    def made(self) -> dict[Action, Action]:
        """Everything that the actions so far give, by which of them."""
        return {thing: action for line in self.schedule.ranks for action in line for thing in gives(action)}

    @cached_property
    def num_left(self) -> int:
        """Actions that are still to be placed."""
        return sum(1 for _ in self.left())

    def left(self) -> Iterator[Action]:
        """What is still to be placed."""
        return (action for i in range(self.schedule.num_microbatches) for stage in self._stages_for(i) for action in self._wanted(stage, i))

    def _stages_for(self, microbatch: int) -> range:
        first = self.schedule.replica_of(microbatch) * self.schedule.num_stages
        return range(first, first + self.schedule.num_stages)

    def _wanted(self, stage: int, microbatch: int) -> Iterator[Action]:
        """What is left of one micro-batch on one stage; of a backward that was begun in two parts, the other part."""
        begun = Action(stage, "I", microbatch) in self.made
        kinds = SPLIT if begun and self.kinds == WHOLE else self.kinds
        found = (Action(stage, kind, microbatch) for kind in kinds)
        return (action for action in found if not all(thing in self.made for thing in gives(action)))

    @cached_property
    def plan(self) -> Trace:
        """When everything so far happens."""
        return simulate(self.schedule, self.stage_costs, self.link)

    @cached_property
    def lines(self) -> tuple[tuple[Slot, ...], ...]:
        """By rank: its actions with their times, in order."""
        rows = self.plan.columns[self.plan.columns["kind"] == KIND_CODE["compute"]]
        times = {self.plan.strings[tag]: (start, end) for tag, start, end in zip(*(rows[name].tolist() for name in ("tag", "start", "end")), strict=True)}
        return tuple(tuple(Slot(action, *times[str(action)]) for action in line) for line in self.schedule.ranks)

    @cached_property
    def settled(self) -> Schedule:
        """The schedule with the backward of everything that was begun: what memory is counted on."""
        if self.kinds == FORWARD:
            return self.schedule
        lines = [list(line) for line in self.schedule.ranks]
        for rank, line in enumerate(self.schedule.ranks):
            begun = sorted((action for action in line if action.kind == "F"), key=lambda action: (action.microbatch, -action.stage))
            for stage, _, i, _ in begun:
                if Action(stage, "W", i) not in self.made:
                    lines[rank].append(Action(stage, "W" if Action(stage, "I", i) in self.made else "B", i))
        return self.schedule.with_ranks(lines)

    @cached_property
    def kept(self) -> tuple[tuple[float, ...], ...]:
        """By rank: what is kept after each of its actions so far."""
        totals = (kept(self.settled, rank, self.stage_costs) for rank in range(self.schedule.num_ranks))
        return tuple(tuple(total for _, (_, total) in zip(line, found, strict=False)) for line, found in zip(self.schedule.ranks, totals, strict=True))


def per_stage(costs: Costs, schedule: Schedule) -> Costs:
    """Costs of one stage from those of all layers of a rank; sequences, which are of stages already, stay.

    Example:
        >>> from partkit.pipeline_parallel import interleaved
        >>> per_stage(Costs(forward=2.0, backward_input=[1, 1, 1, 1]), interleaved(2, 2)).forward
        1.0
    """
    stages = schedule.num_stages / schedule.num_ranks
    divided = ("forward", "backward_input", "backward_weight", "backward", "step", "memory", "weight_memory")
    return replace(costs, **{name: value / stages for name in divided if isinstance(value := getattr(costs, name), int | float)})
