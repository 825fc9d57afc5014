"""Sights travel with events, and are saved with them."""

from __future__ import annotations

import json
from pathlib import Path

from partkit.tracing import Event, Recorder, Sight, Strip, Trace
from partkit.tracing.sights import members, pack, unpack

STRIP = Strip(3, "float32[2]", ("1.5", ""), (0b101, 0))
SIGHT = Sight(1, "post", 2.0, "send", 0, "x", "tp", 4, "step", "float32[1]", 4, 0b101, 3, 1, 1, 2, (STRIP,), (0, 2))


def test_packed_sights_are_plain_and_come_back_equal() -> None:
    sights = [SIGHT, Sight(0, "end", 3.0)]
    assert unpack(json.loads(json.dumps(pack(sights)))) == sights


def test_they_are_drained_with_the_events_and_times_start_with_the_run() -> None:
    recorder = Recorder(1)
    recorder.see(SIGHT)
    batch = recorder.drain()
    assert batch is not None and len(batch.records) == 0 and list(batch.sights) == [SIGHT]
    assert recorder.drain() is None
    trace = Trace(2, origin=0.5)
    trace.append(batch)
    assert trace.sights == [SIGHT._replace(time=1.5)] and len(trace) == 0


def test_a_recorder_that_is_not_enabled_sees_nothing_and_a_reset_forgets() -> None:
    recorder = Recorder(0, enabled=False)
    recorder.see(SIGHT)
    assert recorder.drain() is None
    recorder.enabled = True
    recorder.see(SIGHT)
    recorder.reset()
    assert recorder.drain() is None


def test_a_file_keeps_them_and_an_older_file_has_none(tmp_path: Path) -> None:
    trace = Trace.from_events([Event(0, "compute", 0.0, 1.0)])
    plain = Trace.load(trace.save(tmp_path / "plain"))
    assert plain.sights == []
    trace.sights = [SIGHT]
    assert Trace.load(trace.save(tmp_path / "recorded")).sights == [SIGHT]


def test_members_of_a_set() -> None:
    assert [members(who) for who in (0, 1, 0b1010, 1 << 61)] == [(), (0,), (1, 3), (61,)]
