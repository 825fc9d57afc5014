"""Optimizer steps inside a schedule, and which weights each forward then uses.

    rank 0: 0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0B2 0STEP2        version  0F0 0F1: 0     0F2: 1

A stage's weights have a version: the number of its steps so far. PipeDream steps after every micro-batch and forwards with the newest.
PipeDream-2BW steps after a batch of them, and holds a new version back until a whole batch has been started with the one before, so
that two versions are enough and all stages agree.

Source: Narayanan et al. 2019 (PipeDream); Narayanan et al. 2021 (PipeDream-2BW).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from partkit.pipeline_parallel.action import Action, flat
from partkit.pipeline_parallel.schedule import Schedule


def with_steps(line: Iterable[Action], every: int) -> Iterator[Action]:
    """The actions of one stage with an optimizer step after every ``every`` backwards.

    Example:
        >>> from partkit.pipeline_parallel.action import actions
        >>> list(with_steps(actions("0F0 0B0 0F1 0B1"), every=2))
        [0F0, 0B0, 0F1, 0B1, 0STEP1]
    """
    done = 0
    for action in line:
        yield action
        if action.kind == "B":
            done += 1
            if done % every == 0:
                yield Action(action.stage, "STEP", action.microbatch)


def weight_versions(schedule: Schedule, hold_back: int = 0) -> dict[Action, int]:
    """The version of the weights that each forward, and so its backward, uses.

    Args:
        schedule: with STEP actions.
        hold_back: 0 to use a new version at once; b to use it, as PipeDream-2BW does, from the next batch of b micro-batches on that
            begins after all of a batch have been started with the version before.

    Example:
        >>> from partkit.pipeline_parallel import pipedream
        >>> versions = weight_versions(pipedream(2, 4))
        >>> [versions[Action(0, "F", i)] for i in range(4)], [versions[Action(1, "F", i)] for i in range(4)]
        ([0, 0, 1, 2], [0, 1, 2, 3])
    """
    steps: Counter[int] = Counter()
    found: dict[Action, int] = {}
    for line in schedule.ranks:
        for action in line:
            if action.kind == "STEP":
                steps[action.stage] += 1
            elif action.kind == "F":
                held = max(0, (action.microbatch or 0) // hold_back - 1) if hold_back else steps[action.stage]
                found[action] = min(held, steps[action.stage])
    return found


def gathered(schedule: Schedule) -> tuple[tuple[int, ...], ...]:
    """The micro-batches whose gradients each step gathers, the same on every stage; empty without steps.

    Raises:
        ValueError: stages differ, or gradients of some micro-batches are left over behind the last step.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, pipedream, pipedream_2bw
        >>> gathered(pipedream(2, 3)), gathered(pipedream_2bw(2, 4)), gathered(gpipe(2, 3))
        (((0,), (1,), (2,)), ((0, 1), (2, 3)), ())
    """
    found: dict[int, list[tuple[int, ...]]] = {stage: [] for stage in range(len(schedule.placement))}
    waiting: dict[int, list[int]] = {stage: [] for stage in found}
    for action in (action for line in schedule.ranks for action in flat(line)):
        if action.kind in ("B", "W"):
            waiting[action.stage].append(action.microbatch or 0)
        elif action.kind == "STEP":
            found[action.stage].append(tuple(sorted(waiting[action.stage])))
            waiting[action.stage] = []
    if not any(found.values()):
        return ()
    for stage, steps in found.items():
        if waiting[stage]:
            raise ValueError(f"{schedule!r}: gradients of micro-batches {waiting[stage]} are left over behind the last STEP of stage {stage}")
        if steps != found[0]:
            raise ValueError(f"{schedule!r}: the steps of stage {stage} gather micro-batches {steps}, those of stage 0 {found[0]}; let them agree")
    return tuple(found[0])


def hold_back_of(schedule: Schedule) -> int:
    """What `weight_versions` calls ``hold_back``: the micro-batches of a batch, if a step gathers several; 0 if each has its own step.

    Example:
        >>> from partkit.pipeline_parallel import pipedream, pipedream_2bw
        >>> hold_back_of(pipedream(2, 4)), hold_back_of(pipedream_2bw(2, 4))
        (0, 2)
    """
    largest = max(map(len, gathered(schedule)), default=0)
    return largest if largest > 1 else 0


def staleness(schedule: Schedule, hold_back: int = 0) -> dict[Action, int]:
    """For each STEP: how many steps old are the weights that made its gradient; the oldest, if it has gathered several.

    Args:
        schedule: with STEP actions.
        hold_back: as for `weight_versions`.

    Example:
        >>> from partkit.pipeline_parallel import pipedream
        >>> found = staleness(pipedream(3, 8))
        >>> [found[Action(stage, "STEP", 7)] for stage in range(3)]
        [2, 1, 0]
    """
    versions = weight_versions(schedule, hold_back)
    steps: Counter[int] = Counter()
    found: dict[Action, int] = {}
    for line in schedule.ranks:
        gathered: list[int] = []
        for action in line:
            if action.kind in ("B", "W"):
                gathered.append(versions[Action(action.stage, "F", action.microbatch)])
            elif action.kind == "STEP":
                found[action] = steps[action.stage] - min(gathered)
                steps[action.stage] += 1
                gathered.clear()
    return found
