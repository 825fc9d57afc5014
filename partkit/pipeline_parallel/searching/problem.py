"""What a search is asked: everything but the order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from partkit.cluster import Link
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.costs import UNIT, Costs
from partkit.pipeline_parallel.rules import needs
from partkit.pipeline_parallel.simulation import FREE


@dataclass(frozen=True)
class Problem:
    """Stages on ranks, micro-batches, costs, a cap of memory and a link.

    Args:
        placement: the rank of each stage; one pipeline.
        num_microbatches: m.
        costs: of actions, messages and memory.
        memory_cap: the most that a rank may keep at a time, in the unit of ``costs.memory``; None for no cap.
        link: between any two ranks.
        split: whether backwards may be split in I and W.

    Example:
        >>> problem = Problem((0, 1), 2)
        >>> problem.num_ranks, list(problem.actions)[:3]
        (2, [0F0, 0I0, 0W0])
    """

    placement: tuple[int, ...]
    num_microbatches: int
    costs: Costs = UNIT
    memory_cap: float | None = None
    link: Link = FREE
    split: bool = True

    def __post_init__(self) -> None:
        if sorted(set(self.placement)) != list(range(self.num_ranks)) or self.num_microbatches < 1:
            raise ValueError(f"Problem({self.placement}, {self.num_microbatches}): every rank from 0 on holds a stage, and there is at least 1 micro-batch")
        least = max(sum(self.memory[stage] for stage, rank in enumerate(self.placement) if rank == r) for r in range(self.num_ranks))
        if self.memory_cap is not None and self.memory_cap < least:
            raise ValueError(f"memory_cap={self.memory_cap}: one micro-batch alone keeps up to {least:g} on a rank, so nothing fits")

    @property
    def num_stages(self) -> int:
        """Stages of the pipeline."""
        return len(self.placement)

    @property
    def num_ranks(self) -> int:
        """Ranks that hold them."""
        return max(self.placement, default=-1) + 1

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is done to every micro-batch on every stage."""
        return ("F", "I", "W") if self.split else ("F", "B")

    @property
    def actions(self) -> Iterator[Action]:
        """Everything that is to be done."""
        kinds = [kind for kind in ("F", "B", "I", "W") if kind in self.kinds]
        return (Action(stage, kind, i) for i in range(self.num_microbatches) for stage in range(self.num_stages) for kind in kinds)

    @cached_property
    def seconds(self) -> dict[str, tuple[float, ...]]:
        """By kind and stage: how long it takes."""
        return {kind: self.costs.per_stage(kind, self.num_stages) for kind in self.kinds}

    @cached_property
    def memory(self) -> tuple[float, ...]:
        """By stage: what a forward begins to keep."""
        return self.costs.kept(self.num_stages)[0]

    @cached_property
    def change(self) -> dict[str, tuple[float, ...]]:
        """By kind and stage: by how much an action changes what its rank keeps."""
        memory, for_weights = self.costs.kept(self.num_stages)
        freed = tuple(later - all_of_it for later, all_of_it in zip(for_weights, memory, strict=True))
        return {"F": memory, "I": freed, "W": tuple(-part for part in for_weights), "B": tuple(-part for part in memory)}

    def travel(self, stage: int, kind: str) -> float:
        """How long what ``stage`` has made travels to the next stage (F), or to the one before (I, B); 0 within a rank."""
        other = stage + 1 if kind == "F" else stage - 1
        if self.placement[stage] == self.placement[other]:
            return 0.0
        return self.link.seconds(self.costs.message_bytes("F" if kind == "F" else "B", self.num_stages)[stage])

    def inputs(self, action: Action) -> Iterator[tuple[Action, float]]:
        """What ``action`` needs, as an action of this problem, with the time it travels."""
        for need in needs(action, self.num_stages):
            maker = need if self.split or need.kind == "F" else need._replace(kind="B")
            yield maker, 0.0 if need.stage == action.stage else self.travel(need.stage, need.kind)
