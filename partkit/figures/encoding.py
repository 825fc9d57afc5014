"""A trace as bytes for a browser: 10 to 12 bytes an event, everything about it included.

What differs from event to event is sent as such; what repeats (a training step sends the same messages as the step before)
is sent once, as a row of a dictionary:

    start    f4   seconds after the block's own base (f8), so that long runs keep their resolution
    length   f4   seconds
    place    u1   rank * LANES + lane
    detail   u1   row of the dictionary: kind, tag, span, source, group, bytes, hop = (peer - rank) mod size

(the last two are u2, and the header says "wide", in a block in which one of them needs it: from 16 ranks or 256 different rows on)

`Encoder.encode` turns the events since its last call into one block; a whole trace is one block, or many one after another:

    u4 header length | u4 0 | JSON header, padded to 8 bytes | f8 details (n, 7) | f4 start | f4 length | u1 place | u1 detail | padding to 8

The header has the counts, the strings that are new, and the few sequence numbers that are not one more than the one before
in their channel (src, dst, tag, group): the n-th send of a channel meets the n-th receive, which is how the browser finds the
other end of an arrow. It also has the numbers of metrics, which would fill the dictionary.
Details that differ for every event would make the dictionary as large as the trace. From `MAX_DETAILS` on, an event gets the row
of its kind only, which `Encoder.num_plain` counts and the picture says; the trace itself stays complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from partkit.figures.lanes import MAX_RANKS, Lanes
from partkit.figures.units import count
from partkit.tracing import KIND_CODE, KINDS, Columns, Trace

MAX_DETAILS = 2**16
BLOCK = 2**15
"""Events in one block: what a processor's cache holds, which is three times as fast as all of a million at once."""
DETAIL_COLUMNS = ("kind", "tag", "span", "site", "group", "nbytes", "hop")
Details = npt.NDArray[np.float64]

_SEND, _RECV, _METRIC = KIND_CODE["send"], KIND_CODE["recv"], KIND_CODE["metric"]
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Encoder:
    """Turns a growing trace into blocks of bytes.

    Args:
        trace: may grow between calls; ranks above `MAX_RANKS` are left out and counted.
        paired: with what a browser needs to pair sends with receives; a sketch of a trace has no pairs.

    Attributes:
        num_events: events encoded so far.
        num_plain: those without details, since the dictionary was full.
        num_left_out: those of ranks that have no row.
    """

    def __init__(self, trace: Trace, *, paired: bool = True) -> None:
        self.trace = trace
        self._paired = paired
        self.num_events = 0
        self.num_plain = 0
        self.num_left_out = 0
        self._taken = 0
        self._num_strings = 0
        self._lanes = Lanes(min(trace.size, MAX_RANKS))
        self._details = _Dictionary()
        self._messages = _Counter()

    @property
    def note(self) -> str:
        """What the blocks leave out, in words; empty if nothing."""
        plain = f"{count(self.num_plain, 'event')} without details" if self.num_plain else ""
        left_out = f"{count(self.num_left_out, 'event')} of further ranks left out" if self.num_left_out else ""
        return ", ".join(filter(None, (plain, left_out)))

    def encode(self) -> bytes:
        """The events that came since the last call, as blocks; empty if there are none."""
        rows = self.trace.columns[self._taken :]
        self._taken += len(rows)
        strings = list(self.trace.strings)  # taken after the rows: holds every string they use
        if self.trace.size > MAX_RANKS:
            kept = rows["rank"] < MAX_RANKS
            self.num_left_out += len(rows) - int(kept.sum())
            rows = rows[kept]
        return b"".join(self._block(rows[first : first + BLOCK], strings) for first in range(0, len(rows), BLOCK))

    def _block(self, rows: Columns, strings: list[str]) -> bytes:
        place = self._lanes.place(rows, strings)
        known = len(self._details)
        detail = self._details.look_up(_detail_columns(rows, self.trace.size))
        self.num_plain += int((detail < len(KINDS)).sum())
        wide = int(max(place.max(), detail.max())) > 255
        start = rows["start"]
        base = float(start.min())
        header = {
            "n": len(rows),
            "base": base,
            "wide": int(wide),
            "details": len(self._details) - known,
            "strings": strings[self._num_strings :],
            "seq": self._messages.exceptions(rows, self._details, detail, self.num_events) if self._paired else [],
            "values": _values(rows, self.num_events),
        }
        self._num_strings = len(strings)
        self.num_events += len(rows)
        times, numbers = ((start - base).astype("<f4"), (rows["end"] - start).astype("<f4")), (place, detail)
        return pack(header, (self._details.rows(known), *times, *(column.astype("<u2" if wide else "u1") for column in numbers)))


def encode(trace: Trace) -> bytes:
    """All events of a trace as one block."""
    return Encoder(trace).encode()


