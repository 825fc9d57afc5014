"""Still pictures: what is in them, how large they are, that they say nothing of this machine."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from partkit.figures.bundle import numbers_bundle, timeline, timeline_bundle
from partkit.figures.summary import RankSummary, fold, gantt, headline, plain_text, rank_summaries
from partkit.figures.svg import timeline_svg
from partkit.tracing import Event, Trace
from tests.widgets.demo_traces import busy, training

ONE = Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="forward")])
TRACES = {
    "nothing": Trace(4),
    "one event": ONE,
    "one moment": Trace.from_events([Event(0, "metric", 1.0, 1.0, tag="loss", value=2.5)]),
    "one rank": busy(50, 1),
    "a ring": training(3),
    "64 ranks": training(64, steps=1),
    "100,000 events": busy(100_000),
    "512 ranks": busy(50_000, 512),
}


def image(html: str) -> str:
    """The SVG in a figure."""
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert found is not None
    return base64.b64decode(found[1]).decode()


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_case_W04_a_bundle_is_small_and_well_formed(trace: Trace) -> None:
    bundle = timeline_bundle(trace)
    assert len(bundle["text/html"]) + len(bundle["text/plain"]) < 60_000
    root = ElementTree.fromstring(image(bundle["text/html"]))
    assert root.tag.endswith("svg")
    numbers = [float(n) for node in root.iter() for name in ("x", "y", "width", "height") for n in [node.get(name, "0")]]
    assert all(-1 <= number <= 1000 for number in numbers)


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_case_W01_a_bundle_shows_without_trust(trace: Trace) -> None:
    bundle = timeline_bundle(trace)
    assert set(bundle) == {"text/html", "text/plain"}
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(bundle["text/html"])
    assert {"figure", "img", "figcaption"} <= set(tags) <= {"figure", "img", "figcaption", "details", "summary", "b", *TABLE}
    assert 'alt="Timeline of ' in bundle["text/html"] and headline(trace) in bundle["text/html"]


TABLE = ("table", "caption", "thead", "tbody", "tr", "th", "td")


def test_case_W12_nothing_of_this_machine_and_no_times_of_a_wall_clock() -> None:
    events = [Event(0, "send", 0.1234, 0.2345, 1, 8, site="/home/someone/x/train.py:9"), Event(1, "recv", 0.0, 0.2345, 0, 8)]
    bundle = timeline_bundle(Trace.from_events(events))
    assert bundle["text/plain"].splitlines() == [
        "2 ranks, 2 events, 1 message, 8 bytes sent; wall clock",
        "rank  computations  collectives  messages sent  bytes sent  messages received  bytes received",
        "   0             0            0              1           8                  0               0",
        "   1             0            0              0           0                  1               8",
    ]
    everything = bundle["text/html"] + image(bundle["text/html"])
    assert "/home" not in everything and "train.py:9" in everything and "0x" not in everything
    assert timeline_bundle(Trace.from_events(events)) == bundle


def test_a_planned_or_virtual_trace_is_drawn_in_letters() -> None:
    plan = [Event(0, "compute", 0, 2), Event(0, "send", 2, 3, 1), Event(1, "recv", 0, 3, 0), Event(1, "send", 2, 3, 0), Event(1, "collective", 3, 4)]
    assert gantt(Trace.from_events(plan, clock="planned"), width=8) == [
        "rank 0 |CCCCSS..|",
        "rank 1 |RRRRXXGG|",
        "        0 to 4 s; S send, R recv, C compute, G collective, X send and recv",
    ]


def test_many_ranks_are_folded() -> None:
    text = plain_text(training(64, steps=1))
    assert "... and 48 ranks more" in text and text.splitlines()[-1].startswith("0-63 ")
    same, other = (0, 1, 0, 0, 0, 0), (0, 2, 0, 0, 0, 0)
    assert [name for name, _ in fold([RankSummary(0, *same), RankSummary(1, *same), RankSummary(2, *other)])] == ["0-1", "2"]


def test_counts_are_those_of_the_trace() -> None:
    trace = training(3)
    for summary in rank_summaries(trace):
        assert (summary.messages_sent, summary.bytes_sent) == (trace.num_messages(summary.rank), trace.bytes_sent(summary.rank))
    assert headline(trace) == "3 ranks, 84 events, 24 messages, 96,000 bytes sent; virtual time (simulated)"


def test_a_run_that_goes_on_says_so() -> None:
    trace = Trace(2)
    assert plain_text(trace) == "2 ranks, 0 events, 0 messages, 0 bytes sent; wall clock; still running\nno events yet"
    assert "still running" in timeline_bundle(trace)["text/html"]
    trace.finished.set()
    assert "still running" not in timeline_bundle(trace)["text/html"] and plain_text(trace).endswith("\nno events")


def test_every_message_is_an_arrow_and_every_name_is_there() -> None:
    picture = timeline_svg(training(3))
    assert picture.note == ""
    group = re.search(r'<g [^>]*marker-end="url\(#head\)">(.*?)</g>', picture.svg)
    assert group is not None and group[1].count("<path") == 24
    assert ">forward<" in picture.svg and "virtual time (simulated)" in picture.svg


def test_what_is_merged_is_said() -> None:
    assert "are merged" in timeline_svg(busy(100_000)).note
    assert "each row shows 8 ranks" in timeline_svg(busy(50_000, 512)).note
    assert "First 40 of 100,000 events" in timeline_bundle(busy(100_000))["text/html"]


def test_markup_in_names_stays_text() -> None:
    trace = Trace.from_events([Event(0, "compute", 0, 1, tag="<script>&")])
    html = timeline_bundle(trace, title="a < b")["text/html"]
    assert "<script" not in html + image(html) and "&lt;script&gt;&amp;" in html and "a &lt; b" in html


def test_the_numbers_alone() -> None:
    bundle = numbers_bundle(training(3), title="Ring")
    assert "<img" not in bundle["text/html"] and "<b>Ring</b> 3 ranks" in bundle["text/html"]
    assert timeline(training(3), "Ring").bundle["text/plain"].startswith(bundle["text/plain"] + "\nWhere the time of each rank went")


def test_the_legend_names_what_the_trace_holds_and_numbers_about_memory_are_no_marks() -> None:
    events = [Event(0, "compute", 0.0, 1.0, tag="forward"), Event(1, "send", 1.0, 2.0, peer=0), Event(0, "recv", 1.0, 2.0, peer=1)]
    told = [Event(0, "metric", n / 10, n / 10, tag="memory: activations", value=n) for n in range(10)]
    plain, with_memory = Trace.from_events(events), Trace.from_events([*told, *events])
    path = [[row, 1.0, 2.0] for row in np.flatnonzero(with_memory.columns["rank"] == 1).tolist()]
    same = [[row, 1.0, 2.0] for row in np.flatnonzero(plain.columns["rank"] == 1).tolist()]
    assert timeline_svg(with_memory, path) == timeline_svg(plain, same)
    svg = timeline_svg(plain).svg
    assert all(f">{kind}</text>" in svg for kind in ("compute", "send", "recv")) and ">metric</text>" not in svg
    assert ">metric</text>" in timeline_svg(Trace.from_events([*events, Event(0, "metric", 1.0, 1.0, tag="loss", value=2.0)])).svg
