"""Everything that is wrong with a schedule, each with its reason.

    code            what is wrong
    unknown         the stage, the micro-batch, or this micro-batch in this replica does not exist
    missing         nobody does it
    twice           it is done more than once
    wrong-rank      the stage lies on another rank
    too-early       its own rank does later what it needs
    deadlock        ranks wait for each other in a circle
    channel-order   one rank sends in another order than the other receives
    over-memory     a rank keeps more than it may

A violation is a value: a code to test on, and a sentence to read. Nothing is raised here, and nothing stops at the first. What
follows from a violation that is already named is not named again: an action that waits for something missing is not also in a
deadlock.

What an action needs is not said here but in `partkit.pipeline_parallel.rules`; the deadlock is found by playing the lists
(`partkit.pipeline_parallel.play`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from partkit.pipeline_parallel.action import Action, flat
from partkit.pipeline_parallel.costs import UNIT, Costs
from partkit.pipeline_parallel.memory import has_backward, kept
from partkit.pipeline_parallel.play import stuck
from partkit.pipeline_parallel.rules import gives, message, needs, receiver
from partkit.pipeline_parallel.schedule import Schedule

Code = Literal["unknown", "missing", "twice", "wrong-rank", "too-early", "deadlock", "channel-order", "over-memory"]


class Violation(NamedTuple):
    """Why a schedule can't run."""

    code: Code
    rank: int
    """Where."""
    action: Action
    reason: str
    """For a person."""

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


class InvalidSchedule(ValueError):
    """A schedule that can't run was asked to.

    Attributes:
        violations: all reasons.
    """

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = list(violations)
        shown = "\n".join(f"  {violation}" for violation in self.violations[:10])
        more = len(self.violations) - 10
        super().__init__(f"this schedule can't run:\n{shown}" + (f"\n  and {more} more" if more > 0 else ""))

    def __reduce__(self) -> tuple[type[InvalidSchedule], tuple[list[Violation]]]:
        """How it travels from a rank to the notebook: by its reasons, not by its text."""
        return InvalidSchedule, (self.violations,)


def violations(schedule: Schedule, *, costs: Costs = UNIT, memory_cap: float | None = None, blocking: bool = False) -> list[Violation]:
    """Everything that is wrong with ``schedule``; empty if it can run.

    Args:
        schedule: with or without messages written out.
        costs: for the memory.
        memory_cap: the most that a rank may keep at a time, in the unit of ``costs.memory``; by default in micro-batches on a stage.
        blocking: whether each SEND and RECV ends before its rank goes on, as with blocking calls. Only for lowered schedules.

    Example:
        >>> schedule = Schedule.parse("rank 0: 0F0 0B0 0F1\\nrank 1: 1F0 1F1 1B0 1B1")
        >>> for violation in violations(schedule):
        ...     print(violation)
        missing: 0B1 is missing: nobody runs the backward of stage 0 on micro-batch 1
        deadlock: rank 0 stands before 0B0, which needs 1I0 from rank 1; rank 1 stands before 1F1, which needs 0F1 from rank 0: none of them can move
    """
    lines = [flat(line) for line in schedule.ranks]
    makers = _makers(lines)
    found = [*_unknown(schedule, lines), *_missing(schedule, makers), *_twice(makers), *_wrong_rank(schedule, lines)]
    found += _too_early(schedule, lines, makers)
    found += [Violation("deadlock", rank, action, reason) for rank, action, reason in stuck(schedule, lines, blocking)]
    if schedule.lowered:
        found += _channel_order(schedule, lines)
    if memory_cap is not None:
        found += _over_memory(schedule, costs, memory_cap)
    return found


Makers = dict[Action, list[tuple[int, int, Action]]]
"""For everything that is made: who makes it (rank, place in its list, action)."""


def _makers(lines: list[list[Action]]) -> Makers:
    makers: Makers = defaultdict(list)
    for rank, line in enumerate(lines):
        for place, action in enumerate(line):
            for made in gives(action):
                makers[made].append((rank, place, action))
    return dict(makers)


def _unknown(schedule: Schedule, lines: list[list[Action]]) -> Iterator[Violation]:
    last_stage, last = len(schedule.placement) - 1, schedule.num_microbatches - 1
    for rank, line in enumerate(lines):
        for action in line:
            if action.stage > last_stage:
                yield Violation("unknown", rank, action, f"{action} on rank {rank}: there is no stage {action.stage}; the last is {last_stage}")
            elif action.microbatch is not None and action.microbatch > last:
                yield Violation("unknown", rank, action, f"{action} on rank {rank}: there is no micro-batch {action.microbatch}; the last is {last}")
            elif action.microbatch is not None and schedule.replica_of(action.microbatch) != action.stage // schedule.num_stages:
                own, other = action.stage // schedule.num_stages, schedule.replica_of(action.microbatch)
                yield Violation(
                    "unknown",
                    rank,
                    action,
                    f"{action} on rank {rank}: stage {action.stage} belongs to replica {own}, micro-batch {action.microbatch} to replica {other}",
                )


