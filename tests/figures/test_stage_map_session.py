"""A cut that is moved: what becomes of the slowest rank and of the bubble, refusals, and the way back."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.figures.stage_map import Layer
from partkit.figures.stage_map_session import Measure, Session, Split, planned, told
from partkit.figures.stage_map_spec import MOST_BARS, bars, chart, look
from partkit.pipeline_parallel import forward_only, gpipe, interleaved, one_f_one_b, simulate
from tests.pipeline_parallel.sizes import quickly

LAYERS = [(name, time, 1000.0 * (i + 1), 500.0) for i, (name, time) in enumerate([("a", 3.0), ("b", 3.0), ("c", 6.0), ("d", 6.0), ("e", 3.0), ("f", 3.0)])]


def test_the_bubble_is_that_of_the_schedule_if_stages_are_even_and_more_if_not() -> None:
    even = Session([("a", 6.0, 1, 1), ("b", 6.0, 1, 1)], [1], gpipe(2, 4))
    assert even.split.bubble == pytest.approx(even.even) == pytest.approx(1 / 5)  # (p - 1) / (m + p - 1)
    session = Session([("a", 3.0, 1, 1), ("b", 3.0, 1, 1), ("c", 6.0, 1, 1)], [1], gpipe(2, 4))
    # rank 1 works 9 a micro-batch, rank 0 3: forwards end after 1 + 4 * 3, backwards after 4 * 6 more, rank 0 has one left, 2
    assert session.split.plan.makespan == pytest.approx(1 + 12 + 24 + 2)
    assert session.split.bubble == pytest.approx(1 - 48 / (2 * 39)) and session.even == pytest.approx(1 / 5)
    assert session.move(1, "c") == "stage 1 begins at c: slowest is rank 0 with 6 s, before rank 1 with 9 s; bubble 20 %, before 38.5 %"
    assert session.split.line(session.even) == "planned: makespan 30 s, bubble 20 %; with even stages 20 %"


def test_without_a_schedule_or_without_times_there_is_no_bubble() -> None:
    assert Session(LAYERS, [3]).split.line(0.0) == ""
    assert Session([("a", 0, 1, 1), ("b", 0, 1, 1)], [1], gpipe(2, 2)).split.line(0.0) == ""
    assert len(planned(None, [1.0])) == 0


def test_a_forward_only_schedule_has_all_the_time_in_its_forwards() -> None:
    assert planned(forward_only(2, 3), [2.0, 2.0]).makespan == pytest.approx(8.0)


def test_undo_and_redo_go_back_and_forward_and_a_drag_is_one_step() -> None:
    session = Session(LAYERS, [2, 4])
    session.move(1, 1)
    for to in (3, 4, 5):
        session.move(2, to, gesture="drag 1")
    session.move(2, 4, gesture="drag 2")
    seen = [session.split.cut]
    for _ in range(4):
        session.undo()
        seen.append(session.split.cut)
    assert seen == [(1, 4), (1, 5), (1, 4), (2, 4), (2, 4)]
    assert session.undoable == (False, True) and session.undo() == ""
    for _ in range(3):
        session.redo()
    assert session.split.cut == (1, 4) and session.undoable == (True, False)
    session.undo()
    session.move(1, 2)
    assert session.undoable == (True, False)  # what was undone is gone


def test_a_drag_is_judged_by_where_it_began() -> None:
    session = Session(LAYERS, [2, 4])
    session.move(1, 3, gesture=1)
    assert session.move(1, 1, gesture=1) == "stage 1 begins at b: slowest is rank 1 with 15 s, before rank 1 with 12 s"


@pytest.mark.parametrize(
    ("stage", "layer", "words"),
    [
        (0, 1, r"move\(0, ...\): stages that can begin elsewhere are 1 to 2"),
        (3, 1, "stages that can begin elsewhere are 1 to 2"),
        (1, 4, r"move\(1, 4\): stage 1 can begin at layers 1 to 3, so that no stage is empty; this is layer 4"),
        (2, "f", None),
        (2, 6, "stage 2 can begin at layers 3 to 5"),
        (1, "a", "can begin at layers 1 to 3, so that no stage is empty; this is layer 0"),
        (1, "g", "there is no layer 'g'; there are a, b, c, d, e, f"),
    ],
)
def test_a_move_that_is_not_possible_says_why(stage: int, layer: int | str, words: str | None) -> None:
    session = Session(LAYERS, [2, 4])
    if words is None:
        session.move(stage, layer)
        assert session.split.cut == (2, 5)
        return
    with pytest.raises(ValueError, match=words):
        session.move(stage, layer)
    assert session.split.cut == (2, 4) and session.undoable == (False, False)


def test_refusals_of_cuts_and_measures() -> None:
    session = Session(LAYERS, [2, 4])
    with pytest.raises(ValueError, match=r"cut=\[2\]: this map has 3 stages, so it takes 2 numbers"):
        session.set([2])
    with pytest.raises(ValueError, match="a cut is rising numbers"):
        session.set([4, 2])
    with pytest.raises(ValueError, match=r"balance\('speed'\): it is one of time, parameters, activations"):
        session.balance("speed")  # type: ignore[arg-type]


@quickly
@given(st.data())
def test_balance_is_as_good_as_the_best_of_all_cuts(data: st.DataObject) -> None:
    sizes = st.integers(0, 9)
    layers = data.draw(st.lists(st.tuples(sizes, sizes, sizes), min_size=3, max_size=7))
    by: Measure = data.draw(st.sampled_from(["time", "parameters", "activations"]))
    session = Session([(str(i), *amounts) for i, amounts in enumerate(layers)], [1, 2], one_f_one_b(3, 4))
    session.balance(by)
    every = combinations(range(1, len(layers)), 2)
    assert session.split.worst(by)[1] == min(Split(session.split.layers, cut, session.split.schedule).worst(by)[1] for cut in every)


def test_what_is_said_of_several_stages_and_of_none() -> None:
    layers = tuple(Layer(*layer) for layer in LAYERS)
    assert told(Split(layers, (1, 2, 3, 4, 5)), Split(layers, (1, 2, 3, 4, 5)), "parameters") == "as before: most parameters are on rank 5 with 6 kB"
    assert told(Split(layers[:5], (1, 2)), Split(layers[:5], (2, 3))).startswith("stage 1 begins at c, stage 2 begins at d: slowest is rank 2")


def test_the_chart_has_what_every_rank_has_and_the_plan() -> None:
    session = Session(LAYERS, [1, 2, 4], interleaved(2, 4, 2))
    found = chart(session)
    assert [own[:2] for own in found["totals"]] == [[15.0, 8000.0], [9.0, 13000.0]]
    assert found["means"][0] == 12.0 and found["mean_words"][0] == "12 s"
    assert [(stage["rank"], stage["size"]) for stage in found["stages"]] == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert len(found["bars"]) == 4 * 4 * 2 and max(bar[4] for bar in found["bars"]) == session.split.plan.makespan
    assert {(bar[0], bar[1]) for bar in found["bars"]} == {(0, 0), (1, 1), (0, 2), (1, 3)}


def test_plans_with_too_many_actions_are_not_drawn() -> None:
    assert len(bars(simulate(gpipe(10, MOST_BARS // 20)))) == MOST_BARS
    assert bars(simulate(gpipe(10, MOST_BARS // 20 + 1))) == []


def test_colours_of_stages_differ_in_both_themes() -> None:
    light, dark = look((Layer("a", 1, 1, 1),))["colors"]
    for theme in (light, dark):
        fills = [shade[0] for stage in theme for shade in stage]
        assert len(fills) == 21 and len(set(fills)) == len(fills)
