"""The timeline without a browser: what it sends, when it ends, what it leaves in a notebook."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from partkit.cluster import Cluster, Device, Link
from partkit.tracing import Batch, Event, Trace
from partkit.widgets import feed, showing
from partkit.widgets.feed import Feed, Pump
from partkit.widgets.showing import WIDGET
from partkit.widgets.timeline import Timeline
from tests.widgets.decoding import decode
from tests.widgets.demo_traces import SITES, STRINGS, busy, busy_rows, training


class World:
    """As much of a world as a feed looks at."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.closed = False

    def run(self) -> None:
        """A world can start another run."""


class Listener:
    """Keeps what a pump says; `wait` for it without sleeping."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.ends = threading.Semaphore(0)

    def began(self) -> None:
        self.heard.append("began")

    def grew(self, block: bytes, first: int) -> None:
        self.heard.append((first, len(decode(block).start)))

    def ended(self) -> None:
        self.heard.append("ended")
        self.ends.release()

    def wait(self) -> None:
        assert self.ends.acquire(timeout=20)


class Output:
    """Stands in for IPython's display."""

    def __init__(self) -> None:
        self.bundles: list[dict[str, Any]] = []

    def __call__(self, bundle: dict[str, Any], *, raw: bool, display_id: bool = False) -> Output:
        self.bundles.append(bundle)
        return self

    def update(self, bundle: dict[str, Any], *, raw: bool) -> None:
        self.bundles.append(bundle)


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    """A notebook's output, with a kernel and a front end."""
    monkeypatch.delenv("PARTKIT_STATIC", raising=False)
    monkeypatch.setattr(showing, "_kernel", object)
    out = Output()
    monkeypatch.setattr("IPython.display.display", out)
    return out


def fill(trace: Trace, num_events: int, *, first: int = 0) -> None:
    """Append some events of every rank."""
    for rows in busy_rows(num_events, trace.size, first=first):
        trace.append(Batch([] if first else STRINGS, rows, [] if first else SITES))


def pumped(source: Any) -> tuple[Pump, Listener]:
    listener = Listener()
    pump = Pump(Feed(source), listener)
    pump.start()
    return pump, listener


