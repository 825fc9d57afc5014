"""Which numbers make which line, what travels to a browser, and what the still picture, the table and the text say."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.figures.curve import CurveEncoder, Line, condense, lines
from partkit.figures.curve_picture import Scale, bundle, digits, scale, spread
from partkit.figures.palette import LINES, MARKERS, PAGE, contrast
from partkit.tracing import Event, Recorder, Trace


def note(trace: Trace, rank: int, name: str, *values: float, recorders: dict[int, Recorder] | None = None) -> None:
    """Have a rank note some numbers, a second apart, as one batch."""
    recorder = (recorders if recorders is not None else {}).setdefault(rank, Recorder(rank))
    for value in values:
        recorder.add("metric", len(trace) + 0.5, len(trace) + 0.5, tag=name, value=value)
    trace.append(recorder.drain())


def trace_of(*ranks: Sequence[float], name: str = "loss", finished: bool = True) -> Trace:
    """A trace in which rank k notes the k-th sequence."""
    trace = Trace(len(ranks))
    for rank, values in enumerate(ranks):
        note(trace, rank, name, *values)
    if finished:
        trace.finished.set()
    return trace


def shapes(trace: Trace, *names: str) -> list[tuple[str, str, list[float]]]:
    return [(line.name, line.label, line.values.tolist()) for line in lines(trace, *names)]


# -- lines -----------------------------------------------------------------------------------------------------------


def test_ranks_that_note_the_same_share_a_line() -> None:
    trace = trace_of([2.0, 1.0], [2.0, 1.5], [2.0, 1.0], [2.0, 1.0])
    assert shapes(trace) == [("loss", "ranks 0, 2-3", [2.0, 1.0]), ("loss", "rank 1", [2.0, 1.5])]


def test_the_same_is_bit_for_bit() -> None:
    assert [label for _, label, _ in shapes(trace_of([0.3], [0.1 + 0.2]))] == ["rank 0", "rank 1"]
    assert [label for _, label, _ in shapes(trace_of([float("nan")], [float("nan")]))] == ["ranks 0-1"]


def test_a_rank_that_is_behind_shares_the_line_while_the_run_goes_on_and_not_after_it() -> None:
    trace = trace_of([3.0, 2.0, 1.0], [3.0, 2.0], finished=False)
    assert [label for _, label, _ in shapes(trace)] == ["ranks 0-1"]
    trace.finished.set()
    assert [label for _, label, _ in shapes(trace)] == ["rank 0", "rank 1"]


def test_a_rank_that_stopped_long_ago_does_not_hide_the_others() -> None:
    trace = trace_of([1.0], [1.0] * 500, [1.0] * 480, finished=False)
    assert [label for _, label, _ in shapes(trace)] == ["rank 0", "ranks 1-2"]


def test_names_choose_and_order_the_metrics() -> None:
    trace, recorders = Trace(1), dict[int, Recorder]()
    for name in ("loss", "accuracy", "norm"):
        note(trace, 0, name, 1.0, recorders=recorders)
    assert [line.name for line in lines(trace)] == ["loss", "accuracy", "norm"]
    assert [line.name for line in lines(trace, "norm", "loss", "norm")] == ["norm", "loss"]


def test_other_events_are_no_metrics() -> None:
    trace = Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="loss"), Event(0, "metric", 1.0, 1.0, tag="loss", value=4.0)])
    assert shapes(trace) == [("loss", "rank 0", [4.0])]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0]), max_size=4), min_size=1, max_size=6))
def test_every_note_of_a_finished_run_is_in_exactly_one_line(ranks: list[list[float]]) -> None:
    found = {rank: line.values.tolist() for line in lines(trace_of(*ranks)) for rank in line.ranks}
    assert found == {rank: values for rank, values in enumerate(ranks) if values}
    labels = [tuple(line.values) for line in lines(trace_of(*ranks))]
    assert len(labels) == len(set(labels))


# -- blocks ----------------------------------------------------------------------------------------------------------


def decode(block: bytes) -> tuple[dict[str, Any], list[float]]:
    """Header, and all numbers behind it."""
    size = struct.unpack("<Q", block[:8])[0]
    return json.loads(block[8 : 8 + size]), np.frombuffer(block[8 + size :]).tolist()


def test_blocks_hold_what_is_new() -> None:
    trace, recorders = Trace(2), dict[int, Recorder]()
    encoder = CurveEncoder(trace)
    assert decode(encoder.encode()) == ({"n": 1, "names": [], "lines": []}, [])
    assert encoder.encode() == b""
    note(trace, 0, "loss", 3.0, 2.0, recorders=recorders)
    note(trace, 1, "loss", 3.0, recorders=recorders)
    assert decode(encoder.encode()) == ({"n": 3, "names": ["loss"], "lines": [["loss", 0, "ranks 0-1", 0, 2]]}, [0.5, 0.5, 3.0, 2.0])
    note(trace, 0, "loss", 1.0, recorders=recorders)
    assert decode(encoder.encode())[0]["lines"] == [["loss", 0, "ranks 0-1", 2, 1]]


def test_a_rank_that_drifts_away_is_sent_whole() -> None:
    trace, recorders = Trace(2), dict[int, Recorder]()
    encoder = CurveEncoder(trace)
    for rank in (0, 1):
        note(trace, rank, "loss", 3.0, 2.0, recorders=recorders)
    encoder.encode()
    note(trace, 1, "loss", 9.0, recorders=recorders)
    note(trace, 0, "loss", 1.0, recorders=recorders)
    head, numbers = decode(encoder.encode())
    assert head["lines"] == [["loss", 0, "rank 0", 2, 1], ["loss", 1, "rank 1", 0, 3]]
    assert numbers[-3:] == [3.0, 2.0, 9.0]


def test_the_end_of_the_run_may_change_lines_without_a_note() -> None:
    trace = trace_of([2.0, 1.0], [2.0], finished=False)
    encoder = CurveEncoder(trace)
    encoder.encode()
    before = encoder.num_events
    trace.finished.set()
    assert [line[2] for line in decode(encoder.encode())[0]["lines"]] == ["rank 0", "rank 1"]
    assert encoder.num_events == before + 1  # so that a browser that missed it knows
    assert encoder.encode() == b""


def test_the_note_says_what_lines_cannot_show() -> None:
    encoder = CurveEncoder(trace_of([1.0, float("nan"), float("inf")]), ("loss", "los"))
    encoder.encode()
    assert encoder.note == "2 values not finite, nothing noted as 'los', but as 'loss'"


# -- pictures --------------------------------------------------------------------------------------------------------


def test_columns_keep_the_extremes_of_many_points() -> None:
    y = np.sin(np.arange(10_000.0))
    y[[1234, 7777]] = 50.0, -50.0
    found = condense(np.arange(10_000.0), y, 100)
    assert len(found.x) == 100
    assert (found.low.min(), found.high.max()) == (-50.0, 50.0)
    assert found.mean == pytest.approx(y.reshape(100, 100).mean(axis=1))


def test_columns_without_a_finite_value_are_gaps() -> None:
    found = condense(np.arange(6.0), np.array([1.0, np.nan, np.nan, np.inf, 5.0, 7.0]), 3)
    assert [np.isnan(column).tolist() for column in found] == [[False] * 3, *[[False, True, False]] * 3]


@pytest.mark.parametrize(
    ("values", "log", "low", "high"),
    [([0.1, 2.1], False, 0.0, 2.2), ([0.9, 1.0], False, 0.895, 1.005), ([2.0], False, 1.8, 2.2), ([0.0], False, 0.0, 1.0), ([], False, 0.0, 1.045)]
    + [([1.0, np.inf, np.nan, 3.0], False, 0.0, 3.1), ([-1.0, 0.0, 1.0, 100.0], True, 0.794, 125.9), ([2.0], True, 0.632, 6.325)],
)
def test_scales_have_room(values: list[float], log: bool, low: float, high: float) -> None:
    found = scale(np.array(values), log=log)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-2 if log else 1e-9)


@pytest.mark.parametrize(
    ("given_scale", "ticks"),
    [
        (Scale(0, 2.2), [0, 0.5, 1, 1.5, 2]),
        (Scale(0.2, 3, True), [0.2, 0.5, 1, 2]),
        (Scale(1e-4, 1, True), [1e-4, 1e-3, 1e-2, 1e-1, 1]),
        (Scale(0.8, 1.2, True), [0.8, 0.9, 1.0, 1.1, 1.2]),
    ],
)
def test_ticks_are_round(given_scale: Scale, ticks: list[float]) -> None:
    assert given_scale.ticks(5) == pytest.approx(ticks)


@given(st.lists(st.floats(0, 100), max_size=12))
def test_names_at_the_ends_do_not_cover_each_other(places: list[float]) -> None:
    shown = sorted(y for y in spread(places, 15.0, 100.0) if y == y)
    assert len(shown) == min(len(places), 6)
    assert all(b - a >= 15.0 - 1e-9 for a, b in pairwise(shown))
    assert all(-1e-9 <= y <= 100 + 1e-9 for y in shown)


def test_colours_are_seen_on_their_page_and_markers_tell_twenty_lines_apart() -> None:
    assert all(contrast(color, PAGE[theme].fill) >= 3 for pair in LINES for color, theme in zip(pair, ("light", "dark"), strict=True))
    assert len({(rank % len(LINES), rank % len(MARKERS)) for rank in range(20)}) == 20


def picture(found: dict[str, str]) -> ElementTree.Element:
    match = re.search(r"base64,([^\"]+)", found["text/html"])
    assert match is not None
    return ElementTree.fromstring(base64.b64decode(match[1]))


def texts(found: dict[str, str]) -> list[str]:
    return ["".join(node.itertext()) for node in picture(found).iter("{http://www.w3.org/2000/svg}text")]


def test_the_text_has_values_and_no_times() -> None:
    trace = trace_of([2.302585, 0.5, 0.75], [2.302585, 0.5, 0.75])
    assert bundle(trace, title="Run")["text/plain"] == (
        "Run: loss, 6 values of 2 ranks\nmetric      ranks  values  first  last  minimum  at step\n  loss  ranks 0-1       3  2.303  0.75      0.5        2"
    )


def test_the_picture_names_metrics_ranks_and_axes() -> None:
    trace = trace_of([2.0, 1.0, 0.5], [2.0, 1.0, 0.7])
    assert {"loss", "rank 0", "rank 1", "step"} <= set(texts(bundle(trace)))
    assert {"loss, logarithmic", "s, wall clock"} <= set(texts(bundle(trace, x="seconds", log=True)))


def test_a_name_is_no_markup() -> None:
    assert "<b>&" in texts(bundle(trace_of([1.0], name="<b>&")))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0], [float("nan")], [float("inf"), 2.0], [0.0, -1.0], [1e300, -1e300], [5e-324, 1.0]])
@pytest.mark.parametrize("log", [False, True])
def test_any_numbers_make_a_picture(values: list[float], log: bool) -> None:
    found = bundle(trace_of(values), ["loss"], log=log, x="seconds" if log else "step")
    drawn = ElementTree.tostring(picture(found), encoding="unicode")
    assert "nan" not in drawn and "inf" not in drawn
    assert ("no values" in texts(found)) == (not values)


def test_what_is_stored_is_small_and_the_same_each_time() -> None:
    rng = np.random.default_rng(0)
    trace = trace_of(*rng.random((4, 20_000)))
    found = bundle(trace)
    assert len(found["text/html"]) < 90_000
    assert found == bundle(trace)
    assert not re.search(r"<script|<style|<svg|0x[0-9a-f]{6}", "".join(found.values()))
    assert "band: lowest to highest" in found["text/html"]


def test_the_table_has_a_column_a_line() -> None:
    html = bundle(trace_of([2.0, 1.0], [2.0, 1.5]))["text/html"]
    assert "<td>2</td><td>1</td><td>1.5</td>" in html
    assert '<th scope="col">loss, rank 1</th>' in html


def test_a_misspelt_name_is_told() -> None:
    assert bundle(trace_of([1.0]), ["los"])["text/plain"] == "no metric noted with comm.log; nothing noted as 'los', but as 'loss'"


def test_digits_are_four() -> None:
    assert [digits(x) for x in (0.00012345, 1.0, 99999.4, 1e9, float("inf"))] == ["0.0001234", "1", "99999", "1e+09", "inf"]


def test_a_line_tells_its_ranks() -> None:
    assert Line("loss", (0, 1, 2, 5), np.zeros(1), np.zeros(1)).label == "ranks 0-2, 5"


def test_what_is_told_about_memory_is_no_curve_unless_it_is_asked_for() -> None:
    trace = Trace.from_events([Event(0, "metric", 0.0, 0.0, tag=tag, value=1.0) for tag in ("loss", "memory: other")])
    assert [line.name for line in lines(trace)] == ["loss"]
    assert [line.name for line in lines(trace, "memory: other")] == ["memory: other"]
