"""Traces for tests and pictures of the timeline: what a ring all-reduce in a training step, or a very busy run, leaves behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partkit.tracing import KIND_CODE, RECORD, Batch, Clock, Event, Kind, Trace

ALPHA, PER_BYTE = 20e-6, 1e-8
STRINGS, SITES = ["forward", "ring", "step", "step/all_reduce"], ["train.py:9"]
"""What the numbers in `busy_rows` mean, from 1."""


def training(size: int = 3, *, steps: int = 2, nbytes: int = 12_000, clock: Clock = "virtual") -> Trace:
    """Training steps in virtual time: forward, backward, a ring all-reduce of ``nbytes``, the update, the loss."""
    events: list[Event] = []
    now = [0.0] * size
    for step in range(steps):
        begin = list(now)
        for rank in range(size):
            for name, length in (("forward", 2e-4 + 2e-5 * rank), ("backward", 3e-4)):
                events.append(Event(rank, "compute", now[rank], now[rank] + length, tag=name, span="step", site="train.py:9"))
                now[rank] += length
        entered = list(now)
        ring(events, now, nbytes // size, step)
        for rank in range(size):
            end, site = now[rank], "train.py:12"
            events.append(Event(rank, "collective", entered[rank], end, None, nbytes, "all_reduce[sum, ring]", step, "step", site))
            events.append(Event(rank, "compute", end, end + 1e-4, tag="update", span="step", site="train.py:14"))
            events.append(Event(rank, "metric", end + 1e-4, end + 1e-4, tag="loss", span="step", site="train.py:15", value=2.3 / (step + 1)))
            events.append(Event(rank, "span", begin[rank], end + 1e-4, tag="step", site="train.py:7"))
            now[rank] += 1e-4
    return Trace.from_events(events, size=size, clock=clock)


def ring(events: list[Event], now: list[float], chunk: int, step: int) -> None:
    """The messages of one ring all-reduce; moves each rank's time on."""
    size = len(now)
    for turn in range(1, 2 * size - 1):
        tag = f"reduce-scatter {turn}" if turn < size else f"all-gather {turn - size + 1}"
        posted = list(now)
        for rank in range(size):
            sides: list[tuple[Kind, int]] = [("send", (rank + 1) % size), ("recv", (rank - 1) % size)]
            for kind, peer in sides:
                end = max(posted[rank], posted[peer]) + ALPHA + chunk * PER_BYTE
                events.append(Event(rank, kind, posted[rank], end, peer, chunk, tag, step, "step/all_reduce", "train.py:12"))
                now[rank] = max(now[rank], end)


def busy(num_events: int, size: int = 8, *, clock: Clock = "wall") -> Trace:
    """A finished run of ``num_events``: computations, messages round the ring, collectives, one after another on each rank."""
    trace = Trace(size, clock=clock)
    for rows in busy_rows(num_events, size):
        trace.append(Batch(STRINGS, rows, SITES))
    trace.finished.set()
    return trace


def busy_rows(num_events: int, size: int, first: int = 0, period: float = 1e-4) -> list[npt.NDArray[Any]]:
    """The records of each rank for events ``first`` to ``first + num_events`` of all ranks together."""
    out = []
    for rank in range(size):
        turn = np.arange((first - rank + size - 1) // size, (first + num_events - rank + size - 1) // size)
        kind = np.array([KIND_CODE[k] for k in ("compute", "send", "recv", "send", "recv", "collective")])[turn % 6]
        is_message = (kind == KIND_CODE["send"]) | (kind == KIND_CODE["recv"])
        rows = np.zeros(len(turn), dtype=RECORD)
        rows["rank"], rows["kind"], rows["peer"], rows["site"] = rank, kind, -1, 1
        rows["start"], rows["end"] = turn * period, turn * period + 0.9 * period
        rows["start"][kind == KIND_CODE["recv"]] -= period  # posted together with the send before it
        rows["start"][kind == KIND_CODE["collective"]] -= 4 * period
        rows["peer"][is_message] = np.where(kind == KIND_CODE["send"], (rank + 1) % size, (rank - 1) % size)[is_message]
        rows["nbytes"][is_message] = 4096
        rows["tag"] = np.where(kind == KIND_CODE["compute"], 1, 2)
        rows["span"] = np.where(is_message, 4, 3)
        rows["seq"] = np.where(is_message, turn // 6 * 2 + (turn % 6 - 1) // 2, 0)
        out.append(rows)
    return out
