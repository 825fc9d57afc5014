"""A replay is what running there would have been: bit-equal times, for simulated runs; for live ones, their order and durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import partkit as pk
from partkit.cluster import Cluster, Device, Islands, Jitter, Link, SlowDevice, SlowLink
from partkit.communicator import Communicator
from partkit.tracing import Event, Trace
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

ELSEWHERE = {
    "fast": Cluster(link=Link(1e-6, 1e11)),
    "slow": Cluster(link=Link(1e-2, 1e5)),
    "islands": Cluster(link=Link(1e-3, 1e6), topology=Islands((2, Link(1e-6, 1e9)))),
    "troubled": Cluster(Device(1e9, 1e9, 1e9), Link(1e-4, 1e7), conditions=(Jitter(0.2), SlowLink(0, 1, 3.0, since=0.01), SlowDevice(2, 2.5))),
}


def everything(comm: Communicator) -> None:
    """Collectives, spans, computations of both kinds, messages that overlap, ports that are fought for."""
    comm.compute("forward", flops=1e6 * (comm.rank + 1), bytes=1e5)
    with comm.span("step"):
        pk.all_reduce(torch.ones(17), comm, algorithm="ring")
        pk.all_reduce(torch.ones(5), comm, algorithm="naive")
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    receives = [comm.irecv(torch.empty(100), rank, "all at once") for rank in others]
    sends = [comm.isend(torch.ones(100), rank, "all at once") for rank in others]
    comm.compute("overlap", seconds=1e-4 * comm.rank)
    for pending in reversed([*receives, *sends]):
        pending.wait()
    comm.log("loss", 1.0)


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_simulated_run_replays_as_if_it_had_run_there(size: int, name: str) -> None:
    here, there = SimulatedWorld(size), SimulatedWorld(size, ELSEWHERE[name])
    here.run(everything)
    there.run(everything)
    replayed, ran = here.trace.replay(ELSEWHERE[name]), there.trace
    for column in ("start", "end", "waited", "begun", "done", "kind", "peer"):
        assert (replayed.columns[column] == ran.columns[column]).all(), column
    assert replayed.clock == "virtual" and here.trace.replay(Cluster()).makespan == here.trace.makespan


def test_a_saved_trace_replays_as_well(tmp_path: Any) -> None:
    world = SimulatedWorld(3)
    world.run(everything)
    loaded = Trace.load(world.trace.save(tmp_path / "run.npz"))
    assert (loaded.replay(ELSEWHERE["slow"]).columns == world.trace.replay(ELSEWHERE["slow"]).columns).all()


@pytest.mark.live
def test_a_live_run_has_a_virtual_clock_too(live_world: Callable[[int], World]) -> None:
    """Two ranks on a crowded machine: the virtual clock shows what was stated, and nothing of the crowd."""

    def pipeline(comm: Communicator) -> None:
        for microbatch in range(3):
            if comm.rank == 0:
                comm.compute("forward", seconds=0.002)
                comm.send(torch.ones(1), 1, str(microbatch))
            else:
                comm.recv(torch.empty(1), 0, str(microbatch))
                comm.compute("forward", seconds=0.002)

    world = live_world(2)
    world.run(pipeline)
    simulated = SimulatedWorld(2, Cluster(link=Link(0.001, 1e9)))
    simulated.run(pipeline)
    virtual = world.trace.replay(simulated.cluster)
    assert virtual.makespan == simulated.trace.makespan
    kinds = ("compute", "send", "recv")
    assert [e[:5] for e in virtual.events if e.kind in kinds] == [e[:5] for e in simulated.trace.events if e.kind in kinds]
    measured = world.trace.replay(simulated.cluster, "measured")
    assert measured.makespan > virtual.makespan and world.trace.clock == "wall"


def test_measured_durations_are_those_between_messages() -> None:
    """Rank 0 works for 2 s, then sends; rank 1 posts early, works for 1 s meanwhile, waits."""
    events = [Event(0, "send", 2.0, 2.5, peer=1, nbytes=8, tag="x"), Event(1, "recv", 0.0, 2.5, peer=0, nbytes=8, tag="x")]
    trace = Trace.from_events(events)
    cluster = Cluster(link=Link(0.25, float("inf")))
    assert [(e.rank, e.start, e.end) for e in trace.replay(cluster, "measured").events] == [(1, 0.0, 2.25), (0, 2.0, 2.25)]
    assert [(e.rank, e.start, e.end) for e in trace.replay(cluster).events] == [(0, 0.0, 0.25), (1, 0.0, 0.25)]


def test_what_is_posted_during_a_wait_does_not_make_the_wait_count_as_work() -> None:
    """Rank 0 waits from 0 to 10 for what rank 1 works on; another of its threads posts a send at 3."""
    events = [
        Event(0, "recv", 0.0, 10.0, peer=1, nbytes=8, tag="a"),
        Event(0, "send", 3.0, 11.0, peer=1, nbytes=8, tag="b"),
        Event(1, "recv", 0.0, 11.0, peer=0, nbytes=8, tag="b"),
        Event(1, "send", 10.0, 10.0, peer=0, nbytes=8, tag="a"),
    ]
    trace = Trace.from_events(events)
    for row in trace.columns:
        row["waited"] = 11.0 if trace.strings[row["tag"]] == "b" else row["start"]
    assert trace.replay(Cluster(link=Link(0.25, float("inf"))), "measured").makespan == 11.25


def test_a_message_of_which_one_side_is_missing_takes_no_time() -> None:
    trace = Trace.from_events([Event(0, "send", 0.0, 1.0, peer=1, nbytes=8), Event(1, "compute", 0.0, 1.0, tag="f")], size=2)
    assert trace.replay(Cluster()).makespan == 0.0


def test_unknown_durations_and_too_small_clusters_are_refused() -> None:
    trace = Trace.from_events([], size=3)
    with pytest.raises(ValueError, match="durations is one of 'stated', 'cpu', 'measured'"):
        trace.replay(Cluster(), "guessed")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rank 2 has no device"):
        trace.replay(Cluster([Device(1.0, 1.0, 1.0)] * 2))


# -- the work of each rank's thread ----------------------------------------------------------------------------------


def worked(events: list[Event], done: dict[tuple[int, float], int]) -> Trace:
    """A wall-clock trace with the microseconds for which threads had worked, by rank and end of the event."""
    trace = Trace.from_events(events)
    for row in trace.columns:
        row["done"] = done[int(row["rank"]), float(row["end"])]
    return trace


INSTANT = Cluster(link=Link(0.0, float("inf")))


def test_cpu_seconds_are_what_threads_worked_whatever_the_wall_says() -> None:
    """Rank 0 needs 2 s of a core and gets them in 6 s; it sends; rank 1 works 1 s in 3, and has posted its receive before."""
    events = [
        Event(0, "send", 6.0, 7.0, peer=1, nbytes=8, tag="x"),
        Event(1, "recv", 0.0, 7.0, peer=0, nbytes=8, tag="x"),
        Event(1, "span", 0.0, 10.0, tag="step"),
    ]
    trace = worked(events, {(0, 7.0): 2_000_000, (1, 7.0): 0, (1, 10.0): 1_000_000})
    replayed = trace.replay(INSTANT, "cpu")
    assert [(e.rank, e.kind, e.start, e.end) for e in replayed.events] == [(1, "recv", 0.0, 2.0), (1, "span", 0.0, 2.0), (0, "send", 2.0, 2.0)]
    assert trace.replay(INSTANT, "measured").makespan == 6.0


def test_cpu_seconds_between_two_ends_are_spread_over_the_time_between_messages() -> None:
    """One second of work was noted at the end of the second wait: three quarters of the free time lie before it was posted."""
    events = [
        Event(0, "send", 1.0, 5.0, peer=1, nbytes=8, tag="a"),
        Event(0, "send", 8.0, 10.0, peer=1, nbytes=8, tag="b"),
        Event(1, "recv", 0.0, 5.0, peer=0, nbytes=8, tag="a"),
        Event(1, "recv", 5.0, 10.0, peer=0, nbytes=8, tag="b"),
    ]
    trace = worked(events, {(0, 5.0): 500_000, (0, 10.0): 1_500_000, (1, 5.0): 0, (1, 10.0): 0})
    trace.columns["waited"][(trace.columns["rank"] == 0) & (trace.columns["start"] == 8.0)] = 9.0
    replayed = trace.replay(INSTANT, "cpu")
    assert [(e.tag, e.start, e.end) for e in replayed.events if e.rank == 0] == [("a", 0.5, 0.5), ("b", 1.25, 1.5)]


def test_a_count_of_work_that_has_started_again_from_zero_goes_on() -> None:
    events = [Event(0, "span", float(t), t + 1.0, tag="step") for t in range(3)] + [
        Event(0, "send", 4.0, 5.0, peer=1, nbytes=8),
        Event(1, "recv", 0.0, 5.0, peer=0, nbytes=8),
    ]
    marks = {(0, 1.0): 2**31 - 500_000, (0, 2.0): 500_000, (0, 3.0): -1, (0, 5.0): 1_000_000, (1, 5.0): 0}
    end = worked(events, marks).replay(INSTANT, "cpu").makespan
    assert end == pytest.approx((2**31 + 1_000_000) * 1e-6, rel=1e-12)


def test_without_notes_of_work_there_are_no_cpu_seconds() -> None:
    trace = Trace.from_events([Event(0, "compute", 0.0, 1.0)])
    with pytest.raises(ValueError, match="nobody noted in this trace how long threads worked"):
        trace.replay(INSTANT, "cpu")


def test_a_replay_says_on_what_and_with_which_durations() -> None:
    live, simulated = Trace.from_events([], size=2), Trace.from_events([], size=2, clock="virtual")
    assert live.replay(Cluster(name="laptop"), "measured").replayed == "laptop, measured durations"
    assert simulated.replay(Cluster(name="laptop")).replayed == "laptop" and live.replayed == ""


@pytest.mark.live
def test_a_live_pipeline_has_the_bubble_of_the_textbook_in_virtual_time(live_world: Callable[[int], World]) -> None:
    """Four ranks on whatever cores there are: the wall clock may say anything, virtual time says (p - 1) / (m + p - 1)."""
    from partkit.pipeline_parallel import gpipe
    from partkit.pipeline_parallel.measure import bubble_share
    from partkit.pipeline_parallel.passes import add_communication
    from partkit.pipeline_parallel.rehearse import rehearse
    from partkit.tracing.idle import IdleTime

    world = live_world(4)
    world.run(rehearse, add_communication(gpipe(4, 8)), unit=0.002)
    virtual = world.trace.replay(INSTANT)
    assert bubble_share(virtual) == pytest.approx(3 / 11, rel=1e-12) and IdleTime(virtual).share == pytest.approx(3 / 11, rel=1e-12)
    assert virtual.makespan == pytest.approx(11 * 3 * 0.002, rel=1e-12)
    assert bubble_share(world.trace.replay(Cluster())) == pytest.approx(3 / 11, abs=0.05)  # messages take their time, too
    assert world.trace.makespan > virtual.makespan  # the wall clock stays as it was measured


@pytest.mark.live
def test_live_ranks_note_how_long_their_threads_worked(live_world: Callable[[int], World]) -> None:
    def work(comm: Communicator) -> float:
        import time

        before = time.thread_time()
        with comm.span("work"):
            sum(range(300_000))
        used = time.thread_time() - before
        pk.barrier(comm)
        return used

    world = live_world(2)
    used = world.run(work)
    rows = world.trace.columns
    for rank in (0, 1):
        noted = rows["done"][(rows["rank"] == rank) & (rows["kind"] == 3)]
        assert len(noted) == 1 and noted[0] * 1e-6 >= 0.5 * used[rank]
    assert world.trace.replay(INSTANT, "cpu").makespan >= 0.5 * max(used)
