"""Topologies, devices and conditions: how long things take on clusters that are not all alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import partkit as pk
from partkit.cluster import Cluster, Device, Islands, Jitter, Link, LinkMatrix, SlowDevice, SlowLink, Torus
from partkit.virtual_time import Computation

FAST, SLOW, SLOWER = Link(1e-6, 1e11), Link(1e-5, 1e10), Link(1e-3, 1e9)


def test_islands_nest() -> None:
    cluster = Cluster(link=SLOWER, topology=Islands((2, FAST), (4, SLOW)))
    assert [[cluster.between(a, b).latency for b in range(6) if b != a] for a in (0, 3)] == [
        [1e-6, 1e-5, 1e-5, 1e-3, 1e-3],
        [1e-5, 1e-5, 1e-6, 1e-3, 1e-3],
    ]


@pytest.mark.parametrize("sizes", [(), (0,), (4, 2), (4, 6), (4, 4)])
def test_islands_that_do_not_nest_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="each a multiple of the one before"):
        Islands(*[(size, FAST) for size in sizes])


def test_hops_on_a_torus_are_the_shortest_way_found_by_walking() -> None:
    shape = (2, 3, 5)
    torus = Torus(shape, FAST)
    places = [(x, y, z) for x in range(2) for y in range(3) for z in range(5)]

    def neighbours(place: tuple[int, ...]) -> set[tuple[int, ...]]:
        return {(*place[:axis], (place[axis] + d) % shape[axis], *place[axis + 1 :]) for axis in range(3) for d in (-1, 1)}

    def walk(a: int, b: int) -> int:
        """Breadth first."""
        reached: set[tuple[int, ...]] = {places[a]}
        steps = 0
        while places[b] not in reached:
            reached |= {near for place in reached for near in neighbours(place)}
            steps += 1
        return steps

    assert [torus.hops(a, b) for a in (0, 7, 29) for b in range(30)] == [walk(a, b) for a in (0, 7, 29) for b in range(30)]


def test_a_matrix_has_a_link_for_each_direction() -> None:
    cluster = Cluster(link=SLOWER, topology=LinkMatrix([[None, FAST], [SLOW, None]]))
    assert (cluster.between(0, 1), cluster.between(1, 0), cluster.between(0, 0)) == (FAST, SLOW, SLOWER)
    with pytest.raises(ValueError, match="as many rows as columns"):
        LinkMatrix([[None, FAST]])
    with pytest.raises(ValueError, match="for 2 ranks, too few for 3"):
        cluster.network(3)


def test_a_device_is_as_fast_as_its_dtype_and_memory_let_it() -> None:
    device = Device({"float32": 1e12, "bfloat16": 4e12}, memory=1e9, memory_bandwidth=1e11, efficiency=0.5)
    assert device.seconds(1e12) == 2.0 and device.seconds(1e12, dtype="bfloat16") == 0.5
    assert device.seconds(1e9, nbytes=1e12) == 10.0 and device.seconds(0, nbytes=1e11, dtype="int8") == 1.0
    with pytest.raises(ValueError, match="has no rate for float64; it has bfloat16, float32"):
        device.rate("float64")
    with pytest.raises(ValueError, match="efficiency is the part of the peak"):
        Device(1.0, 1.0, 1.0, efficiency=1.5)
    assert hash(Cluster(device)) == hash(Cluster(device))


def test_each_rank_may_have_a_device_of_its_own() -> None:
    big, small = Device(2e9, 1e9, 1e9), Device(1e9, 1e9, 1e9)
    network = Cluster([big, small]).network(2)
    assert [network.computation(rank, Computation(1e9), 0.0) for rank in (0, 1)] == [0.5, 1.0]


def test_conditions_hold_from_a_moment_to_another_and_multiply() -> None:
    link = Link(0.0, 1.0)
    cluster = Cluster(link=link, conditions=[SlowLink(0, 1, 2.0, since=1.0, until=2.0), SlowLink(None, 1, 3.0), SlowDevice(1, 5.0, until=1.0)])
    network = cluster.network(3)
    assert [network.message(0, 1, 1, start) for start in (0.0, 1.0, 2.0)] == [3.0, 6.0, 3.0]
    assert (network.message(2, 1, 1, 1.0), network.message(0, 2, 1, 1.0)) == (3.0, 1.0)
    assert [network.computation(1, 1.0, start) for start in (0.0, 1.0)] == [5.0, 1.0]


def test_jitter_is_the_same_in_every_run_and_for_each_pair_its_own() -> None:
    cluster = Cluster(link=Link(0.0, 1.0), conditions=[Jitter(0.5, seed=3)])

    def draw(other: Cluster = cluster) -> list[float]:
        network = other.network(3)
        return [network.message(0, dst, 1, 0.0) for dst in (1, 2, 1, 2)]

    assert draw() == draw() and len(set(draw())) == 4 and all(1 <= factor <= 1.5 for factor in draw())
    assert draw(Cluster(link=Link(0.0, 1.0), conditions=[Jitter(0.5, seed=4)])) != draw()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SlowLink(0, 1, 0.0), "factor is how many times as long"),
        (lambda: SlowDevice(0, -1.0), "factor is how many times as long"),
        (lambda: Jitter(-0.1), "spread is how much longer"),
        (lambda: pk.cluster.Death(0, -1.0), "at is in seconds since the start"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_presets_are_clusters_of_any_size_they_have_room_for() -> None:
    presets = [value for value in vars(pk.clusters).values() if isinstance(value, Cluster)]
    assert len(presets) == 5
    for cluster in (*presets, pk.clusters.tpu_v4(4, 4, 4)):
        network = cluster.network(64)
        assert 0 < network.message(0, 1, 10**6, 0.0) < 1 and 0 < network.computation(63, Computation(1e12, 1e9), 0.0) < 100
    inside, between = (pk.clusters.H100_NODES.network(16).message(0, dst, 10**9, 0.0) for dst in (7, 8))
    assert between / inside == pytest.approx(9, rel=0.01)  # 450 GB/s of NVLink against 50 GB/s


def test_a_link_says_how_many_messages_it_carries_at_a_time() -> None:
    assert repr(Link(1e-6, 1e9, channels=2)) == "Link(latency=1e-06, bandwidth=1000000000.0, channels=2)"
    with pytest.raises(ValueError, match=r"Link\(latency=0.0, bandwidth=1.0, channels=0\): channels is the number of messages at a time, at least 1; None if"):
        Link(0.0, 1.0, channels=0)
