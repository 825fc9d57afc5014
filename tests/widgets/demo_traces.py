"""Traces for tests and pictures of the timeline: what a ring all-reduce in a training step, or a very busy run, leaves behind."""

from __future__ import annotations

import numpy as np

from partkit.tracing import KIND_CODE, RECORD, Batch, Clock, Event, Trace


def training(size: int = 3, *, steps: int = 2, nbytes: int = 12_000, clock: Clock = "virtual", alpha: float = 20e-6, per_byte: float = 1e-8) -> Trace:
    """Training steps in virtual time: forward, backward, a ring all-reduce of ``nbytes``, the update."""
    events: list[Event] = []
    now = [0.0] * size
    for step in range(steps):
        begin = list(now)
        for rank in range(size):
            for name, length in (("forward", 2e-4 + 2e-5 * rank), ("backward", 3e-4)):
                events.append(Event(rank, "compute", now[rank], now[rank] + length, tag=name, span="step", site="train.py:9"))
                now[rank] += length
        entered = list(now)
        for turn in range(1, 2 * size - 1):
            tag = f"reduce-scatter {turn}" if turn < size else f"all-gather {turn - size + 1}"
            posted, chunk = list(now), nbytes // size
            for rank in range(size):
                left, right = (rank - 1) % size, (rank + 1) % size
                for kind, peer in (("send", right), ("recv", left)):
                    end = max(posted[rank], posted[peer]) + alpha + chunk * per_byte
                    events.append(Event(rank, kind, posted[rank], end, peer, chunk, tag, step, "step/all_reduce", "train.py:12"))  # type: ignore[arg-type]
                    now[rank] = max(now[rank], end)
        for rank in range(size):
            events.append(Event(rank, "collective", entered[rank], now[rank], tag="all_reduce[sum, ring]", nbytes=nbytes, seq=step, span="step", site="train.py:12"))
            events.append(Event(rank, "compute", now[rank], now[rank] + 1e-4, tag="update", span="step", site="train.py:14"))
            now[rank] += 1e-4
            events.append(Event(rank, "span", begin[rank], now[rank], tag="step", site="train.py:7"))
    return Trace.from_events(events, size=size, clock=clock)


def busy(num_events: int, size: int = 8, *, clock: Clock = "wall", finished: bool = True) -> Trace:
    """A run of ``num_events``: computations, messages round the ring, collectives, one after another on each rank."""
    trace = Trace(size, clock=clock)
    strings = ["forward", "ring", "step", "step/all_reduce", "train.py:9"]
    for rank, rows in enumerate(busy_rows(num_events, size)):
        trace.append(Batch(strings, rows))
        assert rank < size
    if finished:
        trace.finished.set()
    return trace


def busy_rows(num_events: int, size: int, first: int = 0, period: float = 1e-4) -> list[np.ndarray]:  # type: ignore[type-arg]
    """The records of each rank, event ``first`` and on; strings: forward, ring, step, step/all_reduce, train.py:9."""
    out = []
    for rank in range(size):
        turn = np.arange(first // size, (first + num_events - rank + size - 1) // size)
        kind = np.array([KIND_CODE[k] for k in ("compute", "send", "recv", "send", "recv", "collective")])[turn % 6]
        rows = np.zeros(len(turn), dtype=RECORD)
        rows["rank"], rows["kind"], rows["peer"] = rank, kind, -1
        rows["start"], rows["end"] = turn * period, turn * period + 0.9 * period
        is_send, is_recv = kind == KIND_CODE["send"], kind == KIND_CODE["recv"]
        rows["start"][is_recv] -= period  # posted together with the send before it
        rows["start"][kind == KIND_CODE["collective"]] -= 4 * period
        rows["peer"][is_send], rows["peer"][is_recv] = (rank + 1) % size, (rank - 1) % size
        rows["nbytes"][is_send | is_recv] = 4096
        rows["tag"] = np.where(kind == KIND_CODE["compute"], 1, 2)
        rows["span"] = np.where(is_send | is_recv, 4, 3)
        rows["site"] = 5
        rows["seq"] = np.where(is_send | is_recv, turn // 6 * 2 + (turn % 6 - 1) // 2, 0)
        out.append(rows)
    return out
