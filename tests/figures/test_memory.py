"""States of memory read from metrics, and the still picture."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from partkit.figures.memory import MAX_STATES, MemoryEncoder, accounts
from partkit.figures.memory_panels import thinned, top_of
from partkit.figures.memory_picture import bundle
from partkit.tracing import Recorder, Trace
from partkit.tracing.memory import CAP, USES, Share, metric_of, share_metric
from tests.widgets.memory_traces import account, training


def test_numbers_of_one_moment_are_one_state() -> None:
    """A gradient that is told from other memory is never counted twice."""
    trace = account([{"other": 100}, {"gradients": 100, "other": 0}, {"other": 50}])
    found = accounts(trace)
    assert [one.totals.tolist() for one in found] == [[100, 100, 150]]
    assert found[0].peak == 2 and found[0].at_peak == dict.fromkeys(USES, 0) | {"gradients": 100, "other": 50}


def test_a_moment_whose_last_numbers_have_not_come_waits_for_them() -> None:
    trace, recorder = Trace(1), Recorder(0)
    encoder = MemoryEncoder(trace)
    recorder.add("metric", 0.0, 0.0, tag=metric_of("gradients"), value=100, seq=1)
    trace.append(recorder.drain())
    assert accounts(trace) == [] and encoder.encode() != b"" and encoder.num_events == 1
    recorder.add("metric", 0.0, 0.0, tag=metric_of("other"), value=7)
    trace.append(recorder.drain())
    assert [one.states.tolist() for one in accounts(trace)] == [[[0, 100, 0, 0, 0, 7, 0]]]
    head, columns = block(encoder.encode())
    assert head["accounts"] == [[0, "rank 0", 0, 1, []]] and columns[8:64] == np.array([0, 100, 0, 0, 0, 7, 0.0]).tobytes()


def test_the_peak_is_the_last_state_before_something_is_freed() -> None:
    trace = account([{"other": 100}, {"activations": 100, "other": 0}, {"other": 1, "activations": 60}, {"activations": 99}])
    assert [one.peak for one in accounts(trace)] == [1]


def test_what_filled_the_peak_is_what_was_told_after_it() -> None:
    """Three accounts in a run, of which the second is the highest."""
    recorder, trace = Recorder(0), Trace(1)
    for nbytes in (10, 30, 20):
        recorder.add("metric", nbytes, nbytes, tag=metric_of("other"), value=nbytes)
        recorder.add("metric", nbytes, nbytes, tag=metric_of("other"), value=0)
        share = Share("other", f"uint8[{nbytes}]", 1, nbytes, "")
        recorder.add("metric", nbytes, nbytes, tag=share_metric(share), value=nbytes, site="a.py:1")
    trace.append(recorder.drain())
    assert [one.shares for one in accounts(trace)] == [(Share("other", "uint8[30]", 1, 30, "a.py:1"),)]


def test_ranks_with_the_same_states_and_the_same_device_are_one_account() -> None:
    trace = training([1, 1, 2, 1], caps=[1000, 1000, 1000, 2000])
    assert [(one.label, one.cap) for one in accounts(trace)] == [("ranks 0-1", 1000), ("rank 2", 1000), ("rank 3", 2000)]


def block(data: bytes) -> tuple[dict[str, list[list[object]]], bytes]:
    size = int.from_bytes(data[:4], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def test_blocks_together_hold_every_state_once() -> None:
    whole = training([1, 2])
    grown, encoder = Trace(2), None
    heads = []
    for part in np.array_split(whole.columns, 7):
        grown.strings = whole.strings
        grown._rows, grown._count = whole.columns, grown._count + len(part)
        encoder = encoder or MemoryEncoder(grown)
        data = encoder.encode()
        heads += [block(data)[0]] if data else []
    sent = {rank: [(first, number) for head in heads for r, _, first, number, _ in head["accounts"] if r == rank] for rank in (0, 1)}
    for one in accounts(whole):
        pieces = [piece for piece in sent[one.ranks[0]] if piece[1]]
        assert [first for first, _ in pieces] == np.cumsum([0, *(number for _, number in pieces[:-1])]).tolist()
        assert sum(number for _, number in pieces) == len(one.times)


def test_more_states_than_a_browser_gets_are_counted() -> None:
    trace, recorder = Trace(1), Recorder(0)
    for k in range(MAX_STATES + 5):
        recorder.add("metric", k, k, tag=metric_of("other"), value=k)
    trace.append(recorder.drain())
    encoder = MemoryEncoder(trace)
    encoder.encode()
    assert encoder.note == "5 changes not drawn"


def test_the_highest_of_each_column_is_drawn() -> None:
    totals = np.zeros(10_000, dtype=np.int64)
    totals[[17, 5003]] = 9
    states = thinned(np.arange(10_000.0), totals, 100)
    assert {17, 5003, 9999} <= set(states.tolist()) and len(states) <= 101


def test_a_cap_that_is_near_is_on_the_scale() -> None:
    near, far = (accounts(training([1], caps=[cap])) for cap in (1100, 10**9))
    assert top_of(near) > 1100 > top_of(far)


def test_the_text_is_the_same_in_every_run_and_says_what_filled_the_peak() -> None:
    slow, fast = training([1, 2], seconds=1.0), training([1, 2], seconds=0.001)
    text = bundle(slow, title="Two")["text/plain"]
    assert text == bundle(fast, title="Two")["text/plain"]
    assert text == (
        "Two: memory of 2 ranks: peak 2 kB on rank 1\n"
        " ranks  peak  parameters  activations\n"
        "rank 0  1 kB   400 bytes    600 bytes\n"
        "rank 1  2 kB   800 bytes       1.2 kB\n"
        "largest at the peak of rank 1:\n"
        "  800 bytes  parameters: 2 x float32[10, 10], train.py:3"
    )


@pytest.mark.parametrize("factors", [[], [1], [1, 1, 2], list(range(1, 6)), list(range(1, 513))], ids=len)
def test_the_picture_is_small_and_shows_every_rank(factors: list[int]) -> None:
    trace = training(factors, caps=[5000] * len(factors))
    html = bundle(trace)["text/html"]
    image = base64.b64decode(html.split("base64,")[1].split('"')[0]).decode()
    assert len(html) < 300_000
    if not factors:
        assert "no memory noted: run what is to be seen inside" in image
        return
    panels = len(set(factors)) if len(set(factors)) <= 4 else 1
    assert image.count("at the peak") == panels
    assert ("peak of each rank" in image) == (len(set(factors)) > 1)
    for name in ("forward", "activations", "parameters"):
        assert name in image


def test_spans_and_lines_stand_where_they_belong() -> None:
    html = bundle(training([1]))["text/html"]
    image = base64.b64decode(html.split("base64,")[1].split('"')[0]).decode()
    assert "peak 1 kB, in forward, train.py:4" in image and ">backward</text>" in image
    assert CAP not in html
