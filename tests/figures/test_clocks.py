"""The clocks of a trace, the dials of a link, and the words and tables about waits and the critical path."""

from __future__ import annotations

import math

import pytest

from partkit.cluster import Cluster, Islands, Link, clusters
from partkit.figures.bundle import timeline_bundle
from partkit.figures.clocks import EQUAL, FREE, PRESETS, Dials, dials, durations_of, in_clock, link_name, turned
from partkit.figures.path import MAX_STEPS, outline, path_note
from partkit.figures.svg import timeline_svg
from partkit.figures.units import clock_name
from partkit.figures.waits import MAX_EVENTS, because, idle_of, idle_table, idle_text
from partkit.tracing import Event, Trace
from partkit.tracing.critical_path import CriticalPath, Step, critical_path
from partkit.tracing.idle import IdleTime
from tests.widgets.demo_traces import training

CHAIN = [
    Event(0, "compute", 0.0, 2.0, tag="forward", value=2.0),
    Event(0, "send", 2.0, 3.0, peer=1, nbytes=8, tag="x"),
    Event(1, "recv", 0.0, 3.0, peer=0, nbytes=8, tag="x"),
    Event(1, "compute", 3.0, 5.0, tag="forward", value=2.0),
]


def test_the_own_clock_is_the_trace_itself_and_others_are_replays() -> None:
    live = Trace.from_events(CHAIN)
    assert in_clock(live, "wall", FREE) is live
    virtual = in_clock(live, "virtual", Cluster(link=Link(0.5, math.inf), name="there"))
    assert (virtual.clock, virtual.makespan, clock_name(virtual)) == ("virtual", 4.5, "virtual time (replayed: there, stated durations)")
    assert in_clock(live, "replayed", FREE, "measured").makespan == 4.0 and clock_name(live) == "wall clock"


@pytest.mark.parametrize(("clock", "choice"), [("wall", "planned"), ("virtual", "wall"), ("planned", "virtual"), ("planned", "replayed")])
def test_clocks_that_a_trace_does_not_have_are_refused(clock: str, choice: str) -> None:
    with pytest.raises(ValueError, match="this trace has"):
        in_clock(Trace.from_events(CHAIN, clock=clock), choice, FREE)  # type: ignore[arg-type]


def test_computations_take_what_is_stated_or_else_what_was_noted() -> None:
    messages = Trace.from_events(CHAIN[1:3])
    assert (durations_of(Trace.from_events(CHAIN)), durations_of(messages)) == ("stated", "measured")
    messages.columns["done"] = 5
    assert durations_of(messages) == "cpu"


def test_every_preset_has_room_for_any_number_of_ranks_and_a_name_of_its_own() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
    for preset in PRESETS:
        assert preset.network(300).message(0, 299, 1000, 0.0) >= 0.0
        assert all(math.isfinite(x) for x in dials(preset, 300))


def test_dials_show_the_longest_link_and_turning_one_makes_all_links_equal() -> None:
    nodes = Cluster(link=Link(1e-3, 1e6), topology=Islands((2, Link(1e-6, 1e9))))
    assert dials(nodes, 2) == Dials(-6.0, 9.0) and dials(nodes, 4) == Dials(-3.0, 6.0) and dials(nodes, 1) == Dials(-3.0, 6.0)
    equal = turned(nodes, Dials(-2.0, 7.0))
    assert equal.between(0, 1) == equal.between(0, 3) == Link(0.01, 1e7) and equal.name == f"{EQUAL}: 10 ms and 10 MB/s"
    assert equal.device is nodes.device


def test_dials_end_where_they_end() -> None:
    assert dials(FREE, 4) == Dials(-7.0, 12.0)
    assert link_name(clusters.VOLUNTEERS.link) == "50 ms and 25 MB/s"


# -- the path and the waits ------------------------------------------------------------------------------------------


def test_the_path_is_outlined_in_the_picture_and_told_below_it() -> None:
    trace = Trace.from_events(CHAIN, clock="virtual")
    path = critical_path(trace)
    picture = timeline_svg(trace, outline(path)).svg
    assert picture.count('<use href="#path"') == 2 and 'id="path"' not in timeline_svg(trace).svg
    bundle = timeline_bundle(trace, "Chain", path)
    assert "critical path: 3 steps, 5 s: 80% computing, 20% messages" in bundle["text/html"]
    assert bundle["text/plain"].splitlines()[-1] == "critical path: 3 steps, 5 s: 80% computing, 20% messages"


def test_the_times_of_a_wall_clock_are_not_in_the_text() -> None:
    trace = Trace.from_events(CHAIN)
    bundle = timeline_bundle(trace, "", critical_path(trace))
    assert "critical path" not in bundle["text/plain"] and "waited" not in bundle["text/plain"]
    assert "critical path" in bundle["text/html"] and "60.0% idle, wall clock" in bundle["text/html"]


def test_of_a_long_path_the_end_is_outlined() -> None:
    steps = tuple(Step("compute", 0, float(k), k + 1.0, k) for k in range(MAX_STEPS + 5))
    assert [row for row, *_ in outline(CriticalPath(steps))] == list(range(5, MAX_STEPS + 5))
    assert path_note(CriticalPath(steps)).startswith(f"critical path: {MAX_STEPS + 5:,} steps (the last {MAX_STEPS:,} outlined)")


def test_waits_are_told_with_their_reasons() -> None:
    trace = Trace.from_events(CHAIN, clock="virtual")
    waits = IdleTime(trace).longest(2)
    assert [because(trace, wait) for wait in waits] == [
        "waited 2 s for rank 0 to send (it was computing 'forward'), then 1 s for the message",
        "waited 1 s for the message",
    ]
    assert idle_text(trace, idle_of(trace)) == [
        "Where the time of each rank went: 60.0% idle, virtual time (simulated)",
        "rank  computing  late ranks  messages  own  finished  longest for",
        "   0        2 s         0 s       1 s  0 s       2 s       rank 1",
        "   1        2 s         2 s       1 s  0 s       0 s       rank 0",
        "rank 1 waited 2 s for rank 0 to send (it was computing 'forward'), then 1 s for the message: recv x 8 bytes at 0 s",
        "rank 0 waited 1 s for the message: send x 8 bytes at 2 s",
    ]


def test_a_million_events_have_their_sums() -> None:
    assert MAX_EVENTS >= 1_047_040  # a ring of 512 ranks


def test_where_there_is_nothing_to_tell_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lonely = Trace.from_events([Event(0, "compute", 0.0, 1.0)], clock="planned")
    wall, many = Trace.from_events(CHAIN), training(64, steps=1)
    assert idle_text(lonely, idle_of(lonely)) == [] and idle_text(wall, idle_of(wall)) == []
    assert idle_table(wall, None) == "" and idle_text(many, None) == []
    assert "8 ranks that waited longest" in idle_table(many, idle_of(many))
    monkeypatch.setattr("partkit.figures.waits.MAX_EVENTS", len(many) - 1)
    assert idle_of(Trace(2)) is None and idle_of(many) is None
