"""The three ways in which a simulated computation gets its time, each against a number known beforehand."""

from __future__ import annotations

import pytest
import torch

import partkit as pk
from partkit.communicator import Communicator
from partkit.tracing import Event, Trace

ROWS, INPUTS, OUTPUTS = 30, 50, 70
PRODUCT = 2 * ROWS * INPUTS * OUTPUTS
"""FLOPs of the product of a linear layer; its backward has one for the weight's gradient and one for the input's."""
TOUCHED = 4 * (ROWS * INPUTS + INPUTS * OUTPUTS + ROWS * OUTPUTS)
"""Bytes of the three matrices of each of the products."""


def layer(comm: Communicator) -> None:
    x, weight = torch.ones(ROWS, INPUTS, requires_grad=True), torch.ones(INPUTS, OUTPUTS, requires_grad=True)
    with comm.span("forward"):
        loss = (x @ weight).sum()
    with comm.span("backward"):
        torch.autograd.backward(loss)


def products(device: pk.Device) -> dict[str, list[float]]:
    """Seconds of the products of matrices on this device, by span."""
    with pk.SimulatedWorld(1, pk.Cluster(device), compute="counted") as world:
        world.run(layer)
        found: dict[str, list[float]] = {"forward": [], "backward": []}
        for event in world.trace.events:
            if event.kind == "compute" and event.tag == "mm [float32]":
                found[event.span].append(event.end - event.start)
        return found


@pytest.mark.parametrize(
    ("device", "seconds"),
    [
        (pk.Device(flops=1e6, memory=1e9, memory_bandwidth=float("inf")), PRODUCT / 1e6),
        (pk.Device(flops=1e6, memory=1e9, memory_bandwidth=float("inf"), efficiency=0.5), 2 * PRODUCT / 1e6),
        (pk.Device(flops=1e18, memory=1e9, memory_bandwidth=1e6), TOUCHED / 1e6),
    ],
    ids=["arithmetic", "half of the peak", "memory"],
)
def test_counted_a_layer_s_forward_is_one_product_and_its_backward_two(device: pk.Device, seconds: float) -> None:
    found = products(device)
    assert found == {"forward": [pytest.approx(seconds, rel=1e-9)], "backward": [pytest.approx(seconds, rel=1e-9)] * 2}


def test_stated_is_what_was_stated_on_any_device() -> None:
    def work(comm: Communicator) -> float:
        comm.compute("forward", seconds=0.25)
        comm.compute("backward", seconds=0.5)
        return comm.now()

    for device in (pk.clusters.H100, pk.clusters.T4):
        with pk.SimulatedWorld(2, pk.Cluster(device)) as world:
            assert list(world.run(work)) == [0.75, 0.75]


def test_flops_of_one_s_own_take_the_time_of_the_device_and_replay_on_another() -> None:
    def work(comm: Communicator) -> None:
        comm.compute("matrix product", flops=989e9, bytes=1e6, dtype="bfloat16")

    with pk.SimulatedWorld(1, pk.Cluster(pk.clusters.H100)) as world:
        world.run(work)
    assert world.trace.makespan == pytest.approx(1e-3)
    assert world.trace.replay(pk.Cluster(pk.clusters.A100)).makespan == pytest.approx(989 / 312 * 1e-3)


def test_measured_is_the_time_between_messages_of_a_live_run() -> None:
    """Rank 0 works for 3 s and sends; rank 1 has waited for it, works for 2 s, and answers. A message takes 1 s here, whatever it took there."""
    live = Trace.from_events(
        [
            Event(0, "metric", 0.0, 0.0, tag="begin"),
            Event(1, "metric", 0.0, 0.0, tag="begin"),
            Event(0, "send", 3.0, 8.0, peer=1, nbytes=4, tag="x"),
            Event(1, "recv", 0.0, 8.0, peer=0, nbytes=4, tag="x"),
            Event(1, "send", 10.0, 11.0, peer=0, nbytes=4, tag="y"),
            Event(0, "recv", 8.0, 11.0, peer=1, nbytes=4, tag="y"),
        ]
    )
    link = pk.Cluster(link=pk.Link(latency=0.0, bandwidth=4.0))
    assert live.replay(link, "measured").makespan == pytest.approx(3.0 + 1.0 + 2.0 + 1.0)
    assert live.replay(link).makespan == pytest.approx(2.0)  # nothing was stated
