"""Accounts of memory, made without ranks and without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partkit.tracing import Recorder, Trace
from partkit.tracing.memory import CAP, Share, metric_of, share_metric

Moment = Mapping[str, int]


def note(recorder: Recorder, moment: Moment, time: float = 0.0, span: str = "", site: str = "") -> None:
    """What changes at one moment."""
    for more, (use, value) in zip(reversed(range(len(moment))), moment.items(), strict=True):
        recorder.add("metric", time, time, tag=CAP if use == "cap" else metric_of(use), value=value, seq=more, span=span, site=site)  # type: ignore[arg-type]


def account(moments: Sequence[Moment]) -> Trace:
    """A finished trace of one rank, a second from moment to moment."""
    trace, recorder = Trace(1, clock="virtual"), Recorder(0)
    for k, moment in enumerate(moments):
        note(recorder, moment, float(k))
    trace.append(recorder.drain())
    trace.finished.set()
    return trace


def training(factors: Sequence[int], *, caps: Sequence[int] | None = None, seconds: float = 1e-3, live: bool = False) -> Trace:
    """A step of each rank, with so many times 400 bytes of parameters and 600 of activations: forward, backward."""
    trace = Trace(len(factors), clock="virtual")
    for rank, factor in enumerate(factors):
        recorder = Recorder(rank)
        note(recorder, {"parameters": 400 * factor, **({"cap": caps[rank]} if caps else {})}, 0.0, "", "train.py:2")
        for k in range(1, 4):
            note(recorder, {"activations": 200 * factor * k}, k * seconds, "forward", "train.py:4")
        for k in range(3):
            note(recorder, {"activations": 200 * factor * (2 - k), "gradients": 133 * factor * (k + 1)}, (4 + k) * seconds, "backward", "train.py:5")
        note(recorder, {"gradients": 0}, 7 * seconds, "", "train.py:6")
        share = Share("parameters", "float32[10, 10]", factor, 400 * factor, "train.py:3")
        recorder.add("metric", 7 * seconds, 7 * seconds, tag=share_metric(share), value=share.nbytes, site=share.site)
        trace.append(recorder.drain())
    if not live:
        trace.finished.set()
    return trace
