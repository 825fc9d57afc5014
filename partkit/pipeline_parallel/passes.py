"""Passes: functions from schedule to schedule, to be put one behind the other.

    add_communication       0F0 0F1 0B0 0B1          ->   0RECV_B0 0F0 0SEND_F0 0RECV_B1 0F1 0SEND_F1 0B0 0B1
    add_blocking_calls      0F0 0B0                  ->   0F0 0SEND_F0 0RECV_B0 0B0     each RECV right before its use
    remove_communication    the other way round
    split_backward          0B0                      ->   0I0 0W0
    merge_backward          0I0 0W0                  ->   0B0            where nothing stands between them
    take_overlaps_apart     (0F1;3B0)OVERLAP_F_B     ->   0F1 3B0
    add_reduce_grad         ... 0B7                  ->   ... 0B7 0REDUCE_GRAD      after the last backward of each stage

Where receives are placed, and why nothing can hang: `partkit.pipeline_parallel.messages`.

Source: lowering by passes, as torch.distributed.pipelining does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from partkit.pipeline_parallel.action import COMPUTE, MESSAGES, Action, flat
from partkit.pipeline_parallel.lockstep import rounds
from partkit.pipeline_parallel.messages import messages
from partkit.pipeline_parallel.rules import message, needs, receiver
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.table import Columns, columns, table
from partkit.pipeline_parallel.validate import InvalidSchedule, violations


def add_communication(schedule: Schedule) -> Schedule:
    """Write out every message: a SEND behind the action that makes its tensor, and a RECV where the sender places it.

    A schedule that has its messages already is returned as it is. Overlapped pairs are taken apart.

    Raises:
        InvalidSchedule: it can't run, so there is no order in which to send.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> print(add_communication(one_f_one_b(2, 2)))
        rank 0: 0RECV_B0 0F0 0SEND_F0 0RECV_B1 0F1 0SEND_F1 0B0 0B1
        rank 1: 1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1
    """
    if schedule.lowered:
        return schedule
    schedule = take_overlaps_apart(schedule)
    every = columns(schedule)
    t = table(schedule, every)
    if found := violations(schedule):
        raise InvalidSchedule(found)
    x = messages(schedule, t, every, rounds(t))
    behind = _rows_of_actions(schedule, every)
    posts: list[list[tuple[int, Action]]] = [[] for _ in range(len(every.rank) + schedule.num_ranks)]
    places = zip(x.made_by.tolist(), x.dst.tolist(), x.received_after.tolist(), x.send_place.tolist(), x.receive_place.tolist(), strict=True)
    for made_by, dst, after, send_place, receive_place in places:
        send = message(t.action(made_by), schedule.num_stages, schedule.placement)
        assert send is not None, "a message crosses ranks"
        posts[behind[made_by]].append((send_place, send))
        posts[behind[after] if after >= 0 else len(every.rank) + dst].append((receive_place, receiver(send)))
    return schedule.with_ranks(_woven(schedule, posts))


def _rows_of_actions(schedule: Schedule, every: Columns) -> list[int]:
    """For each timed action, its number among all actions: lists may hold others, which take no time."""
    timed = np.array([action.kind in COMPUTE for action in chain.from_iterable(schedule.ranks)], dtype=bool)
    numbers: list[int] = np.flatnonzero(timed[: len(every.rank)]).tolist()
    return numbers


def _woven(schedule: Schedule, posts: list[list[tuple[int, Action]]]) -> Iterator[Iterator[Action]]:
    """The lists with what is posted behind each action; what is posted before all of them stands at the end of ``posts``, by rank."""
    number, total = 0, sum(map(len, schedule.ranks))
    for rank, line in enumerate(schedule.ranks):
        woven = [action for _, action in sorted(posts[total + rank])]
        for action in line:
            woven.append(action)
            woven.extend(post for _, post in sorted(posts[number]))
            number += 1
        yield iter(woven)


def add_blocking_calls(schedule: Schedule) -> Schedule:
    """Write out messages as a beginner would with blocking calls: a RECV right before the action that needs it, a SEND right behind.

    With calls that block, many schedules then deadlock: ``violations(schedule, blocking=True)`` says how.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> print(add_blocking_calls(one_f_one_b(2, 2)))
        rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
        rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1
    """
    return schedule.with_ranks(chain.from_iterable(_with_calls(schedule, action) for action in flat(line)) for line in schedule.ranks)


def _with_calls(schedule: Schedule, action: Action) -> Iterator[Action]:
    yield from (need for need in needs(action, schedule.num_stages, schedule.placement) if need.kind in MESSAGES)
    yield action
    send = message(action, schedule.num_stages, schedule.placement)
    if send is not None:
        yield send


def remove_communication(schedule: Schedule) -> Schedule:
    """Leave out SENDs and RECVs: what `add_communication` has added.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> remove_communication(add_communication(one_f_one_b(3, 4))) == one_f_one_b(3, 4)
        True
    """
    return schedule.with_ranks((action for action in line if action.kind not in MESSAGES) for line in schedule.ranks)


def take_overlaps_apart(schedule: Schedule) -> Schedule:
    """Write every OVERLAP_F_B as its parts, one after the other.

    Example:
        >>> print(take_overlaps_apart(Schedule.parse("rank 0: (0F1;0B0)OVERLAP_F_B")))
        rank 0: 0F1 0B0
    """
    return schedule.with_ranks(map(flat, schedule.ranks))


def split_backward(schedule: Schedule) -> Schedule:
    """Write every B as I and W, one behind the other.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> print(split_backward(one_f_one_b(2, 1)))
        rank 0: 0F0 0I0 0W0
        rank 1: 1F0 1I0 1W0
    """
    return schedule.with_ranks(chain.from_iterable(_split(action) for action in line) for line in map(flat, schedule.ranks))


def _split(action: Action) -> tuple[Action, ...]:
    if action.kind != "B":
        return (action,)
    return action._replace(kind="I"), action._replace(kind="W")


def merge_backward(schedule: Schedule) -> Schedule:
    """Write I and W as one B where W follows at once: autograd does both in one go for less.

    Example:
        >>> from partkit.pipeline_parallel import zb_h1
        >>> print(merge_backward(zb_h1(2, 2)))
        rank 0: 0F0 0F1 0B0 0B1
        rank 1: 1F0 1I0 1F1 1I1 1W0 1W1
    """
    return schedule.with_ranks(_merged(line) for line in map(flat, schedule.ranks))


def _merged(line: list[Action]) -> Iterator[Action]:
    place = 0
    while place < len(line):
        action = line[place]
        whole = action.kind == "I" and place + 1 < len(line) and line[place + 1] == action._replace(kind="W")
        yield action._replace(kind="B") if whole else action
        place += 2 if whole else 1


def add_reduce_grad(schedule: Schedule) -> Schedule:
    """After the last backward of each stage, reduce its gradients over the data-parallel replicas.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> print(add_reduce_grad(one_f_one_b(2, 2)))
        rank 0: 0F0 0F1 0B0 0B1 0REDUCE_GRAD
        rank 1: 1F0 1B0 1F1 1B1 1REDUCE_GRAD
    """
    return schedule.with_ranks(_reduced(flat(line)) for line in schedule.ranks)


def _reduced(line: list[Action]) -> Iterator[Action]:
    last = {action.stage: place for place, action in enumerate(line) if action.kind in ("B", "W")}
    for place, action in enumerate(line):
        yield action
        if last.get(action.stage) == place:
            yield Action(action.stage, "REDUCE_GRAD")
