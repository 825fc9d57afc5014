"""A schedule as an exercise: what a learner wrote down is read, held to the rules, and to the best that is known.

    read       lists of actions, lines of text or a `Schedule` -> a `Schedule` with the stages where the exercise wants them
    rules      everything that `partkit.pipeline_parallel.violations` finds, most of it named with its action and its reason
    memory     what each rank keeps, held to the schedule of the paper
    time       the makespan, held to the same; if it is longer, an idle slot that need not be

Any order of the actions that keeps to memory and time is right, whether or not it is the paper's. No ranks are needed: a schedule is
data, and when everything happens is known on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from partkit.figures.studio import Board
from partkit.figures.studio_why import could_run, why
from partkit.labs.verdict import Finding, Verdict
from partkit.pipeline_parallel import Action, Schedule, peak_memory, violations
from partkit.pipeline_parallel.memory import kept
from partkit.pipeline_parallel.passes import remove_communication, take_overlaps_apart

Planner = Callable[[int, int], Any]
"""``plan(p, m)``: who does what, in which order."""
MOST_FINDINGS = 3
SIZES = ((4, 8), (3, 5), (2, 2), (4, 2), (2, 1), (1, 3), (6, 16))
"""Ranks and micro-batches: the usual case first, then those in which an order for it breaks."""


class Unreadable(ValueError):
    """What a learner returned is no schedule; the text says what it is."""


@dataclass(frozen=True)
class ScheduleExercise:
    """What is asked of a function ``plan(p, m)``.

    Args:
        name: for the verdict, and of the schedule that is asked for.
        paper: the known schedule, whose memory and makespan are enough.
        kinds: of the actions that may occur.
        memory: in words and letters, what a rank may keep.
        solved: what is said of a function that passes, each line a fact that was checked.
    """

    name: str
    paper: Callable[[int, int], Schedule]
    kinds: tuple[str, ...]
    memory: str
    solved: tuple[str, ...]


def judge_schedule(exercise: ScheduleExercise, plan: Planner) -> Verdict:
    """Try all sizes; the first that is wrong makes the verdict.

    Args:
        exercise: what is asked.
        plan: a function of ranks and micro-batches.

    Raises:
        TypeError: ``plan`` can't be called.
    """
    if not callable(plan):
        raise TypeError(f"plan={plan!r}: give the function itself, my_schedule, not what it returns")
    for p, m in SIZES:
        told = list(_judge(exercise, plan, p, m))
        if told:
            return Verdict(exercise.name, [Finding(False, f"{_count(p, 'rank')}, {_count(m, 'micro-batch')}: {text}") for text in told[:MOST_FINDINGS]])
    return Verdict(exercise.name, [Finding(True, text) for text in exercise.solved])


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 'es' if what.endswith('ch') else 's'}"


def _judge(exercise: ScheduleExercise, plan: Planner, p: int, m: int) -> Iterator[str]:
    """What is wrong for one size; memory and time are only asked of what can run."""
    try:
        schedule = read(plan(p, m), p, m)
    except Unreadable as problem:
        yield str(problem)
        return
    except Exception as error:
        yield f"your function raised {type(error).__name__}: {error}"
        return
    occur = {action.kind for line in schedule.ranks for action in line}
    wrong = [str(violation) for violation in violations(schedule)]
    if others := sorted(occur - set(exercise.kinds)):
        yield f"{exercise.name} is made of {', '.join(exercise.kinds)}; yours has {', '.join(others)}"
    elif wrong:
        yield from wrong
    elif not occur & {"B", "I"}:
        yield "there is no backward in it; each stage has one for every micro-batch"
    else:
        paper = exercise.paper(p, m)
        yield from _memory(exercise, schedule, paper)
        yield from _time(exercise, schedule, paper)


# -- reading ---------------------------------------------------------------------------------------------------------


def read(made: Any, p: int, m: int) -> Schedule:
    """A schedule with one stage a rank, from whatever it is written in.

    Args:
        made: a `Schedule`, its text, or for each rank a list of actions or a line of text; an action is an `Action` or its name.
        p: ranks and stages.
        m: micro-batches.

    Raises:
        Unreadable: it is something else, or for other sizes.

    Example:
        >>> read([["0F0", "0B0"]], 1, 1) == read("rank 0: 0F0 0B0", 1, 1) == read(["0F0 0B0"], 1, 1)
        True
        >>> read(None, 1, 1)
        Traceback (most recent call last):
        partkit.labs.schedules.Unreadable: your function returned a NoneType; return a list for each rank, such as [["0F0", "0B0"], ["1F0", "1B0"]]
    """
    lines = read_freely(made).ranks
    if len(lines) != p:
        raise Unreadable(f"there are {len(lines)} lists, one for each rank makes {p}")
    return Schedule.from_ranks(lines, placement=tuple(range(p)), num_microbatches=m)


def read_freely(made: Any) -> Schedule:
    """The same for any number of ranks; stages lie where their first action is, unless it is a `Schedule`, which says where.

    Raises:
        Unreadable: it is something else.

    Example:
        >>> read_freely(["0F0 3F0", "1F0 2F0"]).placement
        (0, 1, 1, 0)
    """
    if isinstance(made, Schedule):
        schedule = take_overlaps_apart(remove_communication(made))
    else:
        lines = [_line(rank, line) for rank, line in enumerate(_lines(made))]
        _no_odd_ones(lines)
        if not any(lines):
            raise Unreadable("there is no action in it; return a list of actions for each rank")
        schedule = Schedule.from_ranks(lines)
    _no_odd_ones(schedule.ranks)
    return schedule


def _no_odd_ones(lines: Iterable[Iterable[Action]]) -> None:
    for rank, line in enumerate(lines):
        for action in line:
            if action.kind not in ("F", "B", "I", "W") or action.microbatch is None or action.stage < 0 or action.microbatch < 0:
                raise Unreadable(f"{action} on rank {rank} is no forward or backward of a stage on a micro-batch, such as 0F0, 0B0, 0I0 or 0W0")


def _lines(made: Any) -> list[Any]:
    if isinstance(made, str):
        return [line.partition(":")[2] if ":" in line else line for line in made.strip().splitlines()]
    if isinstance(made, Iterable):
        return list(made)
    raise Unreadable(f'your function returned a {type(made).__name__}; return a list for each rank, such as [["0F0", "0B0"], ["1F0", "1B0"]]')


def _line(rank: int, line: Any) -> list[Action]:
    if isinstance(line, Action):
        raise Unreadable(f"there is one list of actions; return a list of lists, one for each rank (the first item is {line})")
    if not isinstance(line, Iterable):
        raise Unreadable(f"rank {rank} has a {type(line).__name__} in place of a list of actions: {line!r}")
    return [_action(rank, word) for word in (line.split() if isinstance(line, str) else line)]


def _action(rank: int, word: Any) -> Action:
    if isinstance(word, Action):
        return word
    if not isinstance(word, str):
        raise Unreadable(f"rank {rank} has {word!r} in its list; an action is Action(stage, kind, microbatch), or its name, as in '0F0'")
    try:
        return Action.parse(word)
    except ValueError as problem:
        raise Unreadable(f"rank {rank}: {problem}") from None


# -- memory and time -------------------------------------------------------------------------------------------------


def _memory(exercise: ScheduleExercise, schedule: Schedule, paper: Schedule) -> Iterator[str]:
    """Ranks that keep more than those of the paper: where it begins, and what would free something."""
    for rank, most in enumerate(peak_memory(paper)):
        found = list(kept(schedule, rank))
        place = next((place for place, (_, total) in enumerate(found) if total > most), None)
        if place is None:
            continue
        frees = next(action for action, _ in found[place + 1 :] if action.kind in ("B", "W"))
        action, total = found[place]
        yield (
            f"after {action} rank {rank} keeps activations of {total:g} micro-batches; {exercise.name} keeps {exercise.memory}, here {most:g}. "
            f"{frees}, which frees those of one, comes only later in its list."
        )


def _time(exercise: ScheduleExercise, schedule: Schedule, paper: Schedule) -> Iterator[str]:
    """How much longer it takes, and where it loses time."""
    board, shortest = Board.of(schedule), Board.of(paper).plan.makespan
    if board.plan.makespan > shortest:
        whole = "I" in exercise.kinds and not any(action.kind in ("I", "W") for line in schedule.ranks for action in line)
        where = "The rank before waits for both parts of a B, though it needs only the first: write I and W." if whole else wasted(board, peak_memory(paper))
        yield f"it takes {board.plan.makespan:g} units of time, {exercise.name} {shortest:g} (F = I = W = 1, B = 2). {where}"


def wasted(board: Board, most: Sequence[float]) -> str:
    """Where a schedule loses time that it need not lose, with the reason; the first place of the most telling kind.

    Args:
        board: a complete schedule.
        most: what each rank may keep, in the unit of the board's memory.

    Example:
        >>> print(wasted(Board.of(Schedule.parse("rank 0: 0F0 0B0 0F1 0B1\\nrank 1: 1F0 1B0 1F1 1B1")), [2.0, 1.0]))
        At 1: Rank 0 waits: its next action 0B0 needs 1B0. Rank 1 begins it only at 2 and ends it at 4. It could run 0F1 now, ...
    """
    gaps = sorted(_gaps(board))
    ready = [{action.kind for action in _fitting(board, most, *gap)} for gap in gaps]
    to_fill = [gap for gap, kinds in zip(gaps, ready, strict=True) if "W" in kinds]
    if not to_fill and (hasty := next(_hasty(board, most), None)) is not None:
        return hasty
    others = [gap for gap, kinds in zip(gaps, ready, strict=True) if kinds]
    return next((f"At {time:g}: {why(board, rank, time)}" for time, rank, _ in [*to_fill, *others, *gaps]), "")


def _gaps(board: Board) -> Iterator[tuple[float, int, int]]:
    """Idle slots between the first and the last action of a rank: when, whose, and before which place of its list."""
    for rank, line in enumerate(board.lines):
        for place in range(1, len(line)):
            if line[place].start > line[place - 1].end:
                yield line[place - 1].end, rank, place


def _fitting(board: Board, most: Sequence[float], time: float, rank: int, place: int) -> list[Action]:
    """What could run in place of the action there, and is not too much for the memory."""
    held, memory = board.kept[rank][place - 1] if place else 0.0, board.stage_costs.kept(board.schedule.num_stages)[0]

    def fits(action: Action) -> bool:
        return action.kind != "F" or held + memory[action.stage % len(memory)] <= most[rank]

    return list(filter(fits, could_run(board, rank, time, place)))


def _hasty(board: Board, most: Sequence[float]) -> Iterator[str]:
    """Gradients of weights, awaited by nobody, that run before something that other ranks wait for."""
    for rank, line in enumerate(board.lines):
        for place, slot in enumerate(line):
            urgent = [action for action in _fitting(board, most, slot.start, rank, place) if action.kind != "W"] if slot.action.kind == "W" else []
            if urgent:
                yield f"At {slot.start:g} rank {rank} runs {slot.action}, for which nobody waits, though it could run {urgent[0]}, which other ranks need."
