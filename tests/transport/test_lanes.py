"""Exchanges that leave rows in a table are the same as messages one by one: results, events, times, and who stands still for whom."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
import torch
from torch import Tensor

from partkit.cluster import Cluster, Link
from partkit.collectives.all_reduce import all_reduce
from partkit.collectives.reducing import Op
from partkit.communicator import Communicator
from partkit.transport.simulated.lane import Lane
from partkit.transport.simulated.lanes import Lanes
from partkit.worlds.errors import RanksStuck
from partkit.worlds.simulated import SimulatedWorld

CLUSTER = Cluster(link=Link(latency=1.0, bandwidth=4))


def by_hand(comm: Communicator, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str) -> None:
    """What `sendrecv` stands for."""
    incoming, outgoing = comm.irecv(buffer, src, tag), comm.isend(x, dst, tag)
    incoming.wait()
    outgoing.wait()


def rounds(comm: Communicator, seed: int, ways: Sequence[str], one_tag: bool, asking: float = 0.0) -> list[float]:
    """In each round everybody sends to somebody; each rank by ``sendrecv``, by hand, or now so and now so. Some ask for the time."""
    shared, own, choice, found = Random(seed), Random(seed + 17 * comm.rank), Random(seed + 5 * comm.rank), []
    x = torch.arange(3.0) + comm.rank
    with comm.collective("rounds", x, "test"):
        for step in range(12):
            to = list(range(comm.size))
            shared.shuffle(to)
            numel, tag = shared.choice([0, 1, 2]), "same" if one_tag else f"{step}"
            if own.random() < 0.2:
                comm.compute("busy", seconds=own.choice([0.5, 1.25]))
            if own.random() < asking:
                found.append(comm.now())
            buffer, dst, src = torch.empty(3)[:numel], to[comm.rank], to.index(comm.rank)
            way = ways[comm.rank % len(ways)]
            if way == "hand" or (way == "both" and choice.random() < 0.3):
                by_hand(comm, x[:numel], dst, buffer, src, tag)
            else:
                comm.sendrecv(x[:numel], dst, buffer, src, tag)
            x[:numel] += buffer
            found.append(float(x.sum()))
    return found


@pytest.mark.parametrize("one_tag", [False, True])
@pytest.mark.parametrize("ways", [("lane",), ("both",), ("lane", "hand"), ("hand", "lane", "lane")], ids="-".join)
def test_all_ways_are_the_same(ways: Sequence[str], one_tag: bool) -> None:
    for seed in range(10):
        for size in (2, 3, 5):
            world, asking = SimulatedWorld(size, CLUSTER), 0.3 * (seed % 2)
            right = list(world.run(rounds, seed, ("hand",), one_tag, asking))
            events = list(world.trace.events)
            assert list(world.run(rounds, seed, ways, one_tag, asking)) == right
            assert [event._replace(site="") for event in world.trace.events] == [event._replace(site="") for event in events]


def count(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    """What a method returns, call by call."""
    found: list[object] = []
    plain: Callable[..., object] = getattr(owner, name)

    def counted(*args: object) -> object:
        found.append(plain(*args))
        return found[-1]

    monkeypatch.setattr(owner, name, counted)
    return found


def test_a_ring_is_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    done, one_by_one = count(monkeypatch, Lane, "exchange"), count(monkeypatch, Lanes, "one_by_one")
    SimulatedWorld(9).run(lambda comm: all_reduce(torch.ones(comm.size), comm, algorithm="ring"))
    assert len(done) == 9 * 16 and False not in done and one_by_one == []


def test_ranks_that_differ_have_their_rows_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    expanded = count(monkeypatch, Lanes, "expand")
    SimulatedWorld(3, CLUSTER).run(rounds, 3, ("lane", "hand"), False)
    assert expanded


def test_a_ring_of_many_calls_takes_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    from partkit.transport.simulated.turns import Turns

    given = count(monkeypatch, Turns, "give")

    def calls(comm: Communicator) -> None:
        for _ in range(5):
            all_reduce(torch.ones(comm.size), comm, algorithm="ring")

    SimulatedWorld(16).run(calls)
    assert len(given) < 5 * 16 * 5


@pytest.mark.parametrize("wrong", ["tag", "numel", "dtype"])
def test_exchanges_that_never_meet_are_told(wrong: str) -> None:
    def never(comm: Communicator) -> None:
        odd = comm.rank == 1
        x = torch.ones(3 if odd and wrong == "numel" else 2, dtype=torch.float64 if odd and wrong == "dtype" else torch.float32)
        with comm.collective("swap", torch.ones(2), "test"):
            comm.sendrecv(x, 1 - comm.rank, torch.empty_like(x), 1 - comm.rank, "other" if odd and wrong == "tag" else "t")

    with pytest.raises(RanksStuck, match="rank 0") as stuck:
        SimulatedWorld(2).run(never)
    assert "recv" in str(stuck.value)


def test_a_send_of_an_exchange_that_nobody_takes_is_told() -> None:
    """Rank 1 sends to rank 2, who takes nothing: it can't leave."""

    def two_senders(comm: Communicator) -> None:
        x = torch.ones(2)
        with comm.collective("swap", x, "test"):
            if comm.rank < 2:
                comm.sendrecv(x, 1 - comm.rank, torch.empty(2), 1 - comm.rank, "a")
                comm.sendrecv(x, (comm.rank + 1) % 3, torch.empty(2), 1 - comm.rank, "c") if comm.rank == 1 else comm.isend(x, 1, "c").wait()

    with pytest.raises(RanksStuck, match=r"send float32\[2\] to rank 2"):
        SimulatedWorld(3).run(two_senders)


