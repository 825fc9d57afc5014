"""Traces in files: partkit's own format (numpy's npz, compressed), and Chrome's JSON for Perfetto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from partkit.tracing.events import RECORD, Event
from partkit.tracing.sights import pack, unpack
from partkit.tracing.table import Trace

FORMAT = "partkit trace"


def save(trace: Trace, path: str | Path) -> Path:
    """Write the records as they are, and beside them what explains them."""
    names = {"format": FORMAT, "version": 2, "size": trace.size, "clock": trace.clock, "strings": trace.strings}
    header = json.dumps({**names, "sights": pack(trace.sights)})
    with open(path, "wb") as file:
        np.savez_compressed(file, rows=trace.columns, header=np.frombuffer(header.encode(), dtype=np.uint8))
    return Path(path)


def load(path: str | Path) -> Trace:
    """Read what `save` wrote."""
    with open(path, "rb") as file:
        try:
            data = np.load(file, allow_pickle=False)
            header, rows = json.loads(bytes(data["header"])), data["rows"]
            if header["format"] != FORMAT or rows.dtype != RECORD:
                raise ValueError("something else in the same container")
        except Exception as problem:  # numpy raises a dozen kinds for a file that is none of its own
            raise ValueError(f"{path} is no trace that Trace.save wrote") from problem
    trace = Trace.from_columns(rows, header["strings"], size=header["size"], clock=header["clock"])
    trace.sights = unpack(header.get("sights", []))
    return trace


def to_chrome(trace: Trace, path: str | Path) -> Path:
    """Write Chrome trace JSON: a process a rank, in it threads for messages out, messages in and all else."""
    events: list[dict[str, Any]] = []
    for rank in range(trace.size):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}})
    events.extend(_bar(event) for event in trace.events)
    for number, (send, recv) in enumerate(trace.messages()):
        arrow = {"name": "message", "cat": "message", "id": number}
        events.append({**arrow, "ph": "s", "pid": send.rank, "tid": 1, "ts": send.start * 1e6})
        events.append({**arrow, "ph": "f", "bp": "e", "pid": recv.rank, "tid": 2, "ts": max(recv.end, send.start) * 1e6})
    Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"clock": trace.clock}}))
    return Path(path)


def _bar(event: Event) -> dict[str, Any]:
    """One event as a bar; times in microseconds."""
    details = {"bytes": event.nbytes, "peer": event.peer, "tag": event.tag, "span": event.span, "source": event.site}
    place = {"pid": event.rank, "tid": {"send": 1, "recv": 2}.get(event.kind, 0)}
    times = {"ts": event.start * 1e6, "dur": (event.end - event.start) * 1e6}
    return {"ph": "X", "name": f"{event.kind} {event.tag}".strip(), "cat": event.kind, **place, **times, "args": details}
