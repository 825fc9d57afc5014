"""Beside the known schedules: the literature's numbers, and what a board is called while it is being built."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partkit.cluster import Link
from partkit.figures.studio import Board
from partkit.figures.studio_rivals import measures, name_of, rivals
from partkit.figures.studio_state import FORWARD
from partkit.pipeline_parallel import SCHEDULES, Costs, make


def test_numbers_are_those_of_the_literature() -> None:
    """(m + p - 1)(F + B) for GPipe and 1F1B; the bubble by v less when interleaved; p - 1 of F + I - W for ZB-H1."""
    found = {rival.name: rival.measures for rival in rivals(Board.blank(4, 8))}
    assert [(found[name].makespan, found[name].peak) for name in ("GPipe", "1F1B")] == [(33.0, 8.0), (33.0, 4.0)]
    assert found["GPipe"].bubble == found["1F1B"].bubble == pytest.approx(3 / 11)
    assert found["interleaved 1F1B"].makespan == 24 + 9 / 2
    assert found["ZB-H1"].makespan == 24 + 3 and found["ZB-H1"].peak == 4.0


def test_sizes_of_which_there_is_no_schedule_are_left_out() -> None:
    names = {rival.key for rival in rivals(Board.blank(3, 5))}
    assert "chimera" not in names and "gpipe" in names
    assert [rival.key for rival in rivals(Board.blank(3, 5, FORWARD))] == ["forward_only"]


def test_costs_of_four_stages_compare_only_schedules_of_four_stages() -> None:
    board = replace(Board.blank(4, 4), costs=Costs(forward=[1, 2, 1, 1]))
    assert {len(rival.board.schedule.placement) // rival.board.schedule.replicas for rival in rivals(board)} == {4}


def test_an_earlier_answer_gives_the_schedules_and_new_times() -> None:
    first = rivals(Board.blank(4, 8))
    again = rivals(replace(Board.blank(4, 8), link=Link(1.0, 1e9)), first)
    assert again == rivals(replace(Board.blank(4, 8), link=Link(1.0, 1e9)))
    assert all(one.order is other.order for one, other in zip(again, first, strict=True))
    assert all(rival.board.schedule.num_ranks == 2 for rival in rivals(Board.blank(2, 8), first))


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "forward_only"])
def test_a_known_schedule_is_recognized_and_so_is_its_beginning(name: str) -> None:
    board = Board.of(make(name, 4, 8))
    others, known = rivals(board), make(name, 4, 8).name
    assert name_of(board, others) == known
    slots = sorted((slot.start, slot.end, slot.action) for line in board.lines for slot in line)
    half = replace(board, schedule=board.schedule.with_ranks(((),) * 4))
    for _, _, action in slots[: len(slots) // 2]:
        half = half.place(action)
    assert known in name_of(half, others).removeprefix("so far as ")


def test_names_of_what_is_none() -> None:
    board = Board.blank(2, 2)
    others = rivals(board)
    assert name_of(board, others) == "nothing placed yet"
    assert name_of(board.place("0F1"), others) == "so far as no known schedule"
    backwards = Board.of(make("gpipe", 1, 2)).move("0F1", 0)
    assert name_of(backwards, rivals(backwards)) == "an order without a name"


def test_memory_of_a_board_counts_what_is_begun() -> None:
    assert measures(Board.blank(1, 4).place("0F0").place("0F1")).peak == 2.0
