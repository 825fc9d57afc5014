"""A schedule as a grid of text: one line a rank, one column a unit of time, as the figures of the literature are drawn.

    rank 0  F0 F1  .  . B0 --  . B1 --        F0   forward of micro-batch 0          I0   gradient of the input
    rank 1   . F0 B0 -- F1 B1 --  .  .        B0   backward, two units long          W0   gradient of the weights
                                               .   idle                              S0   optimizer step

A rank with two stages writes the second of them in small letters (``f0 b0``); with more than two, or two replicas, every
action is written in full (``2F0``). With versions of the weights, each forward and its backward say theirs: ``F2v1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from partkit.cluster import Cluster, Link
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.costs import UNIT, Costs
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.simulation import FREE, simulate


def grid(schedule: Schedule, costs: Costs = UNIT, link: Link | Cluster = FREE, unit: float = 1.0, versions: Mapping[Action, int] | None = None) -> str:
    """The schedule as text, in time.

    Args:
        schedule: complete and free of deadlock.
        costs: of the actions; whole multiples of ``unit`` give an exact picture, others are rounded.
        link: between any two ranks; messages are not drawn, only waited for.
        unit: time of one column.
        versions: of the weights that forwards use, as `partkit.pipeline_parallel.weight_versions` gives them.

    Example:
        >>> print(grid(Schedule.parse("rank 0: 0F0 0F1 0B0 0B1\\nrank 1: 1F0 1B0 1F1 1B1")))
        rank 0  F0 F1  .  . B0 --  . B1 --
        rank 1   . F0 B0 -- F1 B1 --  .  .
        >>> from partkit.pipeline_parallel import Costs, pipedream, weight_versions
        >>> print(grid(pipedream(2, 3), Costs(step=0), versions=weight_versions(pipedream(2, 3))))
        rank 0  F0v0 F1v0    .    . B0v0 ---- F2v1 B1v0 ----    . B2v1 ----
        rank 1     . F0v0 B0v0 ---- F1v1 B1v1 ---- F2v2 B2v2 ----    .    .
    """
    events = [event for event in simulate(schedule, costs, link).events if event.kind == "compute"]
    columns = max(round(event.end / unit) for event in events)
    label = labels(schedule, versions)
    cells = [["."] * columns for _ in schedule.ranks]
    for event in events:
        begin, end = round(event.start / unit), round(event.end / unit)
        cells[event.rank][begin:end] = ([label[event.tag]] + ["-" * (len(label[event.tag]))] * (end - begin))[: end - begin]
    width = max(len(cell) for line in cells for cell in line)
    names = [f"rank {rank}" for rank in range(len(cells))]
    return "\n".join(f"{name:{max(map(len, names))}}  " + " ".join(f"{cell:>{width}}" for cell in line) for name, line in zip(names, cells, strict=True))


def labels(schedule: Schedule, versions: Mapping[Action, int] | None = None) -> dict[str, str]:
    """What is written for each action, by its name."""
    stages = [schedule.stages_of(rank) for rank in range(schedule.num_ranks)]
    short = max(map(len, stages)) <= 2 and schedule.replicas == 1
    return {str(action): (_short(action, stages[rank]) if short else str(action)) + _version(action, versions or {}) for rank, action in _every(schedule)}


def _version(action: Action, versions: Mapping[Action, int]) -> str:
    forward = Action(action.stage, "F", action.microbatch)
    return f"v{versions[forward]}" if forward in versions and action.kind != "STEP" else ""


def _every(schedule: Schedule) -> Iterable[tuple[int, Action]]:
    return ((rank, part) for rank, line in enumerate(schedule.ranks) for action in line for part in (action.parts or (action,)))


def _short(action: Action, stages: tuple[int, ...]) -> str:
    letter = action.kind[0]
    return f"{letter.lower() if action.stage != stages[0] else letter}{action.microbatch}"
