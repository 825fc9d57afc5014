"""Idle time: for whom, how long, why; nothing is counted twice, and the parts make the whole."""

from __future__ import annotations

import pytest
import torch

import partkit as pk
from partkit.cluster import Cluster, Link
from partkit.communicator import Communicator
from partkit.pipeline_parallel import gpipe, one_f_one_b
from partkit.pipeline_parallel.measure import bubble_share
from partkit.pipeline_parallel.passes import add_communication
from partkit.pipeline_parallel.rehearse import rehearse
from partkit.tracing import Event, Trace
from partkit.tracing.idle import IdleTime
from partkit.worlds.simulated import SimulatedWorld

FREE = Cluster(link=Link(latency=0.0, bandwidth=float("inf")))


def test_late_and_travel_are_told_apart() -> None:
    """Rank 1 posts at 0, computes to 1, waits; rank 0 posts at 3; the message takes 1 s."""
    events = [Event(0, "compute", 0, 3, tag="forward"), Event(0, "send", 3, 4, peer=1), Event(1, "recv", 0, 4, peer=0), Event(1, "compute", 0, 1)]
    trace = Trace.from_events(events)
    trace.columns["waited"][trace.columns["kind"] == 1] = 1.0
    idle = IdleTime(trace)
    wait = idle.wait(int((trace.columns["kind"] == 1).argmax()))
    assert wait is not None and (wait.start, wait.end, wait.late, wait.travel, wait.because) == (1.0, 4.0, 2.0, 1.0, "computing 'forward'")
    assert [r[1:] for r in idle.ranks()] == [(3.0, 0.0, 1.0, 0.0, 0.0, 1), (1.0, 2.0, 1.0, 0.0, 0.0, 0)]


@pytest.mark.parametrize("schedule", [gpipe, one_f_one_b])
@pytest.mark.parametrize(("p", "m"), [(2, 2), (4, 8), (3, 7)])
def test_the_idle_share_of_a_pipeline_is_its_bubble(schedule: pk.pipeline_parallel.Schedule, p: int, m: int) -> None:
    with SimulatedWorld(p, FREE) as world:
        world.run(rehearse, add_communication(schedule(p, m)))  # type: ignore[operator]
        trace = world.trace
    assert IdleTime(trace).share == pytest.approx((p - 1) / (m + p - 1), abs=1e-12)
    assert bubble_share(trace) == pytest.approx((p - 1) / (m + p - 1), abs=1e-12)


def test_the_parts_of_a_rank_s_time_make_the_whole() -> None:
    def step(comm: Communicator) -> None:
        comm.compute("forward", seconds=0.001 * (comm.rank + 1))
        pk.all_reduce(torch.ones(1000), comm, algorithm="ring")
        comm.compute("step", seconds=0.002 * (comm.rank == 1))

    with SimulatedWorld(4) as world:
        world.run(step)
        trace = world.trace
    for times in IdleTime(trace).ranks():
        assert sum(times[1:6]) == pytest.approx(trace.makespan, rel=1e-12)
        assert times.own == 0.0
    assert IdleTime(trace).ranks()[0].late > 0 and IdleTime(trace).ranks()[1].finished == 0.0


def test_waits_at_the_same_time_count_once() -> None:
    """A send and a receive under way at once, as `sendrecv` has them: a rank stands still once."""
    events = [Event(r, kind, 0, 2, peer=1 - r) for r in (0, 1) for kind in ("send", "recv")]  # type: ignore[arg-type]
    assert [(r.late, r.travel) for r in IdleTime(Trace.from_events(events)).ranks()] == [(0.0, 2.0), (0.0, 2.0)]


def test_who_waits_for_one_that_waits_is_told_so() -> None:
    def chain(comm: Communicator) -> None:
        if comm.rank:
            comm.recv(torch.empty(1), comm.rank - 1)
        comm.compute("work", seconds=1.0)
        if comm.rank < 2:
            comm.send(torch.ones(1), comm.rank + 1)

    with SimulatedWorld(3, FREE) as world:
        world.run(chain)
        waits = IdleTime(world.trace).longest(5)
    assert [(w.rank, w.peer, w.late, w.because) for w in waits] == [(2, 1, 2.0, "waiting for rank 0"), (1, 0, 1.0, "computing 'work'")]


def test_of_nothing_nobody_waits() -> None:
    idle = IdleTime(Trace(2))
    assert idle.longest(3) == [] and idle.share == 0.0 and [r.held_by for r in idle.ranks()] == [-1, -1]
