"""A schedule: for each rank, the list of its actions. A frozen value that prints, parses back, and travels as CSV.

    rank 0: 0F0 0F1 0B0 0F2 0B1 0B2           line = rank, left to right = order in which that rank works
    rank 1: 1F0 1B0 1F1 1B1 1F2 1B2

Nothing in it says *when*: an action starts as soon as its rank has come to it and what it needs is there
(`partkit.pipeline_parallel.rules`). Times come from costs, in `partkit.pipeline_parallel.simulation`.

Which rank a stage lies on is the schedule's `placement`:

    one a rank   0 1 2 3            GPipe, 1F1B, zero bubble
    looped       0 1 2 3 0 1 2 3    interleaved, breadth-first: rank r has stages r, r + p, ...
    V            0 1 2 3 3 2 1 0    ZB-V, DualPipe-V: the last stage comes back to the first rank
    two replicas 0 1 2 3 | 3 2 1 0  Chimera, DualPipe: two pipelines in opposite directions; stage p + s is stage s of the second

A replica works on a block of the micro-batches: of 8, replica 0 has 0 to 3 and replica 1 has 4 to 7.

The CSV is that of torch.distributed.pipelining (PyTorch 2.9 to 2.13, ``_dump_csv`` and ``_load_csv``): one row a rank, one
action a cell, an empty cell where its author wanted to show a pause. The order is all that counts, so pauses are dropped.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from partkit.partition import block_owner
from partkit.pipeline_parallel.action import MESSAGES, Action, actions, flat

_LINE = re.compile(r"rank (\d+):(.*)")


@dataclass(frozen=True)
class Schedule:
    """Which rank does what, in which order.

    Args:
        ranks: the actions of each rank.
        placement: the rank of each stage, replicas one after the other.
        num_microbatches: micro-batches in a step.
        replicas: pipelines that share the ranks, each with all stages.
        name: what it is called; two schedules are equal whatever their names.

    Example:
        >>> schedule = Schedule.parse('''
        ...     rank 0: 0F0 0F1 0B0 0B1
        ...     rank 1: 1F0 1B0 1F1 1B1
        ... ''')
        >>> schedule.num_stages, schedule.num_microbatches, schedule.placement
        (2, 2, (0, 1))
        >>> Schedule.parse(str(schedule)) == schedule
        True
    """

    ranks: tuple[tuple[Action, ...], ...]
    placement: tuple[int, ...]
    num_microbatches: int
    replicas: int = 1
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.ranks or not self.placement or self.num_microbatches < 1 or self.replicas < 1:
            raise ValueError("a schedule has at least one rank, one stage, one micro-batch and one replica")
        if len(self.placement) % self.replicas:
            raise ValueError(f"placement={self.placement}: {len(self.placement)} stages are not {self.replicas} replicas of one pipeline")
        if not all(0 <= rank < len(self.ranks) for rank in self.placement):
            raise ValueError(f"placement={self.placement}: the ranks of this schedule are 0 to {len(self.ranks) - 1}")

    @property
    def num_ranks(self) -> int:
        """Ranks that work together."""
        return len(self.ranks)

    @property
    def num_stages(self) -> int:
        """Stages in one replica of the pipeline: what `rules.needs` calls p."""
        return len(self.placement) // self.replicas

    @cached_property
    def lowered(self) -> bool:
        """Whether messages are written out as actions."""
        return any(action.kind in MESSAGES for line in self.ranks for action in line)

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """The stages that lie on ``rank``, in rising order."""
        return tuple(stage for stage, place in enumerate(self.placement) if place == rank)

    def replica_of(self, microbatch: int) -> int:
        """The replica that works on ``microbatch``."""
        return block_owner(self.num_microbatches, self.replicas, microbatch)

    def with_ranks(self, ranks: Iterable[Iterable[Action]]) -> Schedule:
        """The same stages and micro-batches with other lists of actions: what a pass returns."""
        return replace(self, ranks=tuple(tuple(line) for line in ranks))

    # -- as text -------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        head = [f"{self.replicas} replicas"] if self.replicas > 1 else []
        return "\n".join(head + [" ".join([f"rank {rank}:", *map(str, line)]) for rank, line in enumerate(self.ranks)])

    def __repr__(self) -> str:
        replicas = "" if self.replicas == 1 else f", {self.replicas} replicas"
        return f"<Schedule {self.name or 'without a name'}: {self.num_ranks} ranks, {self.num_stages} stages, {self.num_microbatches} micro-batches{replicas}>"

    @classmethod
    def parse(cls, text: str, **known: int | Sequence[int] | str) -> Schedule:
        """Read what ``str`` has written, or what a person types.

        Args:
            text: a line for each rank, in order.
            known: what the text can't say, as for `from_ranks`.

        Raises:
            ValueError: a line is none of a rank, ranks are out of order, or a word is no action.
        """
        lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
        if lines and (head := re.fullmatch(r"(\d+) replicas", lines[0])):
            lines, known = lines[1:], {"replicas": int(head[1]), **known}
        found = []
        for rank, line in enumerate(lines):
            match = _LINE.fullmatch(line)
            if match is None or int(match[1]) != rank:
                raise ValueError(f"line {rank + 1} of the schedule is {line!r}; it should begin with 'rank {rank}:'")
            found.append(actions(match[2]))
        return cls.from_ranks(found, **known)

    @classmethod
    def from_ranks(cls, ranks: Iterable[Iterable[Action]], **known: int | Sequence[int] | str) -> Schedule:
        """A schedule of lists of actions; the rest is read off them, unless it is ``known``.

        Args:
            ranks: the actions of each rank.
            known: ``placement``, ``num_microbatches``, ``replicas`` or ``name``. Without them a stage lies where its first
                action is, and the largest micro-batch that occurs is the last.

        Example:
            >>> from partkit.pipeline_parallel.action import actions
            >>> Schedule.from_ranks([actions("0F0 1F0 1B0 0B0")], name="serial")
            <Schedule serial: 1 ranks, 2 stages, 1 micro-batches>
        """
        lines = tuple(tuple(line) for line in ranks)
        every = [(rank, action) for rank, line in enumerate(lines) for action in flat(line)]
        place: dict[int, int] = {}
        for rank, action in every:
            place.setdefault(action.stage, rank)
        inferred = {
            "placement": tuple(place.get(stage, 0) for stage in range(max(place, default=0) + 1)),
            "num_microbatches": 1 + max((action.microbatch or 0 for _, action in every), default=0),
        }
        return cls(lines, **{**inferred, **known})  # type: ignore[arg-type]  # names and kinds of `known` are those of the fields

    # -- as the CSV of torch.distributed.pipelining ----------------------------------------------------------------

    def to_csv(self, path: str | Path) -> Path:
        """Write the file that torch's schedule runtime loads: ``compute_only``, or ``compute_comms`` if lowered."""
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(self.ranks)
        return Path(path)

    @classmethod
    def from_csv(cls, path: str | Path, **known: int | Sequence[int] | str) -> Schedule:
        """Read a file that torch's schedules, or `to_csv`, have written.

        Args:
            path: the file.
            known: as for `from_ranks`.
        """
        with open(path, newline="") as file:
            return cls.from_ranks([[Action.parse(cell) for cell in row if cell.strip()] for row in csv.reader(file)], **known)
