"""Two trees that use every link: nobody sends twice or receives twice in a step, and everyone gets everything once."""

from __future__ import annotations

from collections import Counter
from math import log2

import pytest

from partkit.double_tree import Message, backwards, fill, hops, messages, search_tree

SIZES = [*range(1, 35), 63, 64, 65, 100]


@pytest.mark.parametrize("size", SIZES)
def test_each_tree_reaches_every_rank_once_from_its_root(size: int) -> None:
    for tree in (0, 1):
        edges = [hop for hop in hops(size) if hop.tree == tree]
        reached = [tree % size]
        for parent, child, _, _ in edges:
            assert parent in reached
            reached.append(child)
        assert sorted(reached) == list(range(size))


@pytest.mark.parametrize("size", SIZES)
def test_who_is_a_leaf_in_one_tree_works_in_the_other(size: int) -> None:
    children = Counter(hop.parent for hop in hops(size))
    assert all(count <= 2 for count in children.values())
    assert all(place % 2 == 0 for place, _ in search_tree(size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("segments", [1, 3])
def test_a_rank_sends_one_segment_and_receives_one_in_a_step_and_has_what_it_sends(size: int, segments: int) -> None:
    has = {rank: set(range(segments)) if rank == 0 else set() for rank in range(size)}
    has[1 % size] |= set(range(segments, 2 * segments))
    for step in messages(size, segments):
        assert len({m.src for m in step}) == len({m.dst for m in step}) == len(step)
        assert all(m.segment in has[m.src] and m.segment not in has[m.dst] for m in step)
        for m in step:
            has[m.dst].add(m.segment)
    assert all(got == set(range(2 * segments)) for got in has.values())


@pytest.mark.parametrize("size", range(2, 20))
def test_the_way_up_hands_on_only_what_is_complete(size: int) -> None:
    segments = 2
    waits = Counter((m.src, m.segment) for step in messages(size, segments) for m in step)
    for step in backwards(messages(size, segments)):
        assert all(waits[m.src, m.segment] == 0 for m in step)
        waits.subtract((m.dst, m.segment) for m in step)
    assert not any(waits.values())


@pytest.mark.parametrize("size", SIZES)
def test_the_trees_fill_in_two_steps_a_level(size: int) -> None:
    assert fill(size) <= 2 * log2(size)
    assert size <= 2 or len(messages(size, 5)) == fill(size) + 2 * 5 - 1


@pytest.mark.parametrize("size", [2, 3, 6, 9])
def test_a_rank_plays_its_own_part_of_the_film(size: int) -> None:
    whole = messages(size, 2)
    for rank in range(size):
        own = [[m for m in step if rank in (m.src, m.dst)] for step in whole]
        assert messages(size, 2, rank) == [step for step in own if step]


def test_the_picture_of_the_module() -> None:
    """p = 6, in the order in which the picture draws it."""
    second = {(4 + 1, 2 + 1), (2 + 1, 1 + 1), (2 + 1, 3 + 1), (4 + 1, 0), (1, 5)}
    assert {(hop.parent, hop.child) for hop in hops(6) if hop.tree == 0} == {(0, 4), (4, 2), (2, 1), (2, 3), (4, 5)}
    assert {(hop.parent, hop.child) for hop in hops(6) if hop.tree == 1} == second
    assert {m for step in messages(6, 1) for m in step if m.segment == 1} == {Message(src, dst, 1) for src, dst in second}
