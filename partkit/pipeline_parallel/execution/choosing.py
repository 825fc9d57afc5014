"""From what a user says to the schedule that is executed: with messages written out, for these ranks, and free of violations."""

from __future__ import annotations

from collections.abc import Callable

from partkit.pipeline_parallel import make
from partkit.pipeline_parallel.action import flat
from partkit.pipeline_parallel.memory import has_backward
from partkit.pipeline_parallel.passes import add_communication, remove_communication
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.validate import InvalidSchedule, violations


def schedule_for(wanted: str | Schedule | Callable[[int, int], Schedule], num_ranks: int, num_microbatches: int | None) -> Schedule:
    """The schedule to execute.

    Args:
        wanted: a schedule, the name of one, or a function of ranks and micro-batches that makes one.
        num_ranks: that there are.
        num_microbatches: may be left away where ``wanted`` is a schedule.

    Raises:
        ValueError: it is for another number of ranks or micro-batches, or there is none of that name.
        InvalidSchedule: it can't run.

    Example:
        >>> schedule_for("gpipe", 2, 4)
        <Schedule GPipe: 2 ranks, 2 stages, 4 micro-batches>
        >>> from partkit.pipeline_parallel import interleaved
        >>> schedule_for(lambda p, m: interleaved(p, m, 3), 2, 4)
        <Schedule interleaved 1F1B: 2 ranks, 6 stages, 4 micro-batches>
    """
    if not (isinstance(wanted, str | Schedule) or callable(wanted)):
        raise ValueError(f"schedule={wanted!r}: give a Schedule, the name of one, or a function of ranks and micro-batches that makes one")
    schedule = wanted if isinstance(wanted, Schedule) else _made(wanted, num_ranks, num_microbatches)
    if schedule.num_ranks != num_ranks:
        raise ValueError(f"{schedule!r} is for {schedule.num_ranks} ranks, but there are {num_ranks}")
    if num_microbatches is not None and schedule.num_microbatches != num_microbatches:
        raise ValueError(f"num_microbatches={num_microbatches}, but {schedule!r} has {schedule.num_microbatches}; leave it away")
    if found := violations(schedule):
        raise InvalidSchedule(found)
    return add_communication(schedule)


def _made(wanted: str | Callable[[int, int], Schedule], num_ranks: int, num_microbatches: int | None) -> Schedule:
    if num_microbatches is None:
        raise ValueError(f"schedule={wanted!r}: say in how many micro-batches a batch is split, num_microbatches=...")
    if not isinstance(wanted, str):
        return wanted(num_ranks, num_microbatches)
    return make(wanted, num_ranks, num_microbatches)


def check_trains(schedule: Schedule) -> None:
    """Refuse a step that would leave no gradients.

    Raises:
        ValueError: it has no backward.
    """
    if not has_backward(schedule):
        raise ValueError(f"step(): {schedule.name or 'this schedule'} has no backward, so it makes no gradients; for outputs call model(x)")


def forwards_of(schedule: Schedule) -> Schedule:
    """The forwards of a schedule alone, in its order, with their messages.

    What a forward needs are forwards, so leaving out all else leaves an order that can run.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> print(forwards_of(one_f_one_b(2, 2)))
        rank 0: 0F0 0SEND_F0 0F1 0SEND_F1
        rank 1: 1RECV_F0 1RECV_F1 1F0 1F1
    """
    bare = remove_communication(schedule)
    return add_communication(bare.with_ranks([action for action in flat(line) if action.kind == "F"] for line in bare.ranks))
