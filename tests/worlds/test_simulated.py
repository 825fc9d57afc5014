"""Simulated ranks: the same function, the same numbers, exact time."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import partkit as pk
from partkit.cluster import COSTS, LAPTOP_CORE, Death, Torus
from partkit.communicator import Communicator
from partkit.testing import check_transport
from partkit.worlds.errors import RankDied, RankError, RanksStuck
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


# -- what depends on time --------------------------------------------------------------------------------------------


def gather_as_they_come(comm: Communicator) -> list[tuple[int, float]]:
    """Rank 0 takes two messages from each of the others, in the order in which they are sent."""
    got = []
    if comm.rank == 0:
        for _ in range(2 * (comm.size - 1)):
            buffer = torch.empty(1)
            pending = comm.irecv(buffer, None, "result")
            pending.wait()
            got.append((pending.peer, buffer.item()))
    else:
        for turn in range(2):
            comm.compute("work", seconds=0.1 * (comm.size - comm.rank))
            comm.send(torch.tensor([float(turn)]), 0, "result")
    return got


def test_a_receive_from_anybody_takes_what_is_sent_first() -> None:
    with SimulatedWorld(4) as world:
        first = world.run(gather_as_they_come)[0]
        prints = fingerprint(world.trace)
        assert first == [(3, 0.0), (2, 0.0), (3, 1.0), (1, 0.0), (2, 1.0), (1, 1.0)]
        assert all(world.trace.messages()[i].send.end <= world.trace.messages()[i + 1].send.end for i in range(5))
        assert world.run(gather_as_they_come)[0] == first and fingerprint(world.trace) == prints


def test_of_sends_that_wait_the_one_that_has_waited_longest_is_taken_first() -> None:
    def late(comm: Communicator) -> list[int]:
        if comm.rank:
            comm.compute("work", seconds=1.0 / comm.rank)
            comm.send(torch.ones(1), 0)
            return []
        comm.compute("late", seconds=5.0)
        pending = [comm.irecv(torch.empty(1), None) for _ in range(comm.size - 1)]
        for message in pending:
            message.wait()
        return [message.peer for message in pending]

    with SimulatedWorld(4) as world:
        assert world.run(late)[0] == [3, 2, 1]


def test_a_named_receive_keeps_its_turn_behind_one_from_anybody() -> None:
    def ordered(comm: Communicator) -> list[float]:
        if comm.rank:
            for value in (1.0, 2.0):
                comm.send(torch.tensor([value]), 0)
            return []
        buffers = [torch.empty(1), torch.empty(1)]
        pending = [comm.irecv(buffers[0], None), comm.irecv(buffers[1], 1)]
        for message in reversed(pending):
            message.wait()
        return torch.cat(buffers).tolist()

    with SimulatedWorld(2) as world:
        assert world.run(ordered)[0] == [1.0, 2.0]


def test_case_H16_a_time_out_is_in_virtual_time() -> None:
    def late(comm: Communicator) -> list[object]:
        if comm.rank:
            comm.compute("late", seconds=5.0)
            comm.send(torch.ones(1), 0)
            return []
        seen: list[object] = []
        for timeout in (2.0, 4.0):
            try:
                seen.append(comm.recv(torch.empty(1), 1, timeout=timeout).item())
            except TimeoutError as refusal:
                seen += [str(refusal), comm.now()]
        return seen

    with SimulatedWorld(2) as world:
        assert world.run(late)[0] == ["rank 0: nothing from rank 1 in 2 s of virtual time", 2.0, 1.0]


@pytest.mark.live
def test_live_ranks_refuse_what_they_cannot_do(world4: pk.World) -> None:
    for arguments in ({"src": None}, {"src": 1, "timeout": 1.0}):
        with pytest.raises(RankError, match="SimulatedWorld has both"):
            world4.run(lambda comm, arguments=arguments: comm.rank == 0 and comm.recv(torch.empty(1), **arguments))


def test_a_rank_dies_in_the_middle_and_others_notice() -> None:
    def rounds(comm: Communicator) -> int:
        done = 0
        for _ in range(10):
            if comm.rank == 1:
                comm.compute("work", seconds=0.2)
                comm.send(torch.ones(1), 0)
            else:
                try:
                    comm.recv(torch.empty(1), 1, timeout=1.0)
                except TimeoutError:
                    break
            done += 1
        return done

    with SimulatedWorld(2, pk.Cluster(conditions=(Death(1, at=0.5),))) as world:
        results = world.run(rounds)
        assert results[0] == 2 and repr(results[1]) == "died at 0.5 s"
    with SimulatedWorld(2, pk.Cluster(conditions=(Death(1, at=0.5),))) as world:
        with pytest.raises(RankDied, match=r"rank 1 died at 0\.5 s, as the cluster's conditions say\n  rank 0 still waits in recv"):
            world.run(lambda comm: [comm.send(torch.ones(1), 0) if comm.rank else comm.recv(torch.empty(1), 1) for _ in range(10**4)])
        assert world.trace.makespan <= 0.5


def test_a_message_that_is_under_way_at_a_death_never_arrives() -> None:
    cluster = pk.Cluster(link=pk.Link(1.0, 1e9), conditions=(Death(0, at=0.5),))
    with SimulatedWorld(2, cluster) as world:
        results = world.run(lambda comm: comm.send(torch.ones(1), 1) if comm.rank == 0 else _gives_up(comm))
    assert repr(list(results)) == "[died at 0.5 s, 'gave up at 3.0']"


def _gives_up(comm: Communicator) -> str:
    try:
        comm.recv(torch.empty(1), 0, timeout=3.0)
    except TimeoutError:
        return f"gave up at {comm.now()}"
    return "got it"


# -- what a run leaves alone, and what it shows ----------------------------------------------------------------------


def test_each_rank_draws_its_own_random_numbers() -> None:
    def draw(comm: Communicator) -> tuple[list[float], float, float]:
        numbers = torch.rand(2)
        pk.barrier(comm)
        return [*numbers.tolist(), *torch.rand(1).tolist()], random.random(), float(np.random.rand())

    before = torch.get_rng_state(), random.getstate()
    with SimulatedWorld(3) as world:
        first, again = world.run(draw), world.run(draw)
    expected = torch.rand(6, generator=torch.Generator().manual_seed(0)).tolist()
    assert [r[0] for r in first] == [expected[:3]] * 3 and [r[0] for r in again] == [expected[3:]] * 3
    assert len({r[1] for r in first}) == len({r[2] for r in first}) == 3
    assert torch.get_rng_state().equal(before[0]) and random.getstate() == before[1]


def test_ranks_have_copies_of_their_own() -> None:
    shared = [0]

    def append(comm: Communicator, items: list[int]) -> list[int]:
        items.append(comm.rank)
        return items

    with SimulatedWorld(3) as world:
        assert list(world.run(append, shared)) == [[0, 0], [0, 1], [0, 2]] and shared == [0]


def test_what_ranks_print_is_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedWorld(2) as world:
        world.run(lambda comm: print("here", comm.rank))
    assert capsys.readouterr().out == "[0] here 0\n[1] here 1\n"


def test_modes_and_backward_stay_with_their_rank() -> None:
    """Rank 0 stands still inside no_grad, rank 1 inside backward; neither sees the other's."""

    class Shift(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, comm: Communicator) -> torch.Tensor:
            ctx.comm = comm
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
            comm = ctx.comm
            return comm.sendrecv(grad, (comm.rank + 1) % comm.size, torch.empty_like(grad), (comm.rank - 1) % comm.size, "in backward"), None

    def train(comm: Communicator) -> tuple[list[float], bool, bool]:
        x = torch.full((2,), float(comm.rank), requires_grad=True)
        torch.autograd.backward((Shift.apply(x, comm) * (comm.rank + 1)).sum())
        if comm.rank == 0:
            with torch.no_grad():
                comm.recv(torch.empty(1), 1, "mode")
                inside = torch.is_grad_enabled()
        else:
            inside = torch.is_grad_enabled()
            if comm.rank == 1:
                comm.send(torch.ones(1), 0, "mode")
        assert x.grad is not None
        return x.grad.tolist(), inside, torch.is_grad_enabled()

    with SimulatedWorld(3) as world:
        assert list(world.run(train)) == [([3.0, 3.0], False, True), ([1.0, 1.0], True, True), ([2.0, 2.0], True, True)]