def test_a_finished_trace_is_sent_whole_without_a_thread() -> None:
    before = threading.active_count()
    timeline = Timeline(training(3), title="Ring")
    assert threading.active_count() == before
    assert len(decode(timeline.snapshot).start) == 84
    assert {k: timeline.meta[k] for k in ("size", "clock", "live", "total", "title")} == {
        "size": 3,
        "clock": "virtual time (simulated)",
        "live": False,
        "total": 84,
        "title": "Ring",
    }
    timeline.close()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace need not be long to be sketched."""
    monkeypatch.setattr("partkit.figures.sketch.FEWEST_EVENTS", 30_000)


def test_a_long_trace_shows_its_sketch_first_and_is_stored_once_all_of_it_has_come(short: None, output: Output) -> None:
    timeline = Timeline(busy(30_000, 2))
    timeline._ipython_display_()
    told = dict(timeline.meta)
    assert (len(decode(timeline.snapshot).start), told["total"]) == (told["sketch"], 30_000) and 1000 < told["sketch"] < 25_000
    timeline._handle_custom_msg({"type": "shown"}, [])
    timeline._pump.join(20)  # type: ignore[union-attr]
    assert len(decode(timeline.snapshot).start) == 30_000 and timeline.meta["run"] == told["run"]
    assert (timeline.meta["sketch"], timeline.meta["total"], timeline.meta["frozen"]) == (0, 30_000, True)
    assert len(output.bundles) == 2 and WIDGET not in output.bundles[1]
    timeline.close()


def test_everything_follows_a_sketch_unasked_and_nothing_is_stored_before_it_is_seen(short: None, monkeypatch: pytest.MonkeyPatch, output: Output) -> None:
    monkeypatch.setattr("partkit.widgets.live.FIRST_SIGHT", 0.0)
    timeline = Timeline(busy(30_000, 2))
    timeline._ipython_display_()
    timeline._pump.join(20)  # type: ignore[union-attr]
    assert timeline.meta["sketch"] == 0 and not timeline.meta["frozen"] and len(output.bundles) == 1
    timeline._handle_custom_msg({"type": "shown"}, [])
    assert timeline.meta["frozen"] and len(output.bundles) == 2
    timeline.close()


def test_another_clock_or_the_path_is_drawn_from_everything_at_once(short: None, output: Output) -> None:
    timeline = Timeline(busy(30_000, 2), critical_path=True)
    assert timeline._pump is None and timeline.meta["sketch"] == 0 and len(decode(timeline.snapshot).start) == 30_000
    timeline.close()


def test_a_selected_event_is_an_event() -> None:
    trace = Trace.from_events([Event(0, "compute", 0, 1, tag="forward")])
    timeline = Timeline(trace)
    assert timeline.selected_event is None
    timeline.set_state({"selected": 0})  # as a browser does
    assert timeline.selected_event == trace.events[0]
    timeline.selected = 7
    assert timeline.selected_event is None
    timeline.close()


def test_a_pump_gives_every_event_once_and_ends_with_the_run() -> None:
    trace = Trace(4)
    pump, listener = pumped(trace)
    for first in range(0, 400, 100):
        fill(trace, 100, first=first)
    trace.finished.set()
    listener.wait()
    pump.join(20)
    assert not pump.is_alive() and listener.heard[-1] == "ended"
    firsts, counts = zip(*listener.heard[:-1], strict=True)
    assert sum(counts) == 400 and list(firsts) == [0, *np.cumsum(counts)[:-1].tolist()]


def test_a_world_is_followed_from_run_to_run_until_it_closes() -> None:
    world = World(training(3))
    pump, listener = pumped(world)
    listener.wait()
    world.trace = Trace(2)  # nothing has happened yet: the old run stays on the screen
    world.trace = training(2)
    listener.wait()
    world.closed = True
    pump.join(20)
    assert not pump.is_alive()
    assert listener.heard == [(0, 84), "ended", "began", (0, len(training(2))), "ended"]


def test_empty_traces_of_an_idle_world_are_no_runs() -> None:
    class Idle:
        @property
        def trace(self) -> Trace:
            return Trace(2)

    source = Feed(Idle())
    assert [source.renew() for _ in range(3)] == [False] * 3


def test_case_W05_a_thousand_events_are_few_messages() -> None:
    trace = Trace(4)
    timeline = Timeline(trace)
    sent: list[int] = []
    timeline.comm.send = lambda *args, **options: sent.append(sum(map(len, options.get("buffers") or [b""])))
    done = threading.Event()
    timeline.observe(lambda change: done.set(), "snapshot")
    for first in range(0, 1000, 10):
        fill(trace, 10, first=first)
    trace.finished.set()
    assert done.wait(20)
    timeline._pump.join(20)  # type: ignore[union-attr]
    assert 1 <= len(sent) <= 60 and max(sent) < 1_000_000
    assert len(decode(timeline.snapshot).start) == 1000
    timeline.close()


def test_at_most_twenty_messages_a_second() -> None:
    assert feed.PERIOD >= 1 / 20


def test_twenty_reruns_leave_no_widget() -> None:
    def rerun() -> weakref.ref[Timeline]:
        timeline = Timeline(Trace(2))
        timeline.close()
        return weakref.ref(timeline)

    left = [rerun() for _ in range(20)]
    for thread in threading.enumerate():
        if isinstance(thread, Pump):
            thread.join(20)
    gc.collect()
    assert [timeline for timeline in left if timeline() is not None] == []


def test_a_pump_keeps_no_watcher_alive() -> None:
    pump, listener = pumped(Trace(2))
    gone = weakref.ref(listener)
    del listener
    gc.collect()
    pump.join(20)
    assert gone() is None and not pump.is_alive()


def test_case_W01_a_live_view_ends_as_a_still_picture(output: Output) -> None:
    trace = Trace(4)
    timeline = Timeline(trace)
    timeline._ipython_display_()
    assert set(output.bundles[0]) == {WIDGET, "text/html", "text/plain"} and "still running" in output.bundles[0]["text/plain"]
    fill(trace, 100)
    trace.finished.set()
    timeline._pump.join(20)  # type: ignore[union-attr]
    assert set(output.bundles[-1]) == {"text/html", "text/plain"} and "100 events" in output.bundles[-1]["text/plain"]
    assert timeline.meta["frozen"] and not timeline.meta["live"]
    timeline.close()


def test_a_run_that_ends_while_its_view_is_being_made_ends_as_a_still_picture_too(output: Output) -> None:
    class Overtaken(Timeline):
        def _describe(self, *, live: bool) -> dict[str, Any]:
            description = super()._describe(live=live)
            self.trace.finished.set()
            return description

    timeline = Overtaken(Trace(2))
    timeline._ipython_display_()
    assert timeline._pump is not None
    timeline._pump.join(20)
    assert not timeline.meta["live"]
    timeline.close()


def test_case_W01_a_finished_view_is_stored_as_a_still_picture_once_it_is_on_the_screen(output: Output) -> None:
    timeline = Timeline(training(3))
    timeline._ipython_display_()
    assert WIDGET in output.bundles[0] and "<img" in output.bundles[0]["text/html"]
    timeline._handle_custom_msg({"type": "shown"}, [])
    assert len(output.bundles) == 2 and WIDGET not in output.bundles[1]
    timeline.close()


def test_the_last_place_gone_closes_the_widget_and_showing_it_again_opens_it(output: Output) -> None:
    timeline = Timeline(training(3))
    timeline._ipython_display_()
    timeline._handle_custom_msg({"type": "gone"}, [])
    assert timeline.comm is None
    timeline._ipython_display_()
    assert timeline.comm is not None and len(output.bundles) == 2
    timeline.close()


def test_a_browser_that_missed_something_gets_everything() -> None:
    trace = Trace(4)
    timeline = Timeline(trace)
    grown = threading.Event()
    timeline.send = lambda *args: grown.set()
    fill(trace, 40)
    assert grown.wait(20)
    assert timeline.snapshot == b""
    timeline._handle_custom_msg({"type": "resend"}, [])
    assert len(decode(timeline.snapshot).start) == 40 == timeline.meta["total"] and timeline.meta["live"]
    timeline.close()


def test_static_notebooks_get_the_still_picture_only(monkeypatch: pytest.MonkeyPatch, output: Output) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    timeline = Timeline(training(3))
    timeline._ipython_display_()
    assert [set(bundle) for bundle in output.bundles] == [{"text/html", "text/plain"}]
    assert set(timeline._repr_mimebundle_()) == {"text/html", "text/plain"}
    timeline.close()


def test_case_W12_its_repr_is_the_same_in_every_run() -> None:
    timeline = Timeline(training(3))
    assert repr(timeline) == "Timeline(Trace(3 ranks, 84 events, 24 messages, 96,000 bytes sent))"
    timeline.close()


@pytest.mark.parametrize(("source", "words"), [(3, "source is a int"), (None, "give a Trace"), (object(), "World or a Run")])
def test_what_has_no_trace_is_refused(source: object, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Timeline(source)


@pytest.mark.parametrize("height", [0, -5, 39, 10**6])
def test_heights_that_make_no_sense_are_refused(height: int) -> None:
    with pytest.raises(ValueError, match="number of pixels"):
        Timeline(training(2), height=height)


def test_case_W03_without_anywidget_one_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["anywidget"] = sys.modules["ipywidgets"] = sys.modules["plotly"] = None
import partkit as pk
from partkit.figures.bundle import timeline
print(timeline(pk.Trace.from_events([pk.Event(0, "compute", 0, 1)])).bundle["text/plain"].splitlines()[0])
try:
    pk.Timeline
except ImportError as error:
    print(error)
"""
    lines = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "1 rank, 1 event, 0 messages, 0 bytes sent; wall clock"
    assert len(lines) == 2 and "pip install 'partkit[notebook]'" in lines[1]


