"""Conditions in whole runs whose end is known exactly: links that change, stragglers, jitter, deaths. And what the presets claim."""

from __future__ import annotations

from random import Random

import pytest
import torch

import partkit as pk
from partkit.cluster import ChangedLink, Cluster, Death, Islands, Jitter, Link, SlowDevice, SlowLink
from partkit.cluster.conditions import Condition
from partkit.communicator import Communicator
from partkit.worlds.errors import RankDied

SECOND = Link(latency=0.0, bandwidth=4.0)
"""One float32 a second."""


def three_messages(comm: Communicator) -> float:
    """Rank 0 sends one number to rank 1, three times."""
    for _ in range(3):
        if comm.rank == 0:
            comm.send(torch.ones(1), 1)
        elif comm.rank == 1:
            comm.recv(torch.empty(1), 0)
    return comm.now()


def ends(size: int, *conditions: Condition, link: Link = SECOND) -> list[float]:
    """When each rank is done with three messages."""
    with pk.SimulatedWorld(size, Cluster(link=link, conditions=conditions)) as world:
        return list(world.run(three_messages))


@pytest.mark.parametrize(
    ("conditions", "end"),
    [
        ([], 3.0),
        ([SlowLink(0, 1, 5.0)], 15.0),
        ([SlowLink(0, 1, 5.0, since=1.0)], 11.0),
        ([SlowLink(0, 1, 5.0, since=1.0, until=2.0)], 7.0),
        ([SlowLink(0, 1, 5.0, since=0.5, until=1.0)], 3.0),
        ([SlowLink(1, 0, 5.0)], 3.0),
        ([SlowLink(None, (1, 7), 5.0)], 15.0),
        ([SlowLink(range(1, 4), None, 5.0)], 3.0),
        ([SlowLink(0, 1, 2.0), SlowLink(None, None, 3.0)], 18.0),
        ([SlowLink(0, 1, 2.0, until=2.0), SlowLink(0, 1, 4.0, since=2.0, until=6.0)], 7.0),  # 2, then 4, then 1: a link that gets worse, and well again
        ([ChangedLink(0, 1, Link(1.0, 8.0))], 4.5),
        ([ChangedLink(0, 1, Link(1.0, 8.0), since=1.0, until=2.0)], 3.5),
        ([ChangedLink(0, 1, Link(1.0, 8.0)), ChangedLink(None, 1, Link(0.0, 2.0), since=1.5)], 5.5),
        ([ChangedLink(0, 1, Link(0.0, 2.0)), SlowLink(0, 1, 2.0)], 12.0),
    ],
    ids=str,
)
def test_links_that_change_over_time(conditions: list[Condition], end: float) -> None:
    assert ends(2, *conditions) == [end, end]


def test_the_slow_way_out_of_a_node_sets_the_pace_of_a_ring() -> None:
    """Every step of the ring waits for its slowest message, and in every step two of them leave a node."""
    size, factor, elements = 8, 4.0, 8 * 10
    inside, between = Link(1e-6, 1e9), Link(1e-5, 1e8)
    node = range(4)
    cluster = Cluster(link=between, topology=Islands((4, inside)), conditions=(SlowLink(node, range(4, 8), factor),))
    with pk.SimulatedWorld(size, cluster) as world:
        world.run(lambda comm: pk.all_reduce(torch.ones(elements), comm, algorithm="ring"))
    assert world.trace.makespan == pytest.approx(2 * (size - 1) * factor * between.seconds(4 * elements / size), rel=1e-12)


def test_a_straggler_makes_all_wait_at_the_barrier() -> None:
    def step(comm: Communicator) -> float:
        comm.compute("forward", seconds=1.0)
        pk.barrier(comm)
        return comm.now()

    cluster = Cluster(link=Link(0.0, float("inf")), conditions=(SlowDevice(2, 3.0, until=0.5),))
    with pk.SimulatedWorld(4, cluster) as world:
        assert list(world.run(step)) == [3.0] * 4


