"""A send and a receive at once: what arrives, and what is combined with it, on both wires, in one piece and in segments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from partkit.cluster import Cluster, Link
from partkit.communicator import Communicator, Exchange
from partkit.transport.process_group import SEGMENT
from partkit.worlds.errors import RankError, RanksStuck
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


def swapped_with_all(comm: Communicator, *, inside: bool, columns: bool = False) -> list[float]:
    """Everybody's number by one call; ``columns``: what is sent is no block of memory, so that the messages must be posted one by one."""
    mine = torch.full((5, 2), 10.0 * comm.rank)[:, 0] if columns else torch.full((5,), 10.0 * comm.rank)
    inboxes = [torch.full((5,), -1.0) for _ in range(comm.size)]
    places = [(step, (comm.rank + step) % comm.size, (comm.rank - step) % comm.size) for step in range(comm.size)]
    exchanges = [Exchange(mine, dst, inboxes[src], src, f"step {step}") for step, dst, src in places if step or columns]  # also with itself
    with comm.collective("swap", mine, "with all") if inside else nullcontext():
        comm.sendrecv_all(exchanges)
        comm.sendrecv_all([])
    return [inbox.mean().item() for inbox in inboxes]


@pytest.mark.live
def test_live_ranks_have_exchanges_with_all_under_way_at_once(live_world: Callable[[int], World]) -> None:
    world = live_world(3)
    assert list(world.run(swapped_with_all, inside=True)) == [[-1, 10, 20], [0, -1, 20], [0, 10, -1]]
    for rank in range(3):
        messages = [e for e in world.trace.events if e.rank == rank and e.kind in ("send", "recv")]
        assert sorted((e.kind, e.peer, e.nbytes, e.span) for e in messages) == [
            (kind, peer, 20, "swap") for kind in ("recv", "send") for peer in range(3) if peer != rank
        ]
        assert len({e.start for e in messages}) == 1  # one by one, the second would begin when the first is done
    assert list(world.run(swapped_with_all, inside=False)) == [[-1, 10, 20], [0, -1, 20], [0, 10, -1]]
    assert list(world.run(swapped_with_all, inside=True, columns=True)) == [[0, 10, 20]] * 3


@pytest.mark.parametrize("inside", [True, False])
def test_simulated_ranks_exchange_with_one_after_the_other(inside: bool) -> None:
    world = SimulatedWorld(3, Cluster(link=Link(latency=1.0, bandwidth=20.0)))
    assert list(world.run(swapped_with_all, inside=inside)) == [[-1, 10, 20], [0, -1, 20], [0, 10, -1]]
    assert world.trace.makespan == 4.0  # two messages of 20 bytes, one port


@pytest.mark.live
def test_who_waits_for_one_of_many_names_it_and_what_else_is_under_way(live_world: Callable[[int], World]) -> None:
    def differ(comm: Communicator) -> None:
        x, inboxes = torch.ones(4), torch.empty(3, 4)
        with comm.collective("swap", x, "with all"):
            places = [((comm.rank + step) % 3, (comm.rank - step) % 3) for step in (1, 2)]
            comm.sendrecv_all([Exchange(x, dst, inboxes[src], src, "other" if comm.rank == 2 else "same") for dst, src in places])

    with pytest.raises(RanksStuck) as caught:
        live_world(3).run(differ)
    assert caught.value.diagnosis is not None
    first, second = caught.value.diagnosis.states[:2]
    assert first.blocked_on is not None and (first.blocked_on.op, first.blocked_on.peer) == ("recv", 2)
    assert second.blocked_on is not None and second.blocked_on.peer == 2
    assert {(operation.op, operation.peer) for operation in first.posted} >= {("recv", 2), ("send", 2)}
