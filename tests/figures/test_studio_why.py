"""Why a slot is empty: each of the five reasons, in words, and every gap of every known schedule has one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partkit.cluster import Link
from partkit.figures.studio import Board
from partkit.figures.studio_why import arrivals, why
from partkit.pipeline_parallel import SCHEDULES, Costs, make


def board(name: str = "one_f_one_b", ranks: int = 4, microbatches: int = 8) -> Board:
    return Board.of(make(name, ranks, microbatches))


@pytest.mark.parametrize(
    ("rank", "slot", "words"),
    [
        (0, 2.5, "Rank 0 runs 0F2, the forward of stage 0 on micro-batch 2, from 2 to 3."),
        (3, 0, "Rank 3 waits: its next action 3F0 needs 2F0. Rank 2 begins it only at 2 and ends it at 3."),
        (0, 8, "Rank 0 waits: its next action 0B0 needs 1B0. Rank 1 is running it, until 10."),
        (0, 4, "It could run 0F4, 0F5, 0F6, 0F7 now, but its order puts them later."),
        (3, 30, "Rank 3 has done all its work, at 27. The last rank ends at 33."),
        (0, 40, "Rank 0 has done all its work, at 33."),
    ],
)
def test_reasons(rank: int, slot: float, words: str) -> None:
    assert words in why(board(), rank, slot)


def test_a_message_that_is_on_its_way() -> None:
    slow = replace(board(ranks=2, microbatches=2), link=Link(0.5, 1e9))
    assert why(slow, 1, 1.2) == "Rank 1 waits: its next action 1F0 needs 0F0. Rank 0 has done it at 1, and its message is on the way until 1.5."
    assert why(slow, 1, 0.5) == "Rank 1 waits: its next action 1F0 needs 0F0. Rank 0 is running it, until 1; its message arrives at 1.5."


def test_a_message_that_queues_behind_another_arrives_when_the_plan_says() -> None:
    """Two activations of 1 unit each on one port: the second waits for the first."""
    crowded = replace(board("gpipe", 2, 2), link=Link(0.0, 1.0), costs=Costs(forward=0.5, activation_bytes=1))
    assert [[arrival.time for arrival in arrivals(crowded, 1, slot.action)] for slot in crowded.lines[1][:2]] == [[1.5], [2.5]]


def test_where_nothing_was_placed_it_says_what_can_be() -> None:
    begun = Board.blank(2, 2).place("0F0")
    assert why(begun, 0, 5) == "Nothing has been placed here yet. Rank 0 can run next: 0F1."
    assert why(begun, 1, 5) == "Nothing has been placed here yet. Rank 1 can run next: 1F0."
    assert why(Board.blank(2, 2), 1, 0) == (
        "Nothing can be placed on rank 1 yet: 1F0 needs 0F0, the forward of stage 0 on micro-batch 0, which has not been placed: it belongs on rank 0."
    )
    assert why(Board.blank(1, 9), 0, 0) == "Nothing has been placed here yet. Rank 0 can run next: 0F0, 0F1, 0F2, 0F3 and 5 more."


@pytest.mark.parametrize(("rank", "slot", "words"), [(4, 0, r"why\(rank=4\): the ranks of this schedule are 0 to 3"), (0, -1, r"why\(slot=-1\)")])
def test_refusals(rank: int, slot: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        why(board(), rank, slot)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_gap_has_a_reason(name: str) -> None:
    found = replace(board(name), link=Link(0.25, 1e9))
    for rank, line in enumerate(found.lines):
        ends = [0.0, *(slot.end for slot in line)]
        for slot, end in zip(line, ends, strict=False):
            if slot.start > end + 1e-9:
                words = why(found, rank, (slot.start + end) / 2)
                assert words.startswith(f"Rank {rank} waits: its next action {slot.action} needs "), words
