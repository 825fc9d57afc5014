"""A board: what is possible is what can run, every known schedule can be built, and each refusal has its code and its reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partkit.figures.studio import Board, Refused
from partkit.figures.studio_state import FORWARD, SPLIT, WHOLE, Kinds, per_stage
from partkit.pipeline_parallel import SCHEDULES, Costs, Schedule, make, simulate, violations
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.rules import gives


def small() -> Board:
    """rank 0: 0F0, rank 1: 1F0; 2 micro-batches."""
    return Board.blank(2, 2).place("0F0").place("1F0")


# -- what can be placed ----------------------------------------------------------------------------------------------


def test_an_empty_board_offers_forwards_of_the_first_stage_only() -> None:
    board = Board.blank(3, 2)
    assert [board.possible(rank) for rank in range(3)] == [(Action(0, "F", 0), Action(0, "F", 1)), (), ()]


def test_gradients_that_others_wait_for_come_first_and_weights_last() -> None:
    board = Board.blank(1, 3, SPLIT).place("0F0").place("0F1").place("0I0")
    assert [str(action) for action in board.possible(0)] == ["0I1", "0F2", "0W0"]


def test_a_backward_begun_in_two_parts_is_ended_in_two_parts() -> None:
    board = Board.blank(1, 1).place("0F0").place("0I0")
    assert [str(action) for action in board.possible(0)] == ["0W0"]
    assert board.place("0W0").num_left == 0


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([FORWARD, WHOLE, SPLIT]), st.integers(0, 2**32))
def test_whatever_is_placed_from_what_is_possible_can_run(ranks: int, microbatches: int, kinds: Kinds, seed: int) -> None:
    board, chance = replace(Board.blank(ranks, microbatches), kinds=kinds), random.Random(seed)
    while board.num_left:
        offers = [action for rank in range(ranks) for action in board.possible(rank)]
        assert offers, f"stuck with {board.num_left} left:\n{board.schedule}"
        board = board.place(chance.choice(offers))
        assert board.wrong == []
    assert violations(board.schedule) == []


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_known_schedule_can_be_built_in_the_order_of_its_times(name: str) -> None:
    whole = Board.of(make(name, 4, 8))
    slots = sorted((slot.start, slot.end, slot.action) for line in whole.lines for slot in line)
    board = replace(whole, schedule=whole.schedule.with_ranks(((),) * 4))
    for _, _, action in slots:
        assert board.refusal(action) is None
        board = board.place(action)
    assert board.schedule == whole.schedule and board.num_left == 0


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_known_schedule_leaves_nothing_to_place_and_nothing_wrong(name: str) -> None:
    board = Board.of(make(name, 4, 8))
    assert (board.num_left, board.wrong) == (0, []) and all(board.possible(rank) == () for rank in range(4))


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("move", "rank", "code", "reason"),
    [
        ("1F1", None, "too-early", "1F1 needs 0F1, the forward of stage 0 on micro-batch 1, which has not been placed: it belongs on rank 0"),
        ("0B0", None, "too-early", "0B0 needs 1B0, the backward of stage 1 on micro-batch 0, which has not been placed: it belongs on rank 1"),
        ("0F0", None, "twice", "0F0 is on the board already, on rank 0"),
        ("5F0", None, "unknown", "there is no stage 5; the last is 1"),
        ("0F2", None, "unknown", "there is no micro-batch 2; the last is 1"),
        ("1B0", 0, "wrong-rank", "1B0 is on rank 0, but stage 1 lies on rank 1"),
        ("0SEND_F0", None, "unknown", "messages follow from the actions that make them"),
    ],
)
def test_refusals(move: str, rank: int | None, code: str, reason: str) -> None:
    violation = small().refusal(move, rank)
    assert violation is not None and violation.code == code and reason in violation.reason
    with pytest.raises(Refused) as refused:
        small().place(move, rank)
    assert refused.value.violation == violation


def test_a_word_that_is_no_action_is_an_error_of_its_own() -> None:
    assert small().place("0f1").schedule == small().place("0F1").schedule
    with pytest.raises(ValueError, match="'x' is no action; write stage, kind and micro-batch, as in 2F0: kinds are F, B, and I and W for a backward in two"):
        small().refusal("x")


def test_a_micro_batch_of_the_other_direction_is_refused() -> None:
    board = Board.of(make("chimera", 2, 2).with_ranks([(), ()]))
    violation = board.refusal("0F1")
    assert violation is not None and violation.reason == "0F1 on rank 0: stage 0 belongs to replica 0, micro-batch 1 to replica 1"


def test_the_memory_cap_counts_forwards_before_there_is_any_backward() -> None:
    board = replace(Board.blank(1, 3), memory_cap=2.0).place("0F0").place("0F1")
    violation = board.refusal("0F2")
    assert violation is not None and (violation.code, violation.reason) == ("over-memory", "after 0F2 rank 0 keeps 3, and may keep 2")
    assert [str(action) for action in board.possible(0)] == ["0B0", "0B1"]
    assert board.place("0B0").refusal("0F2") is None


def test_nothing_is_kept_where_there_is_no_backward() -> None:
    board = replace(Board.blank(1, 3, FORWARD), memory_cap=1.0).place("0F0").place("0F1").place("0F2")
    assert board.wrong == []


# -- other moves -----------------------------------------------------------------------------------------------------


def test_an_action_moves_within_its_row_and_times_follow() -> None:
    board = Board.of(make("gpipe", 2, 2))
    moved = board.move("1B0", 1)
    assert str(moved.schedule) == "rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1"
    assert (board.plan.makespan, moved.plan.makespan) == (9.0, 9.0)


@pytest.mark.parametrize(
    ("act", "code", "reason"),
    [
        (lambda board: board.move("0B0", 0), "too-early", "0B0 needs 0F0, which comes later on the same rank 0"),
        (lambda board: board.move("0B0", 1), "deadlock", "none of them can move"),
        (lambda board: board.move("0B0", 0, 1), "wrong-rank", "0B0 is on rank 1, but stage 0 lies on rank 0"),
        (lambda board: board.move("0F7", 0), "missing", "0F7 is not on the board"),
        (lambda board: board.remove("0F0"), "missing", "0F0 can't be taken away: 0B0 on rank 0 needs it"),
        (lambda board: board.remove("0F7"), "missing", "0F7 is not on the board"),
    ],
)
def test_moves_that_are_refused(act: Callable[[Board], Board], code: str, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        act(Board.of(make("gpipe", 2, 2)))
    assert refused.value.violation.code == code and reason in str(refused.value)


def test_removing_is_the_reverse_of_placing() -> None:
    board = Board.of(make("one_f_one_b", 3, 4))
    assert board.remove("0B3").place("0B3").schedule == board.schedule


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one_f_one_b", "interleaved", "zb_v", "chimera"])
def test_costs_are_those_of_all_layers_of_a_rank(name: str) -> None:
    """Each rank works as long, whatever the number of its stages: 8 micro-batches of F + I + W = 3."""
    board = Board.of(make(name, 4, 8))
    assert [sum(slot.end - slot.start for slot in line) for line in board.lines] == [24.0] * 4


def test_costs_by_stage_are_taken_as_given() -> None:
    costs = Costs(forward=[1, 2, 3, 4], memory=2.0)
    assert per_stage(costs, make("interleaved", 2, 4)) == replace(costs, backward_input=0.5, backward_weight=0.5, step=0.0, memory=1.0)


@pytest.mark.parametrize("name", SCHEDULES)
def test_times_are_those_of_the_simulator(name: str) -> None:
    board = Board.of(make(name, 4, 8))
    trace = simulate(board.schedule, board.stage_costs)
    events = {(event.rank, event.tag): (event.start, event.end) for event in trace.events if event.kind == "compute"}
    assert {(rank, str(slot.action)): slot[1:] for rank, line in enumerate(board.lines) for slot in line} == events


def test_a_board_knows_who_made_what() -> None:
    board = Board.of(Schedule.parse("rank 0: 0F0 0B0"))
    assert board.made == {thing: action for action in board.schedule.ranks[0] for thing in gives(action)}


def test_overlapped_pairs_are_taken_apart() -> None:
    assert all(not action.parts for line in Board.of(make("dual_pipe_v", 4, 8)).schedule.ranks for action in line)


def test_a_schedule_with_a_hole_is_wrong() -> None:
    board = Board.of(Schedule.parse("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1B0 1F1 1B1"))
    assert [violation.reason for violation in board.wrong] == [
        "1B0 needs 1F0, the forward of stage 1 on micro-batch 0, which has not been placed: it belongs on rank 1"
    ]
