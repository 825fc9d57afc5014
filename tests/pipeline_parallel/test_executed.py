"""What is simulated on paper is what simulated ranks do: the lists, obeyed literally, take the same time to the last bit."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import partkit as pk
from partkit.pipeline_parallel import SCHEDULES, Costs, Schedule, add_communication, make, simulate
from partkit.pipeline_parallel.rehearse import rehearse
from partkit.pipeline_parallel.rules import receiver, sender
from tests.pipeline_parallel.sizes import quickly

BYTES = 80


def obey(comm: pk.Communicator, schedule: Schedule, costs: Costs) -> None:
    """One rank's list: SEND and RECV are posted, a computation waits for what it needs and then takes its time."""
    arriving: dict[tuple[int, str, int | None], Any] = {}
    sent = []
    for action in schedule.ranks[comm.rank]:
        if action.kind in ("SEND_F", "SEND_B"):
            to = schedule.placement[receiver(action).stage]
            sent.append(comm.isend(torch.zeros(BYTES, dtype=torch.uint8), to, tag=str(action)))
        elif action.kind in ("RECV_F", "RECV_B"):
            source = sender(action)
            buffer = torch.empty(BYTES, dtype=torch.uint8)
            arriving[action.stage, action.kind[-1], action.microbatch] = comm.irecv(buffer, schedule.placement[source.stage], tag=str(source))
        else:
            direction = {"F": "F", "B": "B", "I": "B"}.get(action.kind, "")
            if (message := arriving.get((action.stage, direction, action.microbatch))) is not None:
                message.wait()
            comm.compute(str(action), seconds=costs.seconds(action, schedule.num_stages))
    for message in sent:
        message.wait()


def computations(trace: pk.Trace) -> list[tuple[int, str, float, float]]:
    return sorted((event.rank, event.tag, event.start, event.end) for event in trace.events if event.kind == "compute" and event.end > event.start)


@pytest.mark.parametrize("link", [pk.Link(0.05, 1e3), pk.Link(0.7, 100.0)], ids=["fast", "slow"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_simulated_ranks_take_the_same_time(name: str, link: pk.Link) -> None:
    schedule = add_communication(make(name, 4, 8))
    costs = Costs(forward=1.1, backward_input=1.3, backward_weight=0.7, step=0.2, activation_bytes=BYTES, gradient_bytes=BYTES)
    with pk.SimulatedWorld(4, pk.Cluster(link=link)) as world:
        world.run(obey, schedule, costs)
        assert computations(world.trace) == computations(simulate(schedule, costs, link))
        assert world.trace.bytes_sent() == simulate(schedule, costs, link).bytes_sent()


@given(name=st.sampled_from(SCHEDULES), p=st.integers(1, 4), m=st.integers(1, 8), seed=st.integers(0, 10**6), latency=st.sampled_from([0.0, 0.03, 1.7]))
@quickly
def test_random_costs_and_links(name: str, p: int, m: int, seed: int, latency: float) -> None:
    """Of each stage its own; a world that is obeyed by `rehearse`, as the studio does."""
    try:
        schedule = make(name, p, m)
    except ValueError:
        assume(False)
    draw = random.Random(seed)
    forward, inputs, weights = ([draw.uniform(0, 3) for _ in range(schedule.num_stages)] for _ in range(3))
    sizes = [[draw.randrange(1, 200) for _ in range(schedule.num_stages)] for _ in range(2)]
    costs = Costs(forward, inputs, weights, step=draw.random(), activation_bytes=sizes[0], gradient_bytes=sizes[1])
    link = pk.Link(latency, draw.choice([float("inf"), draw.uniform(10, 1000)]))
    with pk.SimulatedWorld(p, pk.Cluster(link=link)) as world:
        world.run(rehearse, add_communication(schedule), costs)
        assert computations(world.trace) == computations(simulate(schedule, costs, link))
        assert world.trace.bytes_sent() == simulate(schedule, costs, link).bytes_sent()
