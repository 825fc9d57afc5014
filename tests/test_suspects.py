"""Whom to look at first: quarrels, circles, groups that overlap. Pure; what ranks really do is in tests/worlds."""

from __future__ import annotations

import pytest

from partkit.rank_state import Call, Operation, RankState
from partkit.suspects import Suspects, circle


def call(what: str = "float32[4]", number: int = 0, group: tuple[int, ...] = (0, 1, 2, 3), site: str = "f.py:1", name: str = "all_reduce") -> Call:
    return Call(name, what, number, group, site, "" if group == (0, 1, 2, 3) else f"ranks {group}")


def inside(rank: int, own: Call, *before: Call) -> RankState:
    return RankState(rank, "blocked", call=own, calls=(*before, own))


def done(rank: int, *calls: Call) -> RankState:
    return RankState(rank, "finished", calls=calls)


def waits(rank: int, *peers: int) -> RankState:
    posted = tuple(Operation("recv", peer, "", "float32[4]", f"f.py:{rank}") for peer in peers)
    return RankState(rank, "blocked", posted[0], posted)


def suspects(*states: RankState) -> Suspects:
    return Suspects.among({state.rank: state for state in states})


A, B = call("float32[4]"), call("float64[4]")


@pytest.mark.parametrize(
    ("states", "first"),
    [
        ([inside(0, A), inside(1, A), inside(2, B), inside(3, A)], (2,)),  # one called something else
        ([inside(0, B), inside(1, A), inside(2, B), inside(3, A)], (0, 1, 2, 3)),  # two and two: a draw
        ([inside(0, A), inside(1, A), done(2), inside(3, A)], (2,)),  # one has left
        ([done(0, A), inside(1, call(number=1), A), done(2, A), done(3, A)], (1,)),  # one goes on
        ([done(0, A), inside(1, call(number=1), A), done(2, A), inside(3, call(number=1), A)], (0, 2)),  # a draw: who has finished
        ([inside(0, A), inside(1, B), done(2, A), done(3, A)], (1,)),  # two others have done it, and have gone
        ([inside(0, call(number=1), A), inside(1, call(number=1), A), inside(2, A), inside(3, B)], (3,)),  # rank 2 is late because of rank 3
        ([waits(0, 1), waits(1, 0)], (0, 1)),
        ([waits(0, 1), waits(1, 2), waits(2, 0)], (0, 1, 2)),
        ([done(0), waits(1, 0), waits(2, 1), waits(3, 2)], (0,)),  # those behind rank 1 are innocent, and so is it
        ([done(0), waits(1, 0, 2), done(2)], (1,)),  # waits for two that have left
        ([inside(0, A), waits(1, 0), waits(2, 1), inside(3, A)], (0, 1)),  # rank 0 went on without a message that rank 1 waits for
    ],
)
def test_who_quarrels_most_comes_first(states: list[RankState], first: tuple[int, ...]) -> None:
    assert suspects(*states).first == first


def test_many_who_wait_for_two_that_wait_for_each_other_are_innocent() -> None:
    pair = (6, 7)
    crowd = [inside(rank, call(group=tuple(range(8)))) for rank in range(6)]
    found = suspects(*crowd, inside(6, call(group=pair)), inside(7, call("float64[4]", group=pair)))
    assert found.first == (6, 7)


@pytest.mark.parametrize(
    "others", [[done(0, call(group=(0, 1))), done(1, call(group=(0, 1)))], [inside(r, call(site="f.py:9"), call(group=(0, 1))) for r in (0, 1)]]
)
def test_a_group_that_overlaps_those_of_others_at_the_same_line(others: list[RankState]) -> None:
    found = suspects(*others, inside(2, call(group=(2, 3))), inside(3, call(group=(1, 3))))
    assert found.first == (3,)
    assert set(found.involved) == {0, 1, 2, 3}


def test_a_line_where_a_rank_calls_in_several_groups_says_nothing_about_them() -> None:
    left, right = call(group=(0, 1)), call(group=(1, 2))
    found = suspects(done(0, left), inside(1, right, left), inside(2, call("float64[4]", group=(1, 2))))
    assert found.first == (1, 2)


def test_of_two_quarrels_that_have_nothing_in_common_one_is_told() -> None:
    assert suspects(waits(0, 1), waits(1, 0), waits(2, 3), waits(3, 2)).involved == (0, 1)


def test_calls_of_two_groups_of_the_same_ranks_are_not_taken_for_each_other() -> None:
    named = call()._replace(group_name="dp")
    states = [inside(rank, call(number=1), call("int64[1]")) if rank else inside(0, named, call("int64[1]")) for rank in range(4)]
    assert suspects(*states).first == (0,)


def test_who_waits_for_anybody_is_told_by_itself() -> None:
    assert circle({2: [], 3: [2]}) == {2}
    assert suspects(waits(0, -1), waits(1, 0)).first == (0,)


def test_the_earlier_of_two_calls_is_compared() -> None:
    late = [inside(rank, call(number=1), A) for rank in (0, 1)]
    assert next(iter(suspects(*late, inside(2, A), inside(3, B)).calls.values())).number == 0
