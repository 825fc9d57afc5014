"""Events on their way into a trace, and what a trace tells."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.tracing import RECORD, Batch, Event, Recorder, Trace

names = st.sampled_from(["", "a", "step: 1", "train/epoch: 2"])
times = st.floats(0, 100, allow_nan=False).map(lambda t: round(t, 3))


@st.composite
def events(draw: st.DrawFn) -> Event:
    kind = draw(st.sampled_from(["send", "recv", "compute", "span", "collective"]))
    start = draw(times)
    peer = draw(st.integers(0, 3)) if kind in ("send", "recv") else None
    return Event(
        draw(st.integers(0, 3)),
        kind,
        start,
        start + draw(times),
        peer,
        draw(st.integers(0, 2**40)),
        draw(names),
        draw(st.integers(0, 9)),
        draw(names),
        "f.py:3",
    )


def batches(rank: int, *tags: str, start: float = 0.0) -> Batch:
    recorder = Recorder(rank)
    for i, tag in enumerate(tags):
        recorder.add("compute", start + i, start + i + 0.5, tag=tag, site=f"file.py:{i}")
    batch = recorder.drain()
    assert batch is not None
    return batch


@given(st.lists(events(), max_size=20))
def test_events_come_back_as_they_went_in_ordered_by_start_then_rank(given_events: list[Event]) -> None:
    trace = Trace.from_events(given_events, size=4)
    assert sorted(trace.events) == sorted(given_events)
    assert [(e.start, e.rank) for e in trace.events] == sorted((e.start, e.rank) for e in given_events)
    assert trace.bytes_sent() == sum(e.nbytes for e in given_events if e.kind == "send")
    assert [trace.num_messages(rank) for rank in range(4)] == [sum(e.kind == "send" and e.rank == rank for e in given_events) for rank in range(4)]


@given(st.lists(events(), max_size=20))
def test_saving_and_loading_changes_nothing(tmp_path_factory: pytest.TempPathFactory, given_events: list[Event]) -> None:
    trace = Trace.from_events(given_events, size=4, clock="planned")
    loaded = Trace.load(trace.save(tmp_path_factory.mktemp("trace") / "trace.npz"))
    assert list(loaded.events) == list(trace.events)
    assert (loaded.size, loaded.clock, loaded.finished.is_set(), repr(loaded)) == (4, "planned", True, repr(trace))


def test_a_loaded_trace_can_be_added_to(tmp_path: Path) -> None:
    loaded = Trace.load(Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="old")]).save(tmp_path / "t"))
    loaded.append(batches(0, "new", "old", start=2.0))
    assert [e.tag for e in loaded.events] == ["old", "new", "old"]


@pytest.mark.parametrize("content", [b"", b"no trace at all", b"PK\x03\x04 a broken zip"])
def test_a_file_that_is_no_trace_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.npz is no trace that Trace\.save wrote"):
        Trace.load(path)


def test_an_array_file_of_something_else_is_refused_and_a_missing_one_is_missing(tmp_path: Path) -> None:
    np.savez(tmp_path / "numbers.npz", rows=np.zeros(3))
    with pytest.raises(ValueError, match="is no trace"):
        Trace.load(tmp_path / "numbers.npz")
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "nothing.npz")


def test_a_recorder_sends_each_string_once_and_source_lines_in_a_table_of_their_own() -> None:
    recorder = Recorder(2)
    recorder.add("send", 1.0, 2.0, 3, 8, 0, "a", "step/a", "file.py:1", "tp")
    first = recorder.drain()
    recorder.add("send", 2.0, 3.0, 3, 8, 1, "a", "step/a", "file.py:2", "tp")
    second = recorder.drain()
    assert first is not None and second is not None and recorder.drain() is None
    assert (first.new_strings, first.new_sites) == (["a", "step/a", "tp"], ["file.py:1"])
    assert (second.new_strings, second.new_sites) == ([], ["file.py:2"])
    trace = Trace(4)
    for batch in (first, second):
        trace.append(batch._replace(new_sites=[f"In [1]:{site[-1]}" for site in batch.new_sites]))
    assert list(trace.events) == [
        Event(2, "send", 1.0, 2.0, 3, 8, "a", 0, "step/a", "In [1]:1", "tp"),
        Event(2, "send", 2.0, 3.0, 3, 8, "a", 1, "step/a", "In [1]:2", "tp"),
    ]


def test_a_recorder_that_is_off_keeps_nothing_and_reset_starts_anew() -> None:
    recorder = Recorder(0, enabled=False)
    recorder.add("compute", 0.0, 1.0)
    assert len(recorder) == 0 and recorder.drain() is None
    recorder.enabled = True
    recorder.add("compute", 0.0, 1.0, tag="a")
    recorder.reset()
    recorder.add("compute", 0.0, 1.0, tag="b")
    batch = recorder.drain()
    assert batch is not None and batch.new_strings == ["b"]


def test_ranks_number_their_strings_on_their_own() -> None:
    trace = Trace(2)
    trace.append(batches(0, "forward", "backward"))
    trace.append(batches(1, "backward", "forward"))
    trace.append(None)
    assert [(e.rank, e.tag) for e in trace.events] == [(0, "forward"), (1, "backward"), (0, "backward"), (1, "forward")]
    assert sorted(trace.strings) == sorted(["", "forward", "backward", "file.py:0", "file.py:1"])


def test_times_count_from_the_origin() -> None:
    trace = Trace(1, origin=100.0)
    trace.append(batches(0, "a", start=100.25))
    assert [(e.start, e.end) for e in trace.events] == [(0.25, 0.75)]
    assert trace.makespan == 0.5
    assert Trace(1).makespan == 0.0


def test_columns_that_somebody_holds_never_change() -> None:
    trace = Trace(1)
    trace.append(batches(0, "a"))
    held, copy = trace.columns, trace.columns.copy()
    for i in range(300):
        trace.append(batches(0, "b", start=1.0 + i))
    assert len(held) == 1 and (held == copy).all() and len(trace.columns) == 301 and trace.columns.dtype == RECORD


def test_a_trace_may_be_read_while_it_grows() -> None:
    trace, stop, lengths = Trace(4), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            lengths.append((len(trace.columns), len(trace.events), trace.num_messages()))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(500):
        trace.append(batches(i % 4, "a", "b", start=float(i)))
    stop.set()
    reader.join()
    assert [columns for columns, *_ in lengths] == sorted(columns for columns, *_ in lengths)
    assert len(trace) == 1000


def test_sends_meet_their_receives_by_tag_number_and_group() -> None:
    def message(src: int, dst: int, tag: str, seq: int, group: str, start: float) -> list[Event]:
        return [
            Event(src, "send", start, start + 2, dst, 8, tag, seq, "", "", group),
            Event(dst, "recv", start + 1, start + 2, src, 8, tag, seq, "", "", group),
        ]

    pairs = [message(0, 1, "a", 0, "", 3.0), message(0, 1, "a", 1, "", 2.0), message(1, 0, "a", 0, "", 1.0), message(0, 1, "a", 0, "tp", 0.0)]
    alone = [Event(0, "send", 9.0, 9.5, 2, 8, "a", 0), Event(1, "recv", 9.0, 9.5, 0, 8, "b", 0)]
    trace = Trace.from_events([event for pair in pairs for event in pair] + alone)
    assert [(m.send, m.recv) for m in trace.messages()] == [tuple(pair) for pair in sorted(pairs, key=lambda pair: pair[0].start)]
    assert trace.pairs().shape == (4, 2)
    assert Trace(2).pairs().shape == (0, 2) and Trace(2).messages() == []


def test_filter_gives_a_trace_of_its_own() -> None:
    trace = Trace.from_events([Event(0, "compute", 0.0, 1.0), Event(1, "span", 0.0, 1.0)], size=3, clock="virtual")
    kept = trace.filter(lambda e: e.kind == "span")
    assert (list(kept.events), kept.size, kept.clock, len(trace)) == ([Event(1, "span", 0.0, 1.0)], 3, "virtual", 2)


def test_the_event_list_is_a_sequence() -> None:
    made = [Event(0, "compute", float(i), i + 0.5, tag=str(i)) for i in range(30)]
    listed = Trace.from_events(made).events
    assert (len(listed), listed[-1], listed[2:4], made[5] in listed) == (30, made[-1], made[2:4], True)
    assert repr(listed).startswith("30 events\n  Event(rank=0,") and repr(listed).endswith("...")


def test_chrome_json_has_a_bar_an_event_and_an_arrow_a_message(tmp_path: Path) -> None:
    trace = Trace.from_events([Event(0, "send", 0.0, 2e-6, 1, 8, "a"), Event(1, "recv", 1e-6, 2e-6, 0, 8, "a"), Event(1, "compute", 0.0, 1e-6, tag="f")])
    written = json.loads(trace.to_chrome(tmp_path / "trace.json").read_text())["traceEvents"]
    bars = [e for e in written if e["ph"] == "X"]
    assert sorted((e["pid"], e["name"], round(e["dur"], 6)) for e in bars) == [(0, "send a", 2.0), (1, "compute f", 1.0), (1, "recv a", 1.0)]
    arrows = [(e["ph"], e["pid"], e["id"]) for e in written if e["ph"] in "sf"]
    assert arrows == [("s", 0, 0), ("f", 1, 0)]
    assert {e["args"]["name"] for e in written if e["name"] == "process_name"} == {"rank 0", "rank 1"}


def test_a_trace_says_what_it_is() -> None:
    assert repr(Trace(1)) == "Trace(1 rank, 0 events, 0 messages, 0 bytes sent)"
    assert repr(Trace.from_events([Event(0, "send", 0, 1, 1, 1)], size=2)) == "Trace(2 ranks, 1 event, 1 message, 1 byte sent)"
