"""Where ranks and links are: everything has its place, whatever the topology and the size; wires say whom they link."""

from __future__ import annotations

import re

import pytest

from partkit.cluster import Cluster, Islands, Link, LinkMatrix, Torus, clusters
from partkit.figures.cluster_map import HIGH, Map, columns, layout

FAST, SLOW, SLOWER = Link(1e-6, 1e11), Link(1e-5, 1e10), Link(1e-3, 1e9)
PODS = Cluster(link=SLOWER, topology=Islands((4, FAST), (16, SLOW)), name="pods")


def torus(*shape: int) -> Cluster:
    return clusters.tpu_v4(*shape)


def matrix(size: int) -> Cluster:
    return Cluster(topology=LinkMatrix([[Link(1e-3, 1e6 * (1 + abs(a - b))) for b in range(size)] for a in range(size)]), name="matrix")


CASES = [
    *[(clusters.LAPTOP, size) for size in (1, 2, 7, 8, 512, 1024)],
    *[(clusters.H100_NODES, size) for size in (1, 8, 9, 16, 64, 512, 1024)],
    *[(PODS, size) for size in (4, 16, 64, 500)],
    *[(torus(*shape), size) for shape, size in [((5,), 5), ((4, 4), 16), ((4, 4, 4), 64), ((8, 8, 8), 512), ((2, 2), 4), ((4, 4), 10)]],
    *[(matrix(size), size) for size in (1, 2, 3, 12, 13, 40)],
]


def check(found: Map, size: int, wide: float) -> None:
    assert len(found.places) == size
    assert found.wide <= wide and found.high <= HIGH * (3 if wide < 400 else 1.6)
    for place in found.places:
        assert place.x >= 0 and place.x + place.side <= found.wide + 1 and place.y >= 0 and place.y + place.side <= found.high + 1
    side = found.places[0].side
    spots = sorted((round(place.x, 1), round(place.y, 1)) for place in found.places)
    assert len(set(spots)) == size
    if size <= 64:
        apart = [max(abs(a.x - b.x), abs(a.y - b.y)) for k, a in enumerate(found.places) for b in found.places[:k]]
        assert min(apart, default=side) >= side * 0.99  # no rank lies on another


@pytest.mark.parametrize("wide", [960, 620, 360])
@pytest.mark.parametrize(("cluster", "size"), CASES, ids=lambda value: value if isinstance(value, int) else value.name)
def test_every_rank_has_a_place_of_its_own_on_the_page(cluster: Cluster, size: int, wide: int) -> None:
    if size >= 512 and wide == 360 and isinstance(cluster.topology, Torus):
        return  # eight planes of 64 below each other are as high as they are
    check(layout(cluster, size, wide), size, wide)


@pytest.mark.parametrize(("cluster", "size"), CASES, ids=lambda value: value if isinstance(value, int) else value.name)
def test_a_wire_has_the_link_that_its_messages_take(cluster: Cluster, size: int) -> None:
    for wire in layout(cluster, size).wires:
        assert set(wire.src) == set(wire.dst) or not set(wire.src) & set(wire.dst)
        src, dst = wire.src[0], next(rank for rank in wire.dst if rank != wire.src[0])
        assert wire.link == cluster.between(src, dst)
        assert max(*wire.src, *wire.dst) < size


def test_nodes_have_a_bus_and_a_way_out() -> None:
    found = layout(clusters.H100_NODES, 16)
    assert [(wire.name, wire.src, wire.dst) for wire in found.wires[::2]] == [
        ("inside ranks 0-7", tuple(range(8)), tuple(range(8))),
        ("out of ranks 0-7", tuple(range(8)), tuple(range(8, 16))),
    ]


def test_the_way_out_of_a_box_stays_in_its_pod_and_that_of_the_pod_leaves_it() -> None:
    wires = {wire.name: wire for wire in layout(PODS, 64).wires}
    assert (wires["out of ranks 0-3"].dst, wires["out of ranks 0-3"].link) == (tuple(range(4, 16)), SLOW)
    assert (wires["out of ranks 0-15"].dst, wires["out of ranks 0-15"].link) == (tuple(range(16, 64)), SLOWER)


def test_a_torus_has_a_wire_to_each_neighbour_of_a_plane_once() -> None:
    pairs = [{wire.src[0], wire.dst[0]} for wire in layout(torus(3, 4), 12).wires]
    expected = [{a, b} for a in range(12) for b in range(a) if torus(3, 4).topology.hops(a, b) == 1]  # type: ignore[union-attr]
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, expected))


def test_grids_are_wider_than_high() -> None:
    assert all(columns(n) >= n / columns(n) - 1 and columns(n) <= 2 * n**0.5 + 1 for n in range(1, 600))


def test_a_rail_leads_from_way_out_to_way_out_and_only_rows_are_joined_at_their_left() -> None:
    one_row, rows = layout(clusters.H100_NODES, 16), layout(clusters.H100_NODES, 64, 480)
    ways = [float(wire.path[1:].split()[0]) for wire in one_row.wires if wire.name.startswith("out")]
    assert [re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", rail) for rail in one_row.rails] == [[(f"{ways[0]:.1f}", f"{ways[-1]:.1f}")]]
    starts = {re.findall(r"M([\d.]+) ", rail)[0] for rail in rows.rails}
    assert len(rows.rails) > 2 and len(starts) == 1
