"""Busy time and bubbles of a step that has run: by the spans of its actions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import partkit as pk
from partkit.pipeline_parallel import bubble_inside, bubble_share
from partkit.pipeline_parallel.measure import actions, busy, spans
from partkit.tracing import Event, Trace


def step(comm: Any) -> None:
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
    model = pk.PipelineParallel(net, comm, loss=F.mse_loss, schedule="gpipe", num_microbatches=8)
    with comm.span("training"):
        model.step(torch.ones(8, 64), target=torch.zeros(8, 64))


def test_a_real_step_has_the_actions_of_its_schedule() -> None:
    with pk.SimulatedWorld(2, compute="counted") as world:
        world.run(step)
        trace = world.trace
    assert len(actions(trace)) == 2 * 2 * 8
    assert all(0 < work <= span for work, span in zip(busy(trace), spans(trace), strict=True))
    assert 0 < bubble_share(trace) < 1 and bubble_inside(trace) > 0


def test_computations_inside_of_actions_are_not_counted_twice() -> None:
    events = [Event(rank, "span", start, start + 1, tag=f"{rank}F0") for rank, start in ((0, 0.0), (1, 1.0))]
    inside = [Event(rank, "compute", start, start + 0.5, tag="mm") for rank, start in ((0, 0.0), (1, 1.0))]
    around = [Event(0, "span", 0.0, 9.0, tag="training"), Event(0, "compute", 8.0, 9.0, tag="mm")]
    trace = Trace.from_events([*events, *inside, *around], size=2)
    assert busy(trace) == (1.0, 1.0)
    assert bubble_share(trace) == pytest.approx(1 / 2)
    assert bubble_share(Trace.from_events([], size=2)) == 0.0


@pytest.mark.parametrize("kind", ["F", "B", "I", "W", "STEP"])
def test_each_kind_that_takes_time_is_busy_time(kind: str) -> None:
    events = [Event(0, "span", 0.0, 1.0, tag="0F0"), Event(0, "span", 1.0, 3.0, tag=f"0{kind}1"), Event(0, "span", 3.0, 7.0, tag="0SEND_F1")]
    assert busy(Trace.from_events(events, size=1)) == (3.0,)


def test_a_rank_without_actions_is_idle_all_along() -> None:
    trace = Trace.from_events([Event(0, "span", 0.0, 1.0, tag="0F0")], size=2)
    assert (bubble_share(trace), busy(trace), spans(trace)) == (0.5, (1.0, 0.0), (1.0, 0.0))
