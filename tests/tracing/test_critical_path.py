"""The critical path ends to end is the makespan, exactly; on simulated ranks each message on it takes what its link takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import partkit as pk
from partkit.cluster import Cluster, Link
from partkit.communicator import Communicator
from partkit.tracing import Event, Trace
from partkit.tracing.critical_path import CriticalPath, critical_path
from partkit.worlds.simulated import SimulatedWorld

LINK = Link(latency=1e-5, bandwidth=1e9)
Call = Callable[[Communicator, Any], Any]
COLLECTIVES: dict[str, tuple[str, Call]] = {
    "all_gather": ("all_gather", lambda comm, a: pk.all_gather(torch.ones(7), comm, algorithm=a)),
    "all_reduce": ("all_reduce", lambda comm, a: pk.all_reduce(torch.ones(13), comm, algorithm=a)),
    "all_to_all": ("all_to_all", lambda comm, a: pk.all_to_all(torch.ones(comm.size, 3), comm, algorithm=a)),
    "barrier": ("barrier", lambda comm, a: pk.barrier(comm)),
    "broadcast": ("broadcast", lambda comm, a: pk.broadcast(torch.ones(12), comm, algorithm=a)),
    "gather": ("gather", lambda comm, a: pk.gather(torch.ones(5), comm, algorithm=a)),
    "reduce": ("reduce", lambda comm, a: pk.reduce(torch.ones(9), comm, algorithm=a)),
    "reduce_scatter": ("reduce_scatter", lambda comm, a: pk.reduce_scatter(torch.ones(2 * comm.size), comm, algorithm=a)),
    "scan": ("scan", lambda comm, a: pk.scan(torch.ones(3), comm, algorithm=a)),
    "scatter": ("scatter", lambda comm, a: pk.scatter(torch.ones(comm.size, 4), comm, algorithm=a)),
}


def algorithms(operation: str) -> list[str]:
    """By name, without those that simulated ranks do not have."""
    from importlib import import_module

    table = import_module(f"partkit.collectives.{operation}").ALGORITHMS
    return [name for name in table if name != "native"]


def run(size: int, fn: Callable[[Communicator], Any], link: Link = LINK) -> Trace:
    with SimulatedWorld(size, Cluster(link=link)) as world:
        world.run(fn)
        return world.trace


def assert_whole(path: CriticalPath, trace: Trace) -> None:
    """The steps lie end to end, from the first start to the last end."""
    assert path.length == trace.makespan
    assert all(one.end == other.start for one, other in zip(path.steps, path.steps[1:], strict=False))
    assert path.steps[0].start == trace.columns["start"].min()


@pytest.mark.parametrize("operation", COLLECTIVES)
def test_of_every_collective_it_is_the_makespan_and_nothing_but_messages(operation: str) -> None:
    module, call = COLLECTIVES[operation]
    for algorithm in algorithms(module):
        for size in (2, 3, 4, 7):
            trace = run(size, lambda comm, a=algorithm: call(comm, a))  # type: ignore[misc]
            path = critical_path(trace)
            assert_whole(path, trace)
            for step in path.steps:
                assert step.kind == "message", (algorithm, size, step)
                expected = LINK.seconds(int(trace.columns["nbytes"][step.row]))
                assert step.seconds == pytest.approx(expected, rel=1e-9), (algorithm, size, step)


def test_a_slow_rank_is_on_the_path_and_the_others_are_not() -> None:
    def step(comm: Communicator) -> None:
        comm.compute("forward", seconds=1.0 + 0.5 * (comm.rank == 2))
        pk.all_reduce(torch.ones(8), comm, algorithm="ring")

    trace = run(4, step)
    path = critical_path(trace)
    assert_whole(path, trace)
    assert [(s.kind, s.rank, s.end) for s in path.steps[:1]] == [("compute", 2, 1.5)]
    assert path.seconds("compute") == 1.5 and path.seconds("gap") == 0


def test_a_port_that_another_message_keeps_busy_is_on_the_path() -> None:
    """Rank 0 sends to 1, 2 and 3 at once, through one port: the third message waits for the two before it."""

    def fan_out(comm: Communicator) -> None:
        if comm.rank == 0:
            for pending in [comm.isend(torch.ones(250), dst) for dst in (1, 2, 3)]:
                pending.wait()
        else:
            comm.recv(torch.empty(250), 0)

    path = critical_path(run(4, fan_out, Link(latency=0.0, bandwidth=1000.0)))
    assert [(s.kind, s.start, s.end) for s in path.steps] == [("message", 0.0, 1.0), ("message", 1.0, 2.0), ("message", 2.0, 3.0)]


def test_messages_that_take_no_time_are_passed_through() -> None:
    def chain(comm: Communicator) -> None:
        if comm.rank:
            comm.recv(torch.empty(1), comm.rank - 1)
        comm.compute("work", seconds=0.25)
        if comm.rank + 1 < comm.size:
            comm.send(torch.ones(1), comm.rank + 1)

    trace = run(5, chain, Link(latency=0.0, bandwidth=float("inf")))
    path = critical_path(trace)
    assert_whole(path, trace)
    assert [s.rank for s in path.steps if s.kind == "compute"] == [0, 1, 2, 3, 4] and path.share("compute") == 1.0


def test_what_no_event_tells_of_is_a_gap() -> None:
    events = [Event(0, "compute", 0.0, 1.0), Event(0, "send", 3.0, 4.0, peer=1), Event(1, "recv", 0.0, 4.0, peer=0), Event(1, "span", 0.0, 5.0, tag="step")]
    trace = Trace.from_events(events)
    path = critical_path(trace)
    assert_whole(path, trace)
    assert [(s.kind, s.rank, s.start, s.end) for s in path.steps] == [("compute", 0, 0, 1), ("gap", 0, 1, 3), ("message", 1, 3, 4), ("gap", 1, 4, 5)]


@pytest.mark.parametrize("trace", [Trace(2), Trace.from_events([Event(0, "metric", 1.0, 1.0, tag="loss")])])
def test_of_nothing_it_is_empty(trace: Trace) -> None:
    assert critical_path(trace) == CriticalPath(()) and critical_path(trace).length == 0.0 and critical_path(trace).share("message") == 0.0