def test_shapes_alone_go_a_long_way() -> None:
    def step(comm: Communicator, x: torch.Tensor) -> tuple[str, list[int]]:
        y = pk.all_reduce(torch.nn.Linear(8, 4)(x), comm, algorithm="ring")
        return y.device.type, list(y.shape)

    with SimulatedWorld(100, numbers=False) as world:
        assert set(map(repr, world.run(step, torch.ones(50, 8)))) == {"('meta', [50, 4])"}
        assert_costs(world.trace, COSTS["all_reduce"]["ring"](200, 4, 100, pk.Cluster().link))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SimulatedWorld(0), "give the number of ranks, at least 1"),
        (lambda: SimulatedWorld(True), "give the number of ranks, at least 1"),
        (lambda: SimulatedWorld(2, compute="guessed"), "compute is one of 'stated', 'counted'"),
        (lambda: SimulatedWorld(3, pk.Cluster((LAPTOP_CORE, LAPTOP_CORE))), "rank 2 has no device"),
        (lambda: SimulatedWorld(5, pk.Cluster(topology=Torus((2, 2), LINK))), "4 places, too few for 5 ranks"),
    ],
)
def test_a_world_that_can_not_be_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_no_world_inside_a_rank_and_none_after_close() -> None:
    with SimulatedWorld(1) as world, pytest.raises(RankError, match="called inside a rank"):
        world.run(lambda comm: SimulatedWorld(2))
    with pytest.raises(RuntimeError, match="this world is closed"):
        world.run(lambda comm: None)


def test_the_stop_button_ends_a_run() -> None:
    def endless(comm: Communicator) -> None:
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        comm.recv(torch.empty(1), 1)

    with SimulatedWorld(3) as world:
        with pytest.raises(KeyboardInterrupt):
            world.run(endless)
        assert list(world.run(lambda comm: comm.rank)) == [0, 1, 2]


def test_a_collective_that_not_all_reach_is_explained() -> None:
    with SimulatedWorld(3) as world, pytest.raises(RanksStuck, match="rank 1: finished after 0 collective calls, but others still wait for it"):
        world.run(lambda comm: comm.rank != 1 and pk.all_reduce(torch.ones(3), comm, algorithm="ring"))


def test_nothing_is_done_behind_a_collective_that_never_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """The root of a broadcast may run ahead of its sends, but not out of the collective."""

    def alone(comm: Communicator) -> None:
        if comm.rank == 0:
            pk.broadcast(torch.ones(3), comm, root=0)
            print("never")

    with SimulatedWorld(2) as world, pytest.raises(RanksStuck):
        world.run(alone)
    assert "never" not in capsys.readouterr().out
