"""Random programs of messages: valid ones give the same on live and simulated ranks, invalid ones are explained, never hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import partkit as pk
from partkit.cluster import Cluster, Link
from partkit.communicator import Communicator
from partkit.tracing import Trace
from partkit.worlds.errors import RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

SIZE = 3
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
FEW = settings(QUICK, max_examples=12)


class Message(NamedTuple):
    """A message of a random program; all ranks go through the messages in the same order."""

    src: int
    dst: int
    numel: int
    tag: str
    overlapped: bool
    """Posted now, waited for at the end."""


messages = st.lists(
    st.builds(Message, st.integers(0, SIZE - 1), st.integers(0, SIZE - 1), st.integers(0, 5), st.sampled_from("ab"), st.booleans()).filter(
        lambda m: m.src != m.dst
    ),
    max_size=12,
)


def play(comm: Communicator, program: list[Message], skipped: int = -1) -> list[list[float]]:
    """Do this rank's part; ``skipped`` is a message whose receiver forgets it."""
    pending, buffers = [], []
    for number, message in enumerate(program):
        if comm.rank == message.src:
            sent = torch.full((message.numel,), 100.0 * number + comm.rank)
            (pending.append if message.overlapped else Waiting)(comm.isend(sent, message.dst, message.tag))
        if comm.rank == message.dst and number != skipped:
            buffers.append(torch.full((message.numel,), -1.0))
            (pending.append if message.overlapped else Waiting)(comm.irecv(buffers[-1], message.src, message.tag))
    for waiting in reversed(pending):
        waiting.wait()
    total = pk.all_reduce(torch.tensor([float(len(buffers))]), comm, algorithm="naive")
    return [*(buffer.tolist() for buffer in buffers), total.tolist()]


def Waiting(pending: Any) -> None:
    pending.wait()


def messages_of(trace: Trace) -> list[tuple[Any, ...]]:
    return sorted((m.send.rank, m.recv.rank, m.send.tag, m.send.seq, m.send.nbytes) for m in trace.messages())


@pytest.mark.live
@FEW
@given(messages)
def test_a_valid_program_gives_the_same_live_and_simulated(live_world: Callable[[int], World], program: list[Message]) -> None:
    live, simulated = live_world(SIZE), SimulatedWorld(SIZE)
    assert list(live.run(play, program)) == list(simulated.run(play, program))
    assert messages_of(live.trace) == messages_of(simulated.trace)


@QUICK
@given(messages, st.data())
def test_a_program_with_a_forgotten_receive_is_explained(program: list[Message], data: st.DataObject) -> None:
    if not program:
        return
    skipped = data.draw(st.integers(0, len(program) - 1))
    alone = program[: skipped + 1]  # so that no later message of the same kind takes its place
    with SimulatedWorld(SIZE) as world, pytest.raises(RanksStuck) as caught:
        world.run(play, alone, skipped)
    assert alone[skipped].src in caught.value.ranks or alone[skipped].dst in caught.value.ranks


@QUICK
@given(messages, st.floats(0, 1e-3), st.floats(1e3, 1e9))
def test_time_obeys_the_one_port_model(program: list[Message], latency: float, bandwidth: float) -> None:
    """No port carries two messages at once, none ends before it could, and a replay agrees to the last bit."""
    cluster = Cluster(link=Link(latency, bandwidth))
    with SimulatedWorld(SIZE, cluster) as world:
        world.run(play, program)
    trace = world.trace
    took = {m: cluster.link.seconds(m.send.nbytes) for m in trace.messages()}
    for rank in range(SIZE):
        for mine in ([m for m in took if m.send.rank == rank], [m for m in took if m.recv.rank == rank]):
            ends = sorted((max(m.send.start, m.recv.start) + took[m]) for m in mine)
            assert all(m.send.end >= max(m.send.start, m.recv.start) + took[m] - 1e-12 for m in mine)
            assert not ends or max(m.send.end for m in mine) >= sum(took[m] for m in mine) - 1e-12
    again = trace.replay(cluster)
    assert (again.columns["end"] == trace.columns["end"]).all() and (again.columns["start"] == trace.columns["start"]).all()


def train(comm: Communicator) -> list[torch.Tensor]:
    """Three steps of data-parallel training in float32; overlapped buckets, communication inside backward."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    parallel, optimizer = pk.DataParallel(model, comm), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(10 + comm.rank)
    for _ in range(3):
        optimizer.zero_grad()
        parallel.backward(torch.nn.functional.mse_loss(parallel(torch.randn(4, 6)), torch.randn(4, 3)), count=4)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.live
def test_training_gives_the_same_bits_live_and_simulated(world4: World) -> None:
    simulated = SimulatedWorld(4)
    for live, other in zip(world4.run(train), simulated.run(train), strict=True):
        assert all(a.equal(b) for a, b in zip(live, other, strict=True))
    assert messages_of(world4.trace) == messages_of(simulated.trace)