def _expected(schedule: Schedule) -> Iterator[Action]:
    """The forward and, if the schedule has any, the backward of every stage on every micro-batch of its replica."""
    kinds: tuple[Literal["F", "B"], ...] = ("F", "B") if has_backward(schedule) else ("F",)
    for i in range(schedule.num_microbatches):
        first = schedule.replica_of(i) * schedule.num_stages
        for stage in range(first, first + schedule.num_stages):
            yield from (Action(stage, kind, i) for kind in kinds)


WORDS = {
    "F": "the forward",
    "B": "the backward",
    "I": "the gradient of the input",
    "W": "the gradient of the weights",
    "SEND_F": "the send of the activation",
    "SEND_B": "the send of the gradient",
    "RECV_F": "the receive of the activation",
    "RECV_B": "the receive of the gradient",
}


def _missing(schedule: Schedule, makers: Makers) -> Iterator[Violation]:
    for action in _expected(schedule):
        rank, made = schedule.placement[action.stage], gives(action)
        lacking = [part for part in made if part not in makers]
        for part in [action] if len(lacking) == len(made) else lacking:
            yield _nobody(rank, part)
        send = message(action, schedule.num_stages, schedule.placement) if schedule.lowered else None
        if send is not None and not lacking:
            yield from (_nobody(schedule.placement[side.stage], side) for side in (send, receiver(send)) if side not in makers)


def _nobody(rank: int, action: Action) -> Violation:
    return Violation(
        "missing", rank, action, f"{action} is missing: nobody runs {WORDS[action.kind]} of stage {action.stage} on micro-batch {action.microbatch}"
    )


def _twice(makers: Makers) -> Iterator[Violation]:
    for made, by in makers.items():
        if len(by) > 1 and made.microbatch is not None:
            places = " and ".join(f"{action} on rank {rank} (place {place})" for rank, place, action in by)
            yield Violation("twice", by[1][0], by[1][2], f"{made} is made {len(by)} times: by {places}")


def _wrong_rank(schedule: Schedule, lines: list[list[Action]]) -> Iterator[Violation]:
    for rank, line in enumerate(lines):
        for action in line:
            if action.stage < len(schedule.placement) and schedule.placement[action.stage] != rank:
                yield Violation(
                    "wrong-rank", rank, action, f"{action} is on rank {rank}, but stage {action.stage} lies on rank {schedule.placement[action.stage]}"
                )


def _too_early(schedule: Schedule, lines: list[list[Action]], makers: Makers) -> Iterator[Violation]:
    placement = schedule.placement if schedule.lowered else None
    last_use = {action.stage: place for line in lines for place, action in enumerate(line) if action.kind in ("B", "W")}
    for rank, line in enumerate(lines):
        for place, action in enumerate(line):
            if action.kind == "REDUCE_GRAD" and last_use.get(action.stage, -1) > place:
                yield Violation("too-early", rank, action, f"{action} comes before the last backward of its stage on rank {rank}: the gradient is not complete")
            if action.stage >= len(schedule.placement):
                continue
            for need in needs(action, schedule.num_stages, placement):
                by = makers.get(need, [])
                if by and all(other == rank and later > place for other, later, _ in by):
                    yield Violation("too-early", rank, action, f"{action} needs {need}, which comes later on the same rank {rank}, as {by[0][2]}")


def _channel_order(schedule: Schedule, lines: list[list[Action]]) -> Iterator[Violation]:
    """A wire without tags pairs the n-th send with the n-th receive, whatever they are."""
    sent: dict[tuple[int, int], list[Action]] = defaultdict(list)
    received: dict[tuple[int, int], list[Action]] = defaultdict(list)
    for rank, line in enumerate(lines):
        for action in line:
            forward = 1 if action.kind.endswith("_F") else -1
            if action.kind in ("SEND_F", "SEND_B"):
                sent[rank, schedule.placement[action.stage + forward]].append(action)
            elif action.kind in ("RECV_F", "RECV_B"):
                received[schedule.placement[action.stage - forward], rank].append(action)
    for (src, dst), sends in sent.items():
        for number, (send, recv) in enumerate(zip(sends, received[src, dst], strict=False)):
            if receiver(send) != recv:
                reason = f"message {number} from rank {src} to rank {dst} is sent as {send}, but received as {recv}"
                yield Violation("channel-order", src, send, reason)
                break


def _over_memory(schedule: Schedule, costs: Costs, cap: float) -> Iterator[Violation]:
    for rank in range(schedule.num_ranks):
        for action, total in kept(schedule, rank, costs):
            if total > cap * (1 + 1e-12):
                yield Violation("over-memory", rank, action, f"after {action} rank {rank} keeps {total:g}, and may keep {cap:g}")
                break
