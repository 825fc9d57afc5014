"""Coordinates, groups and neighbours of named axes."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.mesh import Mesh

meshes = st.dictionaries(st.sampled_from(["dp", "tp", "pp", "cp"]), st.integers(1, 4), min_size=1, max_size=4).map(lambda axes: Mesh(**axes))


@given(meshes, st.data())
def test_coordinates_and_rank_are_inverse(mesh: Mesh, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, mesh.size - 1))
    assert mesh.size == prod(mesh.axes.values())
    assert mesh.rank(**mesh.coordinates(rank)) == rank


@given(meshes)
def test_the_last_axis_varies_fastest(mesh: Mesh) -> None:
    last = list(mesh.axes)[-1]
    assert mesh.group(last, 0) == tuple(range(mesh.axes[last]))


@given(meshes, st.data())
def test_groups_along_an_axis_hold_each_rank_once_and_differ_only_in_that_axis(mesh: Mesh, data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from(list(mesh.axes)))
    groups = mesh.groups(axis)
    assert sorted(rank for group in groups for rank in group) == list(range(mesh.size))
    for group in groups:
        others = [{name: place for name, place in mesh.coordinates(rank).items() if name != axis} for rank in group]
        assert others == [others[0]] * len(group)
        assert [mesh.coordinates(rank)[axis] for rank in group] == list(range(mesh.axes[axis]))
        assert all(mesh.group(axis, rank) == group for rank in group)


@given(meshes, st.data())
def test_neighbours_go_once_round(mesh: Mesh, data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from(list(mesh.axes)))
    rank = data.draw(st.integers(0, mesh.size - 1))
    before, after = mesh.neighbours(axis, rank)
    assert mesh.neighbours(axis, before)[1] == rank == mesh.neighbours(axis, after)[0]
    seen = [rank]
    while (step := mesh.neighbours(axis, seen[-1])[1]) != rank:
        seen.append(step)
    assert sorted(seen) == sorted(mesh.group(axis, rank))


@pytest.mark.parametrize("axes", [{}, {"dp": 0}, {"dp": -1}, {"dp": 2.0}, {"dp": True}, {"dp": 2, "tp": "2"}])
def test_an_axis_has_a_whole_number_of_ranks(axes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Mesh(**axes)


def test_refusals_name_what_would_be_right() -> None:
    mesh = Mesh(dp=2, tp=3)
    with pytest.raises(ValueError, match=r"rank 6 is outside Mesh\(dp=2, tp=3\), whose ranks are 0 to 5"):
        mesh.coordinates(6)
    with pytest.raises(ValueError, match=r"tp=3 is outside .*: it must be from 0 to 2"):
        mesh.rank(dp=0, tp=3)
    with pytest.raises(ValueError, match=r"one coordinate for each of dp, tp"):
        mesh.rank(dp=0)
    with pytest.raises(ValueError, match=r"'pp' is no axis of .*; its axes are dp, tp"):
        mesh.group("pp", 0)


def test_meshes_compare_by_axes_and_their_order() -> None:
    assert Mesh(dp=2, tp=3) == Mesh(dp=2, tp=3)
    assert Mesh(dp=2, tp=3) != Mesh(tp=3, dp=2)
    assert len({Mesh(dp=2), Mesh(dp=2), Mesh(dp=3)}) == 2
    assert repr(Mesh(dp=2, tp=3)) == "Mesh(dp=2, tp=3)"
