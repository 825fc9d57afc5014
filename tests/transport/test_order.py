"""What happens at one instant does not depend on the order in which the ranks' code was run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch

from partkit.cluster import Cluster, Link
from partkit.communicator import Communicator
from partkit.transport.simulated.simulation import Simulation
from partkit.worlds.simulated import SimulatedWorld

CLUSTER = Cluster(link=Link(latency=1.0, bandwidth=4))


def crowd(comm: Communicator) -> list[int]:
    """All send to rank 0 at the same instants: by name, then for whoever comes first; some ask for the time before."""
    x, others = torch.zeros(1), comm.size - 1
    if comm.rank:
        first = comm.isend(x, 0, "named")
        if comm.rank % 2:
            comm.now()
        second = comm.isend(x, 0, "any")
        first.wait()
        second.wait()
        return []
    named = [comm.irecv(torch.empty(1), src, "named") for src in (3, 1, 4, 2, 5)]
    found = []
    for _ in range(others):
        message = comm.irecv(torch.empty(1), None, "any")
        message.wait()
        found.append(message.peer)
    for message in named:
        message.wait()
    return found


def spread(comm: Communicator) -> None:
    """Rank 0 posts for 3, 1, 4, 2, 5; they are all there later, at one instant."""
    if comm.rank:
        comm.compute("busy", seconds=1.0)
        comm.recv(torch.empty(1), 0)
        return
    for message in [comm.isend(torch.zeros(1), dst) for dst in (3, 1, 4, 2, 5)]:
        message.wait()


@pytest.mark.parametrize("program", [crowd, spread])
def test_turns_of_ranks_are_not_seen_in_the_trace(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    world = SimulatedWorld(6, CLUSTER)
    results = list(world.run(program))
    events = list(world.trace.events)
    plain = Simulation.__init__

    for seed in range(12):

        def shuffled(self: Simulation, *args: Any, seed: int = seed) -> None:
            plain(self, *args)
            order = list(range(6))
            Random(seed).shuffle(order)
            self._ready = OrderedDict.fromkeys(order)

        monkeypatch.setattr(Simulation, "__init__", shuffled)
        assert list(world.run(program)) == results
        assert list(world.trace.events) == events


def test_messages_that_are_ready_at_one_instant_begin_by_sender_and_in_its_order() -> None:
    world = SimulatedWorld(6, CLUSTER)
    world.run(spread)
    ends = {event.peer: event.end for event in world.trace.events if event.kind == "send"}
    assert [ends[rank] for rank in (3, 1, 4, 2, 5)] == [3.0, 5.0, 7.0, 9.0, 11.0]
    assert world.run(crowd)[0] == [1, 2, 3, 4, 5]
    named = {event.peer: event.start for event in world.trace.events if event.kind == "recv" and event.tag == "named"}
    ends = {event.rank: event.end for event in world.trace.events if event.kind == "send" and event.tag == "named"}
    assert set(named) == set(ends) and sorted(ends, key=lambda rank: ends[rank]) == [1, 2, 3, 4, 5]
