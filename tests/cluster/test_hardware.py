"""Links, devices, clusters."""

from __future__ import annotations

import pytest

from partkit.cluster import Cluster, Device, Link

LINK = Link(latency=1e-6, bandwidth=1e9)


def test_the_roofline_takes_the_longer_of_arithmetic_and_memory() -> None:
    device = Device(flops=1e9, memory=1e9, memory_bandwidth=1e8)
    assert device.seconds(flops=1e9, nbytes=1e6) == 1.0
    assert device.seconds(flops=1e6, nbytes=1e8) == 1.0


@pytest.mark.parametrize(("latency", "bandwidth"), [(-1.0, 1.0), (0.0, 0.0), (0.0, -1.0), (float("nan"), 1.0)])
def test_a_link_has_a_latency_and_a_bandwidth(latency: float, bandwidth: float) -> None:
    with pytest.raises(ValueError, match="bandwidth in bytes per second, above 0"):
        Link(latency, bandwidth)


@pytest.mark.parametrize("wrong", ["flops", "memory", "memory_bandwidth"])
def test_a_device_has_no_zero_in_it(wrong: str) -> None:
    with pytest.raises(ValueError, match="must all be above 0"):
        Device(**{"flops": 1.0, "memory": 1.0, "memory_bandwidth": 1.0, wrong: 0.0})


def test_a_cluster_is_a_value() -> None:
    assert Cluster() == Cluster()
    assert hash(Cluster(link=LINK)) == hash(Cluster(link=Link(1e-6, 1e9)))
