"""Simulated ranks: the same function, the same numbers, exact time."""

from __future__ import annotations

import pytest
import torch

import partkit as pk
from partkit.cluster import COSTS
from partkit.communicator import Communicator
from partkit.testing import check_transport
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from tests.simulated import LINK, assert_costs, fingerprint, simulated


def test_simulated_ranks_keep_the_contract() -> None:
    check_transport(lambda size: SimulatedWorld(size))


@pytest.mark.parametrize("size", range(1, 18))
@pytest.mark.parametrize("algorithm", ["ring", "naive"])
def test_virtual_time_is_the_closed_form(algorithm: str, size: int) -> None:
    trace = simulated(size, lambda comm: pk.all_reduce(torch.ones(23), comm, algorithm=algorithm))  # type: ignore[arg-type]
    assert_costs(trace, COSTS["all_reduce"][algorithm](23, 4, size, LINK))


def test_two_runs_leave_the_same_trace() -> None:
    def step(comm: Communicator) -> None:
        comm.compute("forward", seconds=0.001 * comm.rank)
        pk.all_reduce(torch.ones(23), comm, algorithm="ring")

    assert fingerprint(simulated(5, step)) == fingerprint(simulated(5, step))


def test_the_time_is_known_while_the_run_goes_on() -> None:
    def when(comm: Communicator) -> float:
        comm.compute("work", seconds=1.0 + comm.rank)
        comm.sendrecv(torch.ones(1), 1 - comm.rank, torch.empty(1), 1 - comm.rank)
        return comm.now()

    with SimulatedWorld(2) as world:
        seconds = 2.0 + world.cluster.link.seconds(4)
        assert list(world.run(when)) == [seconds, seconds]


def test_a_rank_that_raises_is_named() -> None:
    def fail(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("boom")
        comm.recv(torch.empty(1), 1)

    with SimulatedWorld(3) as world, pytest.raises(RankError, match="rank 1: ValueError: boom") as caught:
        world.run(fail)
    assert caught.value.suffered == (0, 2)


def test_a_deadlock_is_explained() -> None:
    def head_to_head(comm: Communicator) -> None:
        comm.send(torch.ones(1), 1 - comm.rank)
        comm.recv(torch.empty(1), 1 - comm.rank)

    with SimulatedWorld(2) as world, pytest.raises(RanksStuck, match="each waits for the next, a cycle"):
        world.run(head_to_head)