def _detail_columns(rows: Columns, size: int) -> list[npt.NDArray[np.int64]]:
    hop = np.where(rows["peer"] >= 0, (rows["peer"] - rows["rank"]) % max(size, 1), -1)
    return [*(rows[name].astype(np.int64) for name in DETAIL_COLUMNS[:-1]), hop.astype(np.int64)]


def _values(rows: Columns, first: int) -> list[list[float]]:
    """``[event, number]`` for each metric."""
    at = np.flatnonzero(rows["kind"] == _METRIC)
    return [[first + i, value] for i, value in zip(at.tolist(), rows["value"][at].tolist(), strict=True) if np.isfinite(value)]


def pack(header: dict[str, object], columns: Iterable[npt.NDArray[np.generic]]) -> bytes:
    """One block: length of the header, header, columns, each part padded to 8 bytes."""
    text = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join((len(text).to_bytes(8, "little"), text, *(column.tobytes() for column in columns)))
    return body + b"\0" * (-len(body) % 8)


class _Dictionary:
    """Rows seen so far, found by a 64-bit hash. The first rows are the kinds, without details."""

    def __init__(self) -> None:
        plain = np.full((len(KINDS), len(DETAIL_COLUMNS)), -1)
        plain[:, 0] = np.arange(len(KINDS))
        self._rows = [plain.astype(np.float64)]
        self._size = 0  # until the first call, whose block carries the plain rows too
        self._hashes = np.zeros(1, dtype=np.uint64)  # sorted; the 0 stands for no row
        self._numbers = np.zeros(1, dtype=np.uint16)
        self._channel_numbers: dict[tuple[int, ...], int] = {}
        self.channels = np.full(len(KINDS), -1)
        """Which channel the messages of each row are in, a number for (kind, tag, group, hop); -1 for none."""

    def __len__(self) -> int:
        return self._size

    @property
    def num_channels(self) -> int:
        return len(self._channel_numbers)

    def rows(self, first: int) -> Details:
        return np.concatenate(self._rows)[first:]

    def look_up(self, columns: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.uint16]:
        self._size = max(self._size, len(KINDS))
        hashes = np.zeros(len(columns[0]), dtype=np.uint64)
        for column in columns:
            hashes = (hashes + column.astype(np.uint64)) * _MIX
            hashes ^= hashes >> np.uint64(29)
        for first in range(0, len(hashes), 2**16):  # small sorts; later parts mostly repeat what the first ones had
            self._learn(hashes[first : first + 2**16], [column[first : first + 2**16] for column in columns])
        at, known = self._find(hashes)
        return np.where(known, self._numbers[at], columns[0]).astype(np.uint16)

    def _find(self, hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return at, self._hashes[at] == hashes

    def _learn(self, hashes: npt.NDArray[np.uint64], columns: list[npt.NDArray[np.int64]]) -> None:
        new = np.flatnonzero(~self._find(hashes)[1])
        if len(new) == 0 or self._size == MAX_DETAILS:
            return
        first = np.sort(np.unique(hashes[new], return_index=True)[1])[: MAX_DETAILS - self._size]  # numbered in the order of arrival
        rows = np.stack([column[new[first]] for column in columns], axis=1)
        numbers = np.arange(self._size, self._size + len(rows)).astype(np.uint16)
        self._size += len(rows)
        self._rows.append(rows.astype(np.float64))
        self.channels = np.concatenate((self.channels, [self._channel(row) for row in rows.tolist()]))
        self._hashes = np.concatenate((self._hashes, hashes[new[first]]))
        self._numbers = np.concatenate((self._numbers, numbers))
        order = np.argsort(self._hashes)
        self._hashes, self._numbers = self._hashes[order], self._numbers[order]

    def _channel(self, row: list[int]) -> int:
        kind, tag, _, _, group, _, hop = row
        return self._channel_numbers.setdefault((kind, tag, group, hop), len(self._channel_numbers)) if kind in (_SEND, _RECV) else -1


class _Counter:
    """Remembers the last sequence number of each channel of each rank."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}

    def exceptions(self, rows: Columns, details: _Dictionary, detail: npt.NDArray[np.uint16], first: int) -> list[list[int]]:
        """``[event, seq]`` for each message whose number is not one more than that of its channel's message before."""
        channel = details.channels[detail]
        at = np.flatnonzero(channel >= 0)
        if len(at) == 0:
            return []
        key = rows["rank"][at] * details.num_channels + channel[at]
        order = np.argsort(key.astype(np.uint16) if key.max() < 2**16 else key, kind="stable")  # 16 bits: radix sort
        at, key, seq = at[order], key[order], rows["seq"][at[order]].astype(np.int64)
        starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        ends = np.append(starts[1:], len(key)) - 1
        owners = [divmod(k, details.num_channels) for k in key[starts].tolist()]
        before = np.concatenate(([0], seq[:-1]))
        before[starts] = [self._last.get(owner, -1) for owner in owners]
        self._last.update(zip(owners, seq[ends].tolist(), strict=True))
        odd = np.flatnonzero(seq != before + 1)
        return sorted([first + int(at[i]), int(seq[i])] for i in odd)
