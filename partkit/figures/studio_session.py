"""A studio without its picture: a board and all that is done to it, with a way back.

    choose a known schedule ─┐
    place, remove, move      ├─>  a new entry of the history   ── undo, redo ──   the entries round it
    ranks, costs, link       ┘

What a move leads to is in `partkit.figures.studio`. A refused move changes nothing. When a size changes, a known schedule is made
anew at the new size; of one that was built by hand only its stages stay, and undo brings it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from partkit.cluster import Link
from partkit.figures.studio import Board, Refused
from partkit.figures.studio_rivals import Rival, known, name_of, order, rivals
from partkit.figures.studio_state import FORWARD, SPLIT, WHOLE
from partkit.pipeline_parallel import SCHEDULES
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.costs import Costs
from partkit.pipeline_parallel.passes import merge_backward, split_backward
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.validate import InvalidSchedule

MESSAGE = 1_000_000
"""Bytes of a message, unless costs say otherwise."""
LARGEST = {"ranks": 16, "microbatches": 64}
"""The most of each for which the picture can be read."""


@dataclass(frozen=True)
class Entry:
    """One state: a board, and the known schedule that it is, if it was chosen and not changed."""

    board: Board
    key: str | None = None


class Session:
    """What one person does with one studio.

    Args:
        schedule: the name of a known one, a `Schedule`, complete or not, or None for an empty board.
        num_ranks: of an empty board or a known schedule.
        num_microbatches: the same.
        costs: of all layers of a rank.
        link: between any two ranks.
        memory_cap: the most that a rank may keep.

    Raises:
        ValueError: there is no such schedule, there is none of this size, or it can't run.

    Example:
        >>> session = Session(None, 2, 2)
        >>> session.place("0F0 1F0 1B0")
        >>> session.undo()
        True
        >>> session.board.num_left
        8
    """

    def __init__(
        self,
        schedule: str | Schedule | None,
        num_ranks: int = 4,
        num_microbatches: int = 8,
        costs: Costs | None = None,
        link: Link | None = None,
        memory_cap: float | None = None,
    ) -> None:
        check_sizes(num_ranks, num_microbatches)
        blank = Board.blank(num_ranks, num_microbatches)
        costs = Costs(activation_bytes=MESSAGE) if costs is None else costs
        self._past: list[Entry] = [Entry(replace(blank, costs=costs, link=blank.link if link is None else link, memory_cap=memory_cap))]
        self._future: list[Entry] = []
        self._last = ""
        self._rivals: tuple[Rival, ...] = ()
        self._asked: Board | None = None
        if schedule is not None:
            self._past = [self._begin(schedule)]

    def _begin(self, schedule: str | Schedule) -> Entry:
        if isinstance(schedule, str):
            return self._chosen(schedule, self.board)
        check_sizes(schedule.num_ranks, schedule.num_microbatches)
        board = self._like(Board.of(schedule))
        if board.wrong:
            raise InvalidSchedule(board.wrong)
        return Entry(board)

    # -- what is there -------------------------------------------------------------------------------------------

    @property
    def entry(self) -> Entry:
        """The present state."""
        return self._past[-1]

    @property
    def board(self) -> Board:
        """The present board."""
        return self.entry.board

    @property
    def schedule(self) -> Schedule:
        """The schedule as far as it is built."""
        return self.board.schedule

    @property
    def can_undo(self) -> bool:
        """Whether there is a way back."""
        return len(self._past) > 1

    @property
    def can_redo(self) -> bool:
        """Whether something was undone."""
        return bool(self._future)

    @property
    def rivals(self) -> tuple[Rival, ...]:
        """The known schedules of this size, under these costs."""
        asked = replace(self.board, schedule=self.schedule.with_ranks(((),) * self.schedule.num_ranks))
        asked = replace(asked, schedule=replace(asked.schedule, placement=tuple(range(asked.schedule.num_ranks)), replicas=1, name=""))
        if asked != self._asked:
            self._rivals, self._asked = rivals(asked, self._rivals), asked
        return self._rivals

    @property
    def name(self) -> str:
        """What has been built, in words."""
        return self.schedule.name if self.entry.key is not None else name_of(self.board, self.rivals)

    # -- moves ---------------------------------------------------------------------------------------------------

    def place(self, moves: str | Action, rank: int | None = None) -> None:
        """Put actions at the end of their ranks' lists: one, or several separated by blanks; all or none.

        Raises:
            Refused: one is not possible; the error says why.
            ValueError: a word is no action.
        """
        board = self.board
        for action in (moves,) if isinstance(moves, Action) else moves.split():
            board = board.place(action, rank)
        self._enter(Entry(board))

    def remove(self, move: str | Action) -> None:
        """Take away an action that no other one needs."""
        self._enter(Entry(self.board.remove(move)))

    def place_next(self, rank: int, kind: str) -> None:
        """Put the next action of a kind on ``rank``; of several, the one that can be placed.

        Raises:
            Refused: none can be placed; the error says why the first of them can't.
            ValueError: none is left.
        """
        left = [action for action in self.board.left() if action.kind == kind and self.schedule.placement[action.stage] == rank]
        if kind not in self.board.kinds:
            way = {SPLIT: "backwards are in two parts here, I and W", WHOLE: "backwards are whole here, B"}.get(self.board.kinds)
            raise ValueError(f"there is no {kind} here: {f'{way}; Split backward (p) changes that' if way else 'the schedule has forwards only'}")
        if not left:
            raise ValueError(f"no {kind} is left to place on rank {rank}")
        self.place(next((action for action in self.board.possible(rank) if action.kind == kind), left[0]))

    def move(self, move: str | Action, place: int, rank: int | None = None) -> None:
        """Put an action at another place in its rank's list."""
        self._enter(Entry(self.board.move(move, place, rank)))

    def clear(self) -> None:
        """Take all actions away; stages stay on their ranks."""
        self._enter(Entry(self._emptied(self.board)))

    def choose(self, key: str) -> None:
        """Take a known schedule: ``one_f_one_b``.

        Raises:
            ValueError: there is no such schedule, or none of this size.
        """
        self._enter(self._chosen(key, self.board))

    def undo(self) -> bool:
        """One step back; whether there was one."""
        if self.can_undo:
            self._future.append(self._past.pop())
            self._last = ""
            return True
        return False

    def redo(self) -> bool:
        """One step forward again; whether there was one."""
        if self.can_redo:
            self._past.append(self._future.pop())
            return True
        return False

    # -- what it is asked to be ----------------------------------------------------------------------------------

    def resize(self, num_ranks: int, num_microbatches: int) -> None:
        """Another number of ranks or micro-batches.

        Raises:
            ValueError: the number can't be, or the known schedule that is on the board has no such size.

        Example:
            >>> session = Session("gpipe", 2, 2)
            >>> session.resize(3, 4)
            >>> session.schedule
            <Schedule GPipe: 3 ranks, 3 stages, 4 micro-batches>
        """
        check_sizes(num_ranks, num_microbatches)
        blank = self._like(Board.blank(num_ranks, num_microbatches, self.board.kinds))
        if self.entry.key is not None:
            self._enter(self._chosen(self.entry.key, blank), "size")
            return
        shape = self._shape(num_ranks, num_microbatches)
        self._enter(Entry(blank if shape is None else self._emptied(replace(blank, schedule=shape))), "size")

    def _shape(self, num_ranks: int, num_microbatches: int) -> Schedule | None:
        """A known schedule of that size whose stages lie on ranks as on the board; None for one stage a rank, or if there is none."""
        for rival in self.rivals:
            if rival.board.schedule.placement == self.schedule.placement and rival.board.schedule.replicas == self.schedule.replicas:
                return known(rival.key, num_ranks, num_microbatches)
        return None

    def ask(self, costs: Costs | None = None, link: Link | None = None, **memory_cap: float | None) -> None:
        """Other costs, another link, another cap of memory (``memory_cap=None`` for none).

        Raises:
            Refused: what is on the board keeps more than the new cap.
        """
        changes: Mapping[str, Any] = {"costs": costs or self.board.costs, "link": link or self.board.link, **memory_cap}
        board = replace(self.board, **changes)
        for violation in board.wrong:
            raise Refused(violation)
        self._enter(Entry(board, self.entry.key), "costs")

    def split(self, whether: bool) -> None:
        """Backwards in two parts, or whole: those on the board, as far as both parts stand side by side, and those to come."""
        board, one = self.board, (split_backward if whether else merge_backward)(self.schedule)
        if board.kinds == FORWARD:
            raise ValueError("there is no backward in a forward-only schedule; choose another one")
        same = order(one) == order(self.schedule)
        changed = replace(board, kinds=SPLIT if whether else WHOLE, schedule=replace(one, name="") if same else self.schedule)
        if changed != board:
            self._enter(Entry(changed))

    # -- making --------------------------------------------------------------------------------------------------

    def _enter(self, entry: Entry, what: str = "") -> None:
        """A new state; of several changes of size or of costs in a row, as a slider makes them, the last one only."""
        if what and what == self._last:
            self._past.pop()
        self._past.append(entry)
        self._future.clear()
        self._last = what

    def _chosen(self, key: str, size: Board) -> Entry:
        if key not in SCHEDULES:
            raise ValueError(f"there is no schedule {key!r}; there are {', '.join(SCHEDULES)}")
        board = self._like(Board.of(known(key, size.schedule.num_ranks, size.schedule.num_microbatches)))
        for violation in board.wrong:
            raise Refused(violation)
        return Entry(board, key)

    def _like(self, board: Board) -> Board:
        """Under the present costs, link and cap."""
        return replace(board, costs=self.board.costs, link=self.board.link, memory_cap=self.board.memory_cap)

    @staticmethod
    def _emptied(board: Board) -> Board:
        return replace(board, schedule=replace(board.schedule, ranks=((),) * board.schedule.num_ranks, name=""))


def check_sizes(num_ranks: int, num_microbatches: int) -> None:
    """Refuse sizes that a picture can't show.

    Raises:
        ValueError: with the sizes that can be.

    Example:
        >>> check_sizes(17, 4)
        Traceback (most recent call last):
        ValueError: ranks=17: a studio has 1 to 16 ranks
    """
    for name, value in (("ranks", num_ranks), ("microbatches", num_microbatches)):
        if not 1 <= value <= LARGEST[name]:
            raise ValueError(f"{name}={value}: a studio has 1 to {LARGEST[name]} {name.replace('micro', 'micro-')}")
