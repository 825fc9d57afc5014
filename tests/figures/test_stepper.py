"""The story of a run: rounds, boards, words, and the picture."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.figures.stepper import story
from partkit.figures.stepper_bundle import StepperEncoder, bundle, places, spec
from partkit.figures.stepper_still import MOST_COLUMNS, board_at, storyboard
from partkit.mesh import Mesh
from partkit.tracing import Event, Trace
from tests.widgets.recorded import Ring, held, ring


def trace_of(*messages: tuple[int, int, float, float, float]) -> Trace:
    """Messages as (src, dst, send posted, receive posted, done); tags are their numbers."""
    events = []
    for number, (src, dst, sent, received, done) in enumerate(messages):
        events.append(Event(src, "send", sent, done, dst, 8, str(number)))
        events.append(Event(dst, "recv", received, done, src, 8, str(number)))
    return Trace.from_events(events)


def order(trace: Trace) -> list[tuple[int, str]]:
    return [(step.round, step.send.tag) for step in story(trace).steps]


# -- rounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], []),
        ([(0, 1, 0, 0, 1), (1, 2, 1, 0, 2), (2, 3, 2, 0, 3)], [(1, "0"), (2, "1"), (3, "2")]),  # a chain
        ([(0, 1, 0, 0, 3), (0, 2, 0, 0, 1), (0, 3, 0, 0, 2)], [(1, "0"), (1, "1"), (1, "2")]),  # all posted at once
        ([(0, 1, 0, 0, 1), (0, 2, 1, 0, 2), (0, 3, 2, 0, 3)], [(1, "0"), (2, "1"), (3, "2")]),  # one after another
        ([(0, 1, 0, 0, 1), (1, 0, 0, 0, 1)], [(1, "0"), (1, "1")]),  # an exchange
        ([(0, 0, 0, 0, 1), (0, 1, 1, 0, 2)], [(1, "0"), (2, "1")]),  # first to itself
        ([(1, 2, 5, 5, 6), (0, 1, 0, 0, 1)], [(1, "1"), (2, "0")]),  # given in another order
        ([(0, 1, 0, 0, 0), (1, 2, 0, 0, 0)], [(1, "0"), (1, "1")]),  # without duration nothing comes after
    ],
)
def test_a_round_is_one_more_than_what_came_before(messages: list[Any], expected: list[tuple[int, str]]) -> None:
    assert order(trace_of(*messages)) == expected


def test_a_send_that_does_not_wait_for_its_receive_counts_too() -> None:
    events = [Event(0, "send", 0, 1, 1, 8, "a"), Event(1, "recv", 5, 6, 0, 8, "a"), Event(0, "send", 1, 2, 2, 8, "b"), Event(2, "recv", 0, 2, 0, 8, "b")]
    assert order(Trace.from_events(events)) == [(1, "a"), (2, "b")]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 5), st.integers(0, 5), st.integers(1, 3)), max_size=12))
def test_no_message_comes_before_one_that_it_waits_for(drawn: list[tuple[int, int, int, int, int]]) -> None:
    messages = [(src, dst, sent, received, max(sent, received) + length) for src, dst, sent, received, length in drawn]
    steps = story(trace_of(*messages)).steps
    assert sorted(int(step.send.tag) for step in steps) == list(range(len(messages)))
    for later, step in enumerate(steps):
        src, dst, sent, received, _ = messages[int(step.send.tag)]
        for other in steps[later:]:
            a, b, _, _, done = messages[int(other.send.tag)]
            before = (src in (a, b) and done <= sent) or (dst in (a, b) and done <= received)
            assert not before and (other.round >= step.round)


def test_a_ring_has_as_many_messages_a_round_as_ranks() -> None:
    steps = story(ring(5, 7)).steps
    assert [step.round for step in steps] == [number for number in range(1, 9) for _ in range(5)]
    assert [step.src for step in steps[:5]] == list(range(5))


# -- boards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "num_elements"), [(2, 4), (3, 4), (5, 3), (4, 0)])
def test_boards_after_each_round_are_what_the_ranks_held(size: int, num_elements: int) -> None:
    made, told = Ring(size, num_elements), story(ring(size, num_elements))
    for number in range(1, size):
        made.step(0.0, "", 1 - number, add=True)
        for rank in range(size):
            (strip,) = board_at(told.boards[rank], number * size)
            assert (strip.values, strip.who) == (tuple(map(str, made.values[rank])), tuple(made.sets[rank]))
    assert all(board_at(told.boards[rank], len(told.steps))[0].who == (2**size - 1,) * num_elements for rank in range(size))


def test_a_board_shows_nothing_that_a_later_message_has_brought() -> None:
    told = story(ring(4, 4))
    for before in range(len(told.steps) + 1):
        known = [1 << rank for rank in range(4)]  # whose data can have come to each rank at all
        for step in told.steps[:before]:
            known[step.dst] |= step.who
        for rank in range(4):
            (strip,) = board_at(told.boards[rank], before)
            assert all(who & ~known[rank] == 0 for who in strip.who)


def test_a_step_says_what_it_carries_from_where_to_where() -> None:
    step = story(ring(4, 8)).steps[4]  # round 2, rank 0 to rank 1
    assert (step.src, step.dst, step.values, step.sets, step.who) == (0, 1, ("42", "44"), (0b1001, 0b1001), 0b1001)
    assert (step.taken, step.put, step.what) == ((0, 6), (0, 6), "float32[2]")


def test_a_run_without_values_has_steps_and_no_boards() -> None:
    told = story(ring(3, 4, recorded=False))
    assert (told.recorded, told.boards, len(told.steps), told.steps[0].values) == (False, (), 12, ())


def test_memory_that_no_message_touches_is_left_out() -> None:
    trace = ring(2, 2)
    other = trace.sights[0].strips[0]._replace(number=9)
    trace.sights[0] = trace.sights[0]._replace(strips=(*trace.sights[0].strips, other))
    assert all(strip.number == 0 for board in story(trace).boards[0] for strip in board.strips)


def test_more_messages_than_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partkit.figures.stepper.MOST_STEPS", 5)
    told = story(ring(3, 3))
    assert (len(told.steps), told.num_left_out) == (5, 7)
    assert "7 later messages not shown" in bundle(ring(3, 3))["text/plain"]


# -- a run that goes on ----------------------------------------------------------------------------------------------


def test_held_messages_wait_and_what_has_arrived_counts_although_its_sender_has_not_looked() -> None:
    before, after = story(held()), story(held(1))
    assert [(w.sight.rank, w.sight.peer, w.held) for w in before.waiting] == [(0, 1, True), (1, 0, True)]
    assert [(w.sight.rank, w.held) for w in after.waiting] == [(1, True)]
    assert [(step.src, step.dst, step.values) for step in after.steps] == [(0, 1, ("1",))]


def test_what_was_let_go_and_has_not_arrived_is_on_its_way() -> None:
    trace = held()
    trace.sights.append(trace.sights[0]._replace(moment="go"))
    assert [(w.sight.rank, w.held) for w in story(trace).waiting] == [(0, False), (1, True)]


def test_messages_that_were_let_go_one_by_one_come_in_the_order_of_their_arrival() -> None:
    trace = held(2)
    trace.sights[:] = [sight._replace(time=-sight.time) for sight in trace.sights]
    assert [step.src for step in story(trace).steps] == [0, 1]
    backwards = Trace.from_events([e._replace(end=9.0 - e.end) for e in trace.events], size=2)
    backwards.sights, trace = trace.sights, backwards
    trace.finished.clear()
    assert [step.src for step in story(trace).steps] == [1, 0]


def test_the_encoder_sends_the_story_when_it_has_changed() -> None:
    trace = held()
    encoder = StepperEncoder(trace)
    assert encoder.encode() and encoder.encode() == b"" and encoder.num_events == 1
    trace.sights.append(trace.sights[0]._replace(moment="go"))
    block = encoder.encode()
    assert block and encoder.num_events == 2
    head = json.loads(block[8 : 8 + int.from_bytes(block[:8], "little")])
    assert head["n"] == 2 and [row[5] for row in head["waiting"]] == [0, 1]
    trace.finished.set()
    assert encoder.encode() and encoder.story.waiting == ()


def test_a_long_run_that_goes_on_is_told_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partkit.figures.stepper_bundle.MOST_LIVE_EVENTS", 3)
    trace = ring(2, 2, recorded=False)
    trace.finished.clear()
    encoder = StepperEncoder(Trace(2))
    assert encoder.encode()
    encoder.trace = trace
    assert encoder.encode() == b""
    trace.finished.set()
    assert encoder.encode() and len(encoder.story.steps) == 4


# -- words and pictures ----------------------------------------------------------------------------------------------


def test_the_text_is_the_whole_story_of_a_small_run() -> None:
    assert bundle(ring(2, 2), "Ring")["text/plain"].splitlines() == [
        "Ring: 2 ranks, 4 messages in 2 rounds, 16 bytes",
        "round  messages                               bytes  tag",
        "    1  0 -> 1, 1 -> 0                             8  reduce-scatter 1",
        "    2  0 -> 1, 1 -> 0                             8  all-gather 1",
        "rank 0 holds [10 12] of ranks 0-1",
        "rank 1 holds [10 12] of ranks 0-1",
    ]


@pytest.mark.parametrize("trace", [ring(2, 2), ring(16, 16), ring(16, 64), ring(8, 3, recorded=False), Trace.from_events([], size=4), held(1)])
def test_the_bundle_is_small_plain_and_safe(trace: Trace) -> None:
    made = bundle(trace)
    assert len(made["text/html"]) < 200_000
    assert "<script" not in made["text/html"] and "<svg" not in made["text/html"] and 'alt="Storyboard of ' in made["text/html"]
    json.dumps(spec(story(trace)))


def test_the_storyboard_has_a_column_a_round_as_far_as_they_fit() -> None:
    few, many = storyboard(story(ring(3, 3))), storyboard(story(ring(8, 8)))
    assert [f"after round {k}<" in few for k in range(1, 6)] == [True] * 4 + [False]
    assert many.count("after round") == MOST_COLUMNS - 1 and "after round 14<" in many


def test_layers_fill_up_as_ranks_contribute() -> None:
    """At the start each rank's own layer, at the end all."""
    svg = storyboard(story(ring(3, 3)))
    blue, orange, green = (svg.count(f'z" fill="{color}"') for color in ("#0072B2", "#E69F00", "#009E73"))
    assert blue == orange == green  # the ring treats all alike
    assert blue == 1 + 2 + 3 + 3 + 3  # boards that hold rank 0's data, column by column


@pytest.mark.parametrize("size", range(1, 40))
def test_cards_have_places_of_their_own(size: int) -> None:
    found = places(size)
    assert len({tuple(place) for place in found}) == size
    assert np.abs(found).max() <= 1


def test_a_mesh_is_a_grid_and_must_fit() -> None:
    assert places(6, Mesh(dp=2, tp=3))[4] == [0.0, 1.0]
    assert places(8, Mesh(pp=2, dp=2, tp=2))[7] == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"Mesh\(dp=2, tp=2\).*4 ranks, the run 6"):
        places(6, Mesh(dp=2, tp=2))