# -- clocks, the critical path, questions ----------------------------------------------------------------------------

LIVE = [
    Event(0, "compute", 0.0, 3.0, tag="forward", value=1.0),
    Event(0, "send", 3.0, 4.0, peer=1, nbytes=1000, tag="x"),
    Event(1, "recv", 0.0, 4.0, peer=0, nbytes=1000, tag="x"),
    Event(1, "compute", 4.0, 9.0, tag="forward", value=1.0),
]
"""Two ranks on one crowded core: what is stated to take 1 s took 3 and 5."""
THERE = Cluster(link=Link(latency=0.5, bandwidth=2000.0), name="there")


def test_a_live_run_is_shown_in_virtual_time_and_back_in_its_own() -> None:
    timeline = Timeline(Trace.from_events(LIVE), clock="virtual", cluster=THERE)
    assert timeline.trace.makespan == 3.0 and timeline.meta["clock"] == "virtual time (replayed: there, stated durations)"
    assert "3 s in this clock, 9 s on the wall clock" in timeline.meta["note"]
    assert decode(timeline.snapshot).length.tolist() == [1.0, 1.0, 2.0, 1.0]
    assert "virtual time (replayed: there" in timeline._picture()["text/plain"]  # what is stored
    virtual = timeline.meta["run"]
    timeline.set_state({"clock": "wall"})  # as a browser does
    assert timeline.trace.makespan == 9.0 and timeline.meta["clock"] == "wall clock" and timeline.meta["run"] != virtual
    assert decode(timeline.snapshot).length.tolist() == [3.0, 1.0, 4.0, 5.0]
    timeline.close()


