"""What one rank is doing: running, finished, or blocked in which message of which collective. Values, made by ranks, read by people.

    RankState     rank 2, blocked
      blocked_on  Operation   recv float32[2] from rank 1 with tag 'reduce-scatter 1' at train.py:12
      call        Call        all_reduce #3 of float32[8], sum, ring at train.py:12
      calls       the collectives before, and this one

`partkit.diagnosis` says from all ranks' states why nothing moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Status = Literal["running", "blocked", "finished"]
Slot = tuple[str, tuple[int, ...], int]
"""Which call of which group it is: its name, its ranks, the number of the call."""


class Call(NamedTuple):
    """A collective that a rank is inside of."""

    name: str
    """``all_reduce``."""
    what: str
    """What must agree between ranks: ``float32[4], sum, ring``."""
    number: int
    """n-th collective of this group on this rank, from 0."""
    group: tuple[int, ...]
    """World ranks of the group."""
    site: str
    """Source line of the call."""
    group_name: str = ""
    """Name of the group; empty for the world."""

    @property
    def slot(self) -> Slot:
        """Which call it is: every rank of the group must make the same one here."""
        return self.group_name, self.group, self.number

    def same_as(self, other: Call) -> bool:
        """Whether the two calls can be two sides of one collective."""
        return self[:4] == other[:4] and self.group_name == other.group_name

    def among(self, ranks: str) -> str:
        """The call in words, with its ranks where they need to be told."""
        return f"{self.name} #{self.number + 1} of {self.what}" + (f" among {ranks}" if ranks else "") + (f" at {self.site}" if self.site else "")

    def __str__(self) -> str:
        return self.among("")


class Due(NamedTuple):
    """A differentiable movement of data (`partkit.functional`): its forward has run, and its backward needs all ranks again."""

    name: str
    """``all_gather``."""
    number: int
    """n-th movement of this name in this group on this rank, from 0."""
    group: tuple[int, ...]
    """World ranks that take part."""
    site: str
    """Source line of the forward."""

    def same_as(self, other: Due | None) -> bool:
        """Whether the two can be two sides of one movement."""
        return other is not None and self[:3] == other[:3]

    def __str__(self) -> str:
        return f"{self.name} #{self.number + 1}" + (f" (at {self.site})" if self.site else "")


class Operation(NamedTuple):
    """A message that a rank has posted and that has not met its other side."""

    op: Literal["send", "recv"]
    peer: int
    tag: str
    what: str
    """dtype and shape: ``float32[4]``."""
    site: str
    wire: str = ""
    """What must be equal on both sides for them to meet."""
    number: int = 0
    """Messages that are alike meet in the order in which they were posted: its place among them."""

    def meets(self, rank: int, other: Operation, other_rank: int) -> bool:
        """Whether the two, posted by these ranks, are the two sides of one message."""
        sides = self.op != other.op and self.peer == other_rank and other.peer == rank
        return sides and (self.wire, self.number) == (other.wire, other.number)

    def __str__(self) -> str:
        where = "to" if self.op == "send" else "from"
        tag = f" with tag {self.tag!r}" if self.tag else ""
        return f"{self.op} {self.what} {where} rank {self.peer}{tag}" + (f" at {self.site}" if self.site else "")


class RankState(NamedTuple):
    """What one rank is doing."""

    rank: int
    status: Status
    blocked_on: Operation | None = None
    posted: tuple[Operation, ...] = ()
    """Everything posted and not done, the operation it is blocked on included."""
    call: Call | None = None
    """The collective it is inside of."""
    num_calls: int = 0
    """Collectives it has entered so far."""
    progress: int = 0
    """Grows with every operation; equal in two looks means that nothing happened between them."""
    backward_of: Due | None = None
    """The movement whose backward it is in."""
    due: tuple[Due, ...] = ()
    """Movements whose backward it has not run."""
    calls: tuple[Call, ...] = ()
    """The collectives that it has entered last, oldest first."""
    awake: bool = False
    """Whether it has something to do although it waits: a message may have arrived, and no core is free to take it."""


def name_ranks(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-3``, ``ranks 0, 2``, ``ranks 0-2, 5``."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    names = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(names)