def test_conditions_of_a_cluster_are_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from partkit.cluster import Jitter

    done = count(monkeypatch, Lane, "exchange")
    SimulatedWorld(3, Cluster(conditions=(Jitter(0.1, seed=2),))).run(lambda comm: all_reduce(torch.ones(3), comm, algorithm="ring"))
    assert done == []


def test_a_run_that_would_fill_the_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partkit.worlds.simulated_run.room_for_exchanges", lambda traced: 100)
    world = SimulatedWorld(16)
    with pytest.raises(MemoryError, match=r"exchanges so far on 16 simulated ranks.*COSTS"):
        world.run(lambda comm: all_reduce(torch.ones(comm.size), comm, algorithm="ring"))
    assert list(world.run(lambda comm: comm.rank)) == list(range(16))


@pytest.mark.parametrize("op", ["sum", "product", "max"])
@pytest.mark.parametrize("algorithm", ["ring", "recursive_doubling", "halving_doubling", "double_tree"])
def test_shapes_take_the_same_times_as_numbers(op: Op, algorithm: str) -> None:
    worlds = [SimulatedWorld(6, CLUSTER, numbers) for numbers in (True, False)]
    for world in worlds:
        assert [x.shape for x in world.run(lambda comm: all_reduce(torch.ones(9), comm, op, algorithm))] == [(9,)] * 6
    assert list(worlds[0].trace.events) == list(worlds[1].trace.events)


def test_random_numbers_are_a_rank_s_own_between_turns() -> None:
    def draws(comm: Communicator) -> list[float]:
        found = []
        for step in range(4):
            found += [random.random(), random.gauss(0, 1), float(np.random.rand()), float(torch.rand(1))]
            comm.sendrecv(torch.ones(1), (comm.rank + 1) % comm.size, torch.empty(1), (comm.rank - 1) % comm.size, f"{step}")
        return found

    generator, drawn = torch.Generator().manual_seed(0), [list(found) for found in SimulatedWorld(3).run(draws)]
    from_torch = [float(torch.rand(1, generator=generator)) for _ in range(4)]
    for rank, found in enumerate(drawn):
        own, numpy = Random(rank), np.random.RandomState(np.random.MT19937(rank))
        right = [number for number in from_torch for number in (own.random(), own.gauss(0, 1), float(numpy.rand()), number)]
        assert found == right
