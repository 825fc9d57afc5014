"""A schedule that somebody is building, action by action: what is possible next, what is refused and why.

    rank 0  F0 F1 F2 F3  .  . [B0]          offered on rank 0: 0B0, 0F4
    rank 1   . F0 F1 F2 B0 -- [F3]          offered on rank 1: 1F3, 1B1

A `Board` is a value: each move gives another one, so undo is to take the one before. It asks `partkit.pipeline_parallel.rules`
what an action needs, and `partkit.pipeline_parallel.validate` what is wrong with a move; times come from the simulator. An action
can be placed once all that it needs has been placed, on whatever rank. So whatever is on the board can run, and every schedule
that can run can be built: in the order of its times, for one.

Costs are those of all layers of one rank. Cut in v stages a rank, each stage takes 1 / v of them, so that schedules with one
stage a rank and with several are compared on the same model.

Cost: to ask for one move O(1); a board of n actions O(n).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from partkit.figures.studio_state import FORWARD, SPLIT, WHOLE, Kinds, State
from partkit.pipeline_parallel.action import COMPUTE, Action
from partkit.pipeline_parallel.passes import remove_communication, take_overlaps_apart
from partkit.pipeline_parallel.rules import gives, needs
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.validate import WORDS, Violation, violations


class Refused(ValueError):
    """A move that is not possible.

    Attributes:
        violation: the code and the reason.
    """

    def __init__(self, violation: Violation) -> None:
        self.violation = violation
        super().__init__(violation.reason)


@dataclass(frozen=True)
class Board(State):
    """A `State` and its moves; each gives another board.

    Args: as of `State`. `blank` and `of` make one.

    Example:
        >>> board = Board.blank(2, 2).place("0F0").place("1F0")
        >>> board.possible(0), board.possible(1)
        ((0F1,), (1B0,))
        >>> board.refusal("0B0").reason
        '0B0 needs 1B0, the backward of stage 1 on micro-batch 0, which has not been placed: it belongs on rank 1'
    """

    @classmethod
    def blank(cls, num_ranks: int, num_microbatches: int, kinds: Kinds = WHOLE) -> Board:
        """Nothing yet, one stage a rank.

        Example:
            >>> Board.blank(2, 3).num_left
            12
        """
        return cls(Schedule(((),) * num_ranks, tuple(range(num_ranks)), num_microbatches), kinds)

    @classmethod
    def of(cls, schedule: Schedule, kinds: Kinds | None = None) -> Board:
        """The board on which ``schedule`` has been built.

        Args:
            schedule: complete or not.
            kinds: by default what occurs in it.

        Example:
            >>> from partkit.pipeline_parallel import zb_h1
            >>> Board.of(zb_h1(2, 4)).kinds
            ('F', 'I', 'W')
        """
        plain = take_overlaps_apart(remove_communication(schedule))
        occur = {action.kind for line in plain.ranks for action in line}
        found = SPLIT if occur & {"I", "W"} else WHOLE if "B" in occur or not occur else FORWARD
        return cls(plain, found if kinds is None else kinds)

    # -- moves ---------------------------------------------------------------------------------------------------

    def possible(self, rank: int) -> tuple[Action, ...]:
        """What can be placed next on ``rank``: gradients that others wait for first, then forwards, then the rest; oldest first.

        Example:
            >>> Board.blank(2, 3).possible(0)
            (0F0, 0F1, 0F2)
        """
        return self._offers[rank]

    @cached_property
    def _offers(self) -> tuple[tuple[Action, ...], ...]:
        urgency = {"B": 0, "I": 0, "F": 1, "W": 2}
        found: list[list[Action]] = [[] for _ in self.schedule.ranks]
        for action in filter(self._ready, self.left()):
            found[self.schedule.placement[action.stage]].append(action)
        return tuple(tuple(sorted(own, key=lambda action: (urgency[action.kind], action.microbatch, -action.stage))) for own in found)

    def refusal(self, move: str | Action, rank: int | None = None) -> Violation | None:
        """Why ``move`` can't be placed at the end of its rank's list; None if it can.

        Args:
            move: an action, as a value or written down.
            rank: where it shall go, if not where its stage lies.

        Raises:
            ValueError: ``move`` is no action.
        """
        action = _action(move)
        if action.kind not in COMPUTE or action.parts:
            return Violation("unknown", rank or 0, action, f"{action} is not placed by hand: messages follow from the actions that make them")
        if (at := next((r for r, line in enumerate(self.schedule.ranks) if action in line), None)) is not None:
            return Violation("twice", at, action, f"{action} is on the board already, on rank {at}")
        inside = action.stage < len(self.schedule.placement)
        home = self.schedule.placement[action.stage] if inside else 0
        if inside and rank in (None, home) and self._ready(action):
            return None
        return next(self._new_in(self._with(action, home if rank is None else rank)))

    def place(self, move: str | Action, rank: int | None = None) -> Board:
        """The board with one more action, at the end of its rank's list.

        Raises:
            Refused: it is not possible; the error says why.
            ValueError: ``move`` is no action.
        """
        action = _action(move)
        if (violation := self.refusal(action, rank)) is not None:
            raise Refused(violation)
        return self._with(action, self.schedule.placement[action.stage])

    def remove(self, move: str | Action) -> Board:
        """The board without an action that no other one needs.

        Raises:
            Refused: it is not there, or another action needs it.

        Example:
            >>> Board.of(Schedule.parse("rank 0: 0F0 0B0")).remove("0F0")
            Traceback (most recent call last):
            partkit.figures.studio.Refused: 0F0 can't be taken away: 0B0 on rank 0 needs it
        """
        action = _action(move)
        rank, place = self._find(action)
        given = gives(action)
        for other_rank, line in enumerate(self.schedule.ranks):
            for other in line:
                if other != action and any(need in given for need in needs(other, self.schedule.num_stages)):
                    raise Refused(Violation("missing", rank, action, f"{action} can't be taken away: {other} on rank {other_rank} needs it"))
        lines = list(self.schedule.ranks)
        lines[rank] = lines[rank][:place] + lines[rank][place + 1 :]
        return replace(self, schedule=self._named(lines))

    def move(self, move: str | Action, place: int, rank: int | None = None) -> Board:
        """The board with an action at another place in its rank's list.

        Args:
            move: one that is there.
            place: how many actions of its rank come before it then.
            rank: whose list; another one than its own is refused.

        Raises:
            Refused: it is not there, or the order that results can't run.

        Example:
            >>> Board.of(Schedule.parse("rank 0: 0F0 0F1 0B0 0B1")).move("0B0", 1).schedule.ranks[0]
            (0F0, 0B0, 0F1, 0B1)
        """
        action = _action(move)
        home, now = self._find(action)
        lines = [list(line) for line in self.schedule.ranks]
        del lines[home][now]
        lines[home if rank is None else rank].insert(max(0, place), action)
        board = replace(self, schedule=self._named(lines))
        for violation in self._new_in(board):
            raise Refused(violation)
        return board

    # -- reasons -------------------------------------------------------------------------------------------------

    def _ready(self, action: Action) -> bool:
        """Whether it is new, what it needs is there, and there is room for what it keeps; for actions that exist."""
        i = action.microbatch
        if i is None or i >= self.schedule.num_microbatches or action.stage not in self._stages_for(i) or any(thing in self.made for thing in gives(action)):
            return False
        return all(need in self.made for need in needs(action, self.schedule.num_stages)) and self._room(action)

    def _room(self, action: Action) -> bool:
        if action.kind != "F" or self.memory_cap is None or self.kinds == FORWARD:
            return True
        held = self.kept[self.schedule.placement[action.stage]]
        more = self.stage_costs.kept(self.schedule.num_stages)[0][action.stage % self.schedule.num_stages]
        return (held[-1] if held else 0.0) + more <= self.memory_cap * (1 + 1e-12)

    def _new_in(self, board: Board) -> Iterator[Violation]:
        """What is wrong with a board, but for what is still missing, and was not wrong with this one."""
        before = {violation.code + violation.reason for violation in self.wrong}
        return (violation for violation in board.wrong if violation.code + violation.reason not in before)

    @cached_property
    def wrong(self) -> list[Violation]:
        """What is wrong with the schedule, but for what may still come at the end of a list. What was built here has nothing wrong."""
        found = violations(self.settled, costs=self.stage_costs, memory_cap=self.memory_cap)
        return [*(violation for violation in found if violation.code != "missing"), *self._unmet()]

    def _unmet(self) -> Iterator[Violation]:
        """Actions that stand on the board before something that they need stands anywhere."""
        for rank, line in enumerate(self.schedule.ranks):
            for action in line:
                for need in needs(action, self.schedule.num_stages):
                    if need not in self.made and 0 <= need.stage < len(self.schedule.placement):
                        yield self._lacking(rank, action, need)

    def _lacking(self, rank: int, action: Action, need: Action) -> Violation:
        maker = need._replace(kind="B") if need.kind in ("I", "W") and self.kinds == WHOLE else need
        home = self.schedule.placement[need.stage]
        words = f"{WORDS[maker.kind]} of stage {need.stage} on micro-batch {need.microbatch}"
        return Violation("too-early", rank, action, f"{action} needs {maker}, {words}, which has not been placed: it belongs on rank {home}")

    def _find(self, action: Action) -> tuple[int, int]:
        for rank, line in enumerate(self.schedule.ranks):
            if action in line:
                return rank, line.index(action)
        raise Refused(Violation("missing", 0, action, f"{action} is not on the board"))

    def _with(self, action: Action, rank: int) -> Board:
        lines = list(self.schedule.ranks)
        lines[min(rank, len(lines) - 1)] += (action,)
        return replace(self, schedule=self._named(lines))

    def _named(self, lines: Sequence[Iterable[Action]]) -> Schedule:
        """Other lists, and so no longer what it was called."""
        return replace(self.schedule, ranks=tuple(tuple(line) for line in lines), name="")


def _action(move: str | Action) -> Action:
    if isinstance(move, Action):
        return move
    try:
        return Action.parse(move.upper())
    except ValueError:
        raise ValueError(
            f"{move!r} is no action; write stage, kind and micro-batch, as in 2F0: kinds are F, B, and I and W for a backward in two parts"
        ) from None
