"""What the browser gets is plain JSON, complete and small."""

from __future__ import annotations

import json

import pytest

from partkit.figures.palette import contrast
from partkit.figures.studio_look import KINDS, look, looks
from partkit.figures.studio_measured import MeasuredEncoder, computations, in_units, measures
from partkit.figures.studio_session import Session
from partkit.figures.studio_spec import Overlay, headline, rows, spec
from partkit.pipeline_parallel import gpipe, simulate
from partkit.tracing import Event, Recorder, Trace


@pytest.mark.parametrize("session", [Session(None), Session("interleaved", 4, 8), Session("pipedream", 2, 3), Session("forward_only", 2, 3)])
def test_it_is_json_with_a_value_a_bar(session: Session) -> None:
    found = json.loads(json.dumps(spec(session), allow_nan=False))
    assert {len(column) for column in found["bars"].values()} == {sum(map(len, session.schedule.ranks))}
    assert len(found["rows"]) == len(found["offers"]) == len(found["ghosts"]) == session.schedule.num_ranks


def test_the_largest_stays_small() -> None:
    assert len(json.dumps(spec(Session("zb_v", 16, 64)))) < 400_000


def test_stages_of_a_rank_are_told_apart() -> None:
    bars = spec(Session("interleaved", 2, 2))["bars"]
    assert list(zip(bars["name"], bars["label"], bars["chunk"], strict=True))[:3] == [("0F0", "F0", 0), ("0F1", "F1", 0), ("2F0", "f0", 1)]
    assert spec(Session("interleaved", 2, 2))["rows"] == ["rank 0: 0, 2", "rank 1: 1, 3"]


def test_many_offers_are_counted() -> None:
    found = spec(Session(None, 2, 12))
    assert found["offers"][0] == [f"0F{i}" for i in range(8)] and found["more"] == [4, 0]


def test_the_table_puts_a_run_below_the_board_and_marks_what_is_the_same() -> None:
    session = Session("gpipe", 2, 2)
    found = rows(session, Overlay(simulate(gpipe(2, 2)), 0.5, "2 live ranks"))
    assert found[0] == ("on the board", "1", "9", "33 %", "2")
    assert found[1] == ("the same on 2 live ranks", "1", "18", "33 %", "2")
    assert [line[0] for line in found if "(as on the board)" in line[0]] == ["GPipe (as on the board)"]


def test_the_headline_counts_what_is_left() -> None:
    session = Session(None, 2, 2)
    session.place("0F0")
    assert "; 7 actions left to place" in headline(session)
    assert "1 micro-batch; makespan 3, bubble 0 %, at most 1 micro-batch kept" in headline(Session("gpipe", 1, 1))


# -- a run -----------------------------------------------------------------------------------------------------------


def test_only_what_is_named_like_an_action_is_measured() -> None:
    trace = Trace.from_events([Event(0, "compute", 1.0, 2.0, tag="0F0"), Event(0, "compute", 2.0, 3.0, tag="forward"), Event(0, "span", 0, 9, tag="step")])
    assert [one.name for one in computations(trace)] == ["0F0"]
    real = Trace.from_events([Event(0, "span", 0, 9, tag="0F1"), Event(0, "send", 9, 10, 1, 8, tag="0F1")])
    assert [one.name for one in computations(real)] == ["0F1"]
    assert in_units(trace, 0.5)[0][2:] == (0.0, 2.0)


def test_a_run_that_grows_is_sent_in_parts() -> None:
    trace, recorder = Trace(1), Recorder(0)
    encoder = MeasuredEncoder(trace)
    assert (encoder.encode(), encoder.num_events) == (b"", 0)
    for i in range(2):
        recorder.add("compute", i, i + 1, tag=f"0F{i}")
        trace.append(recorder.drain())
        assert f'"rows":[[0,"0F{i}",{i}.0,{i + 1}.0]]'.encode() in encoder.encode()
    assert (encoder.encode(), encoder.num_events) == (b"", 2)


def test_measures_of_an_empty_run() -> None:
    assert measures(Trace(2), 1.0, 0.0) == (0.0, 0.0, 0.0)


# -- colours ---------------------------------------------------------------------------------------------------------


def test_every_text_can_be_read_on_its_bar() -> None:
    assert all(contrast(one.fill, one.ink) >= 4.5 for theme in looks() for kind in theme for one in kind)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_forward_and_backward_of_one_micro_batch_differ_in_lightness(theme: str) -> None:
    for hue in range(7):
        forward, backward = (look(KINDS.index(kind), hue, theme).fill for kind in "FB")  # type: ignore[arg-type]
        assert contrast(forward, backward) > 1.5, (hue, theme)