def test_turning_a_dial_replays_on_equal_links_at_once() -> None:
    timeline = Timeline(Trace.from_events(LIVE), clock="replayed", cluster=THERE)
    assert (timeline.preset, timeline.latency_dial, timeline.bandwidth_dial) == ("there", -0.301, 3.301)
    first = timeline.meta["run"]
    timeline.set_state({"latency_dial": "-7", "bandwidth_dial": "3"})  # a browser's numbers are texts
    assert timeline.trace.makespan == pytest.approx(3.0, rel=1e-6) and timeline.cluster.name == "equal links: 100 ns and 1 kB/s"
    assert timeline.meta["run"] != first
    timeline.preset = "messages take no time"
    assert timeline.trace.makespan == 2.0 and (timeline.latency_dial, timeline.bandwidth_dial) == (-7.0, 12.0)
    assert timeline.cluster.name == "messages take no time"
    timeline.close()


def test_the_switch_is_there_where_there_is_a_choice() -> None:
    live, plan = Timeline(Trace.from_events(LIVE)), Timeline(Trace.from_events(LIVE, clock="planned"))
    assert 'data-trait="clock"' in live.look["html"] and "there" not in live.look["html"] and "volunteers, 200 Mb/s" in live.look["html"]
    assert "data-trait" not in plan.look["html"]
    for timeline in (live, plan):
        timeline.close()


@pytest.mark.parametrize(("name", "value"), [("clock", "planned"), ("clock", "sundial"), ("preset", "moon")])
def test_clocks_and_clusters_that_are_not_there_are_refused(name: str, value: str) -> None:
    timeline = Timeline(Trace.from_events(LIVE))
    with pytest.raises(ValueError, match=f"{name} is one of"):
        setattr(timeline, name, value)
    timeline.close()


def test_a_cluster_that_cannot_run_it_leaves_the_run_as_it_was_and_says_so() -> None:
    small = Cluster([Device(1e9, 1e9, 1e9)], Link(1e-3, 1e9), name="one device")
    timeline = Timeline(Trace.from_events(LIVE), clock="virtual", cluster=small)
    assert timeline.trace.clock == "wall" and "not replayed: rank 1 has no device" in timeline.meta["note"]
    timeline.close()


def test_while_a_run_goes_on_its_own_clock_is_shown_and_at_its_end_the_chosen_one(output: Output) -> None:
    trace = Trace(4)
    timeline = Timeline(trace, clock="virtual", critical_path=True)
    timeline._ipython_display_()
    fill(trace, 100)
    assert timeline.meta["clock"] == "wall clock" and timeline.trace is trace
    trace.finished.set()
    timeline._pump.join(20)  # type: ignore[union-attr]
    assert timeline.meta["clock"].startswith("virtual time (replayed: laptop") and timeline.meta["frozen"] and not timeline.meta["live"]
    assert "virtual time (replayed: laptop" in output.bundles[-1]["text/plain"]
    timeline.close()


def test_the_critical_path_is_outlined_when_it_is_asked_for() -> None:
    timeline = Timeline(Trace.from_events(LIVE))
    assert timeline.outlined == [] and "critical path" not in timeline.meta["note"]
    timeline.set_state({"critical_path": True})
    assert timeline.outlined == [[0, 0.0, 3.0], [2, 3.0, 4.0], [1, 3.0, 4.0], [3, 4.0, 9.0]]
    assert "critical path: 3 steps, 9 s: 89% computing, 11% messages" in timeline.meta["note"]
    timeline.clock = "virtual"
    assert timeline.outlined[0] == [0, 0.0, 1.0]
    timeline.critical_path = False
    assert timeline.outlined == []
    timeline.close()


def test_an_event_that_is_pointed_at_tells_for_whom_its_rank_waited() -> None:
    timeline = Timeline(Trace.from_events(LIVE))
    timeline.set_state({"asked": 2})
    assert timeline.answers == {"2": "waited 3 s for rank 0 to send (it was computing 'forward'), then 1 s for the message"}
    timeline.set_state({"asked": 0, "selected": 2})
    assert list(timeline.answers) == ["2"]
    timeline.set_state({"asked": -1, "selected": None})
    assert timeline.answers == {}
    assert timeline.sums == ""
    timeline._handle_custom_msg({"type": "sums"}, [])  # the reader opens the table
    assert "Where the time of each rank went" in timeline.sums
    timeline.clock = "virtual"
    assert timeline.sums == ""
    timeline.close()


def test_a_view_again_is_in_the_same_clock() -> None:
    timeline = Timeline(Trace.from_events(LIVE), clock="virtual", cluster=THERE, critical_path=True)
    again = timeline.replay()
    assert (again.clock, again.trace.makespan, again.critical_path, again.cluster) == ("virtual", 3.0, True, THERE)
    for view in (timeline, again):
        view.close()
