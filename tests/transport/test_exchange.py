"""A send and a receive at once: what arrives, and what is combined with it, on both wires, in one piece and in segments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from partkit.communicator import Communicator
from partkit.transport.process_group import SEGMENT
from partkit.worlds.errors import RankError
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

LONG = SEGMENT // 8 * 2 + 3
"""Elements of float64 that travel in three segments."""


def exchanged(comm: Communicator, numel: int, *, inside: bool) -> list[str]:
    """What is wrong, by way of combining: subtraction tells which of two tensors came first."""
    mine, theirs = (torch.arange(numel, dtype=torch.float64) + 10 * rank for rank in (comm.rank, 1 - comm.rank))
    peer, own, buffer = 1 - comm.rank, torch.full((numel,), 0.5, dtype=torch.float64), torch.full((numel,), 7.0, dtype=torch.float64)
    sub = Tensor.sub_
    calls: dict[str, tuple[Callable[[], Tensor], Tensor]] = {
        "plain": (lambda: comm.sendrecv(mine, peer, buffer.clone(), peer, "a"), theirs),
        "in place": (lambda: comm.sendrecv(mine, peer, buffer.clone(), peer, "b", sub), buffer - theirs),
        "own": (lambda: comm.sendrecv(mine, peer, buffer.clone(), peer, "c", sub, own), theirs - own),
        "own in columns": (lambda: comm.sendrecv(mine, peer, buffer.clone(), peer, "d", sub, torch.stack([own, mine], 1)[:, 0]), theirs - own),
    }
    if not inside:
        return [name for name, (call, right) in calls.items() if not torch.equal(call(), right)]
    with comm.collective("exchange", mine, "all ways"):
        return [name for name, (call, right) in calls.items() if not torch.equal(call(), right)]


@pytest.mark.live
@pytest.mark.parametrize("inside", [True, False])
def test_live_ranks_combine_what_arrives(live_world: Callable[[int], World], inside: bool) -> None:
    for numel in (0, 1, 5, LONG):
        assert list(live_world(2).run(exchanged, numel, inside=inside)) == [[], []]


@pytest.mark.parametrize("inside", [True, False])
def test_simulated_ranks_combine_what_arrives(inside: bool) -> None:
    for numel in (0, 1, 5):
        assert list(SimulatedWorld(2).run(exchanged, numel, inside=inside)) == [[], []]


@pytest.mark.live
def test_the_two_messages_are_in_the_trace(live_world: Callable[[int], World]) -> None:
    def twice(comm: Communicator) -> None:
        x = torch.ones(3)
        with comm.collective("swap", x, "twice"):
            for _ in range(2):
                comm.sendrecv(x, 1 - comm.rank, torch.empty(3), 1 - comm.rank, "t")

    world = live_world(2)
    world.run(twice)
    events = [e for e in world.trace.events if e.rank == 0 and e.kind in ("send", "recv")]
    assert sorted((e.kind, e.peer, e.nbytes, e.tag, e.seq, e.span) for e in events) == [
        (kind, 1, 12, "t", seq, "swap") for kind in ("recv", "send") for seq in (0, 1)
    ]
    assert all(e.start <= e.end and "test_exchange.py" in e.site for e in events)


def test_own_needs_a_way_of_combining() -> None:
    x = torch.ones(1)
    with pytest.raises(RankError, match=r"sendrecv\(own=...\): say how it is combined"):
        SimulatedWorld(2).run(lambda comm: comm.sendrecv(x, 1 - comm.rank, torch.empty(1), 1 - comm.rank, own=x))
