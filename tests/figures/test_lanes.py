"""Bars of one lane never overlap, and what belongs together lies together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from partkit.figures.lanes import DEPTHS, LANES, MORE, RECV, SEND, Lanes
from partkit.tracing import Event, Kind, Trace


def lanes_of(*events: Event, size: int = 1) -> list[int]:
    """The lane of each event, in the order given."""
    trace = Trace.from_events(events, size=size)
    places = Lanes(size).place(trace.columns, trace.strings)
    found = {(int(row["rank"]), float(row["start"]), float(row["end"])): int(place) % LANES for row, place in zip(trace.columns, places, strict=True)}
    return [found[e.rank, e.start, e.end] for e in events]


def test_spans_nest_and_messages_have_lanes_of_their_own() -> None:
    assert lanes_of(
        Event(0, "span", 0, 9, tag="step"),
        Event(0, "compute", 0, 2, span="step"),
        Event(0, "collective", 2, 8, span="step"),
        Event(0, "send", 3, 4, 0, span="step/all_reduce"),
        Event(0, "recv", 3, 5, 0, span="step/all_reduce"),
    ) == [0, 1, 1, SEND[0], RECV[0]]


def test_messages_under_way_at_once_lie_side_by_side() -> None:
    assert lanes_of(Event(0, "send", 0, 4, 0), Event(0, "send", 1, 5, 0), Event(0, "send", 4, 6, 0)) == [SEND[0], SEND[1], SEND[0]]


def test_overlapping_collectives_leave_the_lanes_of_spans_alone() -> None:
    assert lanes_of(Event(0, "collective", 0, 4, span="step"), Event(0, "collective", 1, 5, span="step")) == [1, MORE[0]]


def test_more_than_there_are_lanes_share_the_last() -> None:
    assert lanes_of(*(Event(0, "send", 0, 10 + i, 0) for i in range(5))) == [*SEND, SEND[-1], SEND[-1]]


def test_very_deep_spans_share_the_last_depth() -> None:
    assert lanes_of(Event(0, "compute", 0, 1, span="/".join("abcdefghij"))) == [DEPTHS[-1]]


def test_batches_one_after_another_are_placed_as_one() -> None:
    events = [Event(rank, "send", t / 3, t / 3 + 0.5, 0) for t in range(30) for rank in range(2)]
    trace = Trace.from_events(events)
    rows = trace.columns[np.argsort(trace.columns["end"], kind="stable")]
    together = Lanes(2).place(rows, trace.strings)
    lanes = Lanes(2)
    apart = np.concatenate([lanes.place(rows[i : i + 7], trace.strings) for i in range(0, len(rows), 7)])
    assert apart.tolist() == together.tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["send", "recv"]), st.integers(0, 20), st.integers(1, 4)), max_size=40))
def test_no_two_bars_of_a_lane_overlap_unless_all_lanes_are_full(what: list[tuple[int, Kind, int, int]]) -> None:
    trace = Trace.from_events([Event(rank, kind, start, start + length, 0) for rank, kind, start, length in what], size=3)
    rows = trace.columns[np.argsort(trace.columns["end"], kind="stable")]
    places = Lanes(3).place(rows, trace.strings)
    assert (places // LANES == rows["rank"]).all()
    for place in set(places.tolist()) - {rank * LANES + lanes[-1] for rank in range(3) for lanes in (SEND, RECV)}:
        mine = rows[places == place]
        assert (mine["start"][1:] >= mine["end"][:-1]).all()


def test_nothing_to_place() -> None:
    assert len(Lanes(2).place(Trace(2).columns, [""])) == 0
