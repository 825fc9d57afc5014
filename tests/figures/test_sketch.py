"""A sketch paints what the whole trace paints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partkit.figures.encoding import Encoder
from partkit.figures.lanes import Lanes
from partkit.figures.sketch import MAX_SIZE, encode_sketch, sketch, worthwhile
from partkit.tracing import KINDS, Event, Kind, Trace
from tests.widgets.decoding import decode
from tests.widgets.demo_traces import busy, training

WIDTH = 50
KIND = st.sampled_from(KINDS)


def painted(trace: Trace, whole: Trace) -> set[tuple[int, int, int, int]]:
    """``(place, kind, first column, one past the last)`` of all bars, in a picture of ``whole``; bars are one column wide at least."""
    rows = trace.columns
    begin, column = whole.columns["start"].min(), whole.makespan / WIDTH or 1.0
    place = Lanes(whole.size).place(rows, trace.strings)
    first, last = ((np.minimum((rows[side] - begin) / column, WIDTH)).astype(int) for side in ("start", "end"))
    last = np.where(rows["end"] - rows["start"] >= column, last, first + 1)
    return set(zip(place.tolist(), rows["kind"].tolist(), first.tolist(), last.tolist(), strict=True))


@given(st.lists(st.tuples(KIND, st.integers(0, 3), st.floats(0, 0.5), st.floats(0, 0.4)), min_size=1, max_size=150))
@settings(max_examples=30, deadline=None)
def test_it_paints_what_the_whole_trace_paints(steps: list[tuple[Kind, int, float, float]]) -> None:
    now = [0.0] * 4
    events = []
    for kind, rank, pause, length in steps:  # one after another on each rank: nothing overlaps
        start = now[rank] + pause
        now[rank] = start + length
        events.append(Event(rank, kind, start, now[rank], (rank + 1) % 4 if kind in ("send", "recv") else None))
    whole = Trace.from_events(events)
    few = sketch(whole, WIDTH)
    assert painted(few, whole) == painted(whole, whole)
    assert few.columns["start"].min() == whole.columns["start"].min() and few.columns["end"].max() == whole.columns["end"].max()
    assert (few.size, few.clock, few.strings) == (whole.size, whole.clock, whole.strings)


def test_a_long_trace_has_a_short_sketch_and_a_short_one_has_itself() -> None:
    whole = busy(50_000)
    few = sketch(whole, 100)
    assert len(few) < 8 * 5 * 101  # ranks, lanes, columns
    assert few.makespan == whole.makespan  # its last bar is not the first of its column
    assert len(sketch(training(3))) == len(training(3))


def test_it_travels_as_blocks_without_numbers_of_messages() -> None:
    trace = busy(40_000, 2)
    block, number = encode_sketch(trace)
    read = decode(block)
    assert number == len(read.start) == len(sketch(trace)) < 40_000 and read.seq == {}
    assert decode(Encoder(sketch(trace)).encode()).seq != {}


def test_only_long_traces_of_few_ranks_are_sketched() -> None:
    assert not worthwhile(busy(1000))
    assert worthwhile(busy(150_000)) and not worthwhile(busy(150_000, MAX_SIZE + 1))


@pytest.mark.parametrize(
    ("trace", "number"),
    [(Trace(2), 0), (Trace.from_events([Event(0, "metric", 2.0, 2.0)] * 3), 1), (Trace.from_events([Event(1, "compute", 1.0, 1.0)]), 1)],
)
def test_traces_of_no_length_have_a_sketch(trace: Trace, number: int) -> None:
    assert len(sketch(trace)) == number


def test_a_bar_a_little_wider_than_a_column_is_kept_behind_a_narrow_one() -> None:
    bars = [(0.0, 0.1), (0.2, 1.7), (1.8, 1.9), (49.0, 50.0)]  # columns are 1.0 wide; the second bar begins in the column of the first
    whole = Trace.from_events(Event(0, "compute", start, end) for start, end in bars)
    assert len(sketch(whole, WIDTH)) == 4
