"""What travels to the browser, by value."""

from __future__ import annotations

import numpy as np
import pytest

from partkit.figures import encoding
from partkit.figures.encoding import Encoder, encode
from partkit.figures.lanes import LANES, MAX_RANKS
from partkit.tracing import KINDS, Event, Trace
from tests.widgets.decoding import Decoded, decode
from tests.widgets.demo_traces import busy, training


def told(data: Decoded, size: int) -> list[tuple[object, ...]]:
    """rank, kind, peer, bytes, tag, span, source, group of each event."""
    out = []
    for place, number in zip(data.place.tolist(), data.detail.tolist(), strict=True):
        row, rank = data.details[number], place // LANES
        peer = None if row["hop"] < 0 else (rank + row["hop"]) % size
        out.append((rank, KINDS[row["kind"]], peer, row["nbytes"], *(data.strings[row[name]] for name in ("tag", "span", "site", "group"))))
    return out


def test_everything_about_every_event_arrives() -> None:
    trace = training(4)
    data = decode(encode(trace))
    rows = [trace.event(row) for row in trace.columns]
    assert told(data, 4) == [(e.rank, e.kind, e.peer, e.nbytes, e.tag, e.span, e.site, e.group) for e in rows]
    np.testing.assert_allclose(data.start, [e.start for e in rows], atol=1e-10)
    np.testing.assert_allclose(data.length, [e.end - e.start for e in rows], atol=1e-10)
    assert data.values == {i: e.value for i, e in enumerate(rows) if e.kind == "metric"}


def test_about_ten_bytes_an_event() -> None:
    assert len(encode(busy(100_000))) / 100_000 < 10.1


@pytest.mark.parametrize(("ranks", "rows"), [(16, 200), (17, 200), (16, 300)])
def test_a_block_with_a_large_number_is_wide(ranks: int, rows: int) -> None:
    """A byte holds 16 ranks of 16 lanes, and 256 rows of details."""
    events = [Event(i % ranks, "compute", float(i), i + 1.0, nbytes=i % rows) for i in range(encoding.BLOCK + 1000)]
    trace = Trace.from_events(events, size=ranks)
    data = encode(trace)
    assert told(decode(data), ranks) == [(e.rank, "compute", None, e.nbytes, "", "", "", "") for e in map(trace.event, trace.columns)]
    assert len(data) / len(events) < (10.5 if (ranks, rows) == (16, 200) else 12.6)
    assert (ranks, rows) == (16, 200) or len(data) / len(events) > 12


def test_blocks_as_the_run_goes_on_say_the_same_as_one_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training(3, steps=4)
    growing, encoder, data = Trace(3, clock="virtual"), None, b""
    for first in range(0, len(whole), 17):
        growing._grow(first + 17)
        part = whole.columns[first : first + 17]
        growing._rows[first : first + len(part)], growing._count, growing.strings = part, first + len(part), whole.strings
        encoder = encoder or Encoder(growing)
        data += encoder.encode()
    assert encoder is not None and encoder.encode() == b"" and encoder.num_events == len(whole)
    monkeypatch.setattr(encoding, "BLOCK", 10**9)
    together, apart = decode(encode(whole)), decode(data)
    assert told(apart, 3) == told(together, 3) and apart.seq == together.seq and apart.place.tolist() == together.place.tolist()


def test_long_runs_keep_their_resolution() -> None:
    trace = Trace.from_events([Event(0, "compute", 10_000 + i * 1e-6, 10_000 + (i + 0.5) * 1e-6) for i in range(100)])
    np.testing.assert_allclose(np.diff(decode(encode(trace)).start), 1e-6, rtol=1e-2)


def test_only_odd_sequence_numbers_are_told() -> None:
    def messages(*numbers: int) -> Trace:
        return Trace.from_events([Event(0, "send", t, t + 1, 1, seq=n) for t, n in enumerate(numbers)], size=2)

    assert decode(encode(messages(0, 1, 2))).seq == {}
    assert decode(encode(messages(5, 6, 7))).seq == {0: 5}
    assert decode(encode(messages(0, 2, 1, 3))).seq == {1: 2, 2: 1, 3: 3}


def test_messages_of_other_sizes_are_of_the_same_channel() -> None:
    events = [Event(0, "send", t, t + 1, 1, nbytes=8 * t, seq=t, site=f"a.py:{t}") for t in range(5)]
    assert decode(encode(Trace.from_events(events, size=2))).seq == {}


def test_a_full_dictionary_costs_details_not_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MAX_DETAILS", len(KINDS) + 3)
    trace = Trace.from_events([Event(0, "compute", t, t + 1, tag=f"layer {t}") for t in range(5)])
    encoder = Encoder(trace)
    data = decode(encoder.encode())
    assert encoder.num_plain == 2 and "2 events without details" in encoder.note
    assert [data.details[i]["tag"] >= 0 for i in data.detail] == [True] * 3 + [False] * 2
    assert {data.details[i]["kind"] for i in data.detail} == {KINDS.index("compute")}


def test_ranks_beyond_the_last_row_are_counted() -> None:
    trace = Trace.from_events([Event(rank, "compute", 0, 1) for rank in (0, MAX_RANKS - 1, MAX_RANKS)])
    encoder = Encoder(trace)
    assert (decode(encoder.encode()).place // LANES).tolist() == [0, MAX_RANKS - 1]
    assert encoder.num_left_out == 1 and "1 event" in encoder.note
