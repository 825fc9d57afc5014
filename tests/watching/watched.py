"""Run a function under watch on live ranks, and what its torch.distributed did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import partkit as pk
from partkit.tracing import Event
from partkit.worlds.world import World

LiveWorld = Callable[[int], World]


def watched(world: World, fn: Callable[..., Any], rank: int | None = 0) -> list[Event]:
    """What a rank's torch.distributed (all ranks': None) did while ``fn(comm)`` ran under watch, in the order of start."""

    def run(comm: Any) -> None:
        with pk.watch():
            fn(comm)

    world.run(run)
    return [event for event in world.trace.events if rank in (None, event.rank) and event.tag.startswith("dist.")]


def names_and_bytes(events: list[Event]) -> list[tuple[str, int]]:
    """``("all_reduce", 24)`` of each."""
    return [(event.tag.removeprefix("dist."), event.nbytes) for event in events]