def test_jitter_makes_a_run_exactly_as_late_as_its_seed_says() -> None:
    chance = Random("7 0 1")
    late = sum(1 + 0.5 * chance.random() for _ in range(3))
    assert ends(2, Jitter(0.5, seed=7)) == [pytest.approx(late, rel=1e-12)] * 2
    assert ends(2, Jitter(0.5, seed=7)) == ends(2, Jitter(0.5, seed=7)) != ends(2, Jitter(0.5, seed=8))


def test_who_waits_for_a_rank_that_died_is_told() -> None:
    with pytest.raises(RankDied, match=r"rank 0 died at 1.5 s"):
        ends(2, Death(0, at=1.5))
    assert ends(2, Death(0, at=3.5))[1] == 3.0


def test_a_receive_with_a_time_out_outlives_its_sender() -> None:
    def patient(comm: Communicator) -> str:
        if comm.rank == 0:
            comm.compute("forward", seconds=2.0)
            comm.send(torch.ones(1), 1)
            return "sent"
        try:
            comm.recv(torch.empty(1), 0, timeout=5.0)
            return "received"
        except TimeoutError:
            return f"gave up at {comm.now():g} s"

    with pk.SimulatedWorld(2, Cluster(link=SECOND, conditions=(Death(0, at=1.0),))) as world:
        assert [str(result) for result in world.run(patient)] == ["died at 1 s", "gave up at 5 s"]


@pytest.mark.parametrize("make", [lambda: SlowLink(0, 1, 2.0, since=2.0, until=2.0), lambda: ChangedLink(0, 1, SECOND, since=-1.0)])
def test_times_that_end_before_they_begin_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match="until comes after since"):
        make()  # type: ignore[operator]


def test_only_what_lasts_for_ever_leaves_a_network_steady() -> None:
    """Steady networks are simulated many messages at a time; the exact ends above hold in both ways."""
    lasting = [SlowLink(0, 1, 2.0), ChangedLink(0, 1, SECOND), SlowDevice(0, 2.0)]
    passing = [SlowLink(0, 1, 2.0, since=1.0), ChangedLink(0, 1, SECOND, until=1.0), SlowDevice(0, 2.0, until=9.0), Jitter(0.1), Death(0, 1.0)]
    assert [Cluster(conditions=(one,)).network(2).steady for one in (*lasting, *passing)] == [True] * 3 + [False] * 5


def test_a_cluster_with_conditions_for_many_ranks_is_a_value() -> None:
    one, other = (Cluster(conditions=(SlowLink(ranks, None, 2.0),)) for ranks in (range(3), [2, 1, 0]))
    assert one == other and hash(one) == hash(other)


def test_presets_say_what_their_sources_say() -> None:
    """Figures of the data sheets that the module names, in their own units."""
    h100, a100 = pk.clusters.H100, pk.clusters.A100
    assert [h100.rate(dtype) / 1e12 for dtype in ("float64", "float32", "bfloat16")] == [67, 67, 1979 // 2]
    assert [a100.rate(dtype) / 1e12 for dtype in ("float64", "float32", "bfloat16")] == [19.5, 19.5, 624 / 2]
    assert (a100.memory, a100.memory_bandwidth, h100.memory_bandwidth) == (80e9, 2039e9, 3.35e12)
    nodes = pk.clusters.H100_NODES
    assert (nodes.between(0, 7).bandwidth * 2, nodes.between(0, 8).bandwidth * 8) == (900e9, 400e9)
    assert pk.clusters.A100_NODES.between(0, 7).bandwidth * 2 == 600e9
    assert (pk.clusters.VOLUNTEERS.link.bandwidth * 8, pk.clusters.SPOT_VMS.link.bandwidth * 8) == (200e6, 10e9)
    assert (pk.clusters.TPU_V4.rate("bfloat16"), pk.clusters.TPU_V4.memory) == (275e12, 32 * 2**30)
