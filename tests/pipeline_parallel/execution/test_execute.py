"""Executing obeys the list: real stages on simulated ranks take exactly the times that are simulated on paper, and never hang."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import Costs, Schedule, add_communication, make, simulate
from partkit.pipeline_parallel.action import Action, Kind
from tests.pipeline_parallel.execution.models import TRAINING, pipe, rows, square

METHODS: dict[str, Kind] = {"forward": "F", "backward": "B", "backward_input": "I", "backward_weight": "W"}
COSTS = Costs(forward=1.1, backward_input=1.3, backward_weight=0.7, step=0.0, activation_bytes=8, gradient_bytes=8)


def taking(comm: Any, model: Any, seconds: Callable[[Action], float]) -> None:
    """Let each computation of the model's stages take so long, in virtual time."""

    def timed(stage: Any, method: Any, kind: Kind, i: int, *given: Any) -> Any:
        action = Action(stage.number, kind, i)
        comm.compute(str(action), seconds=seconds(action))
        return method(i, *given)

    for stage in model.stages.values():
        for name, kind in METHODS.items():
            setattr(stage, name, partial(timed, stage, getattr(stage, name), kind))


def step(comm: Any, schedule: Schedule, known: Any = None) -> Any:
    """A step with the durations of `COSTS`; what was announced in it, or ``known`` from before."""
    model = pk.PipelineParallel(list(pipe(schedule.num_stages)), comm, loss=square, schedule=schedule)
    if known is not None:
        model._announcements._known = known[comm.rank]
    taking(comm, model, lambda action: COSTS.seconds(action, schedule.num_stages))
    model.step(rows(schedule.num_microbatches))
    return model._announcements._known


def computations(trace: pk.Trace) -> list[tuple[int, str, float, float]]:
    return sorted((event.rank, event.tag, event.start, event.end) for event in trace.events if event.kind == "compute" and event.end > event.start)


@pytest.mark.parametrize("name", [name for name in TRAINING if name not in ("chimera", "dual_pipe")])  # these two begin with copying weights
def test_executed_is_planned(name: str) -> None:
    schedule, link = add_communication(make(name, 4, 8)), pk.Link(0.05, 100.0)
    with pk.SimulatedWorld(4, pk.Cluster(link=link)) as world:
        known = world.run(step, schedule)
        world.run(step, schedule, list(known))
        planned = simulate(schedule, COSTS, link)
        assert computations(world.trace) == computations(planned)
        assert world.trace.bytes_sent() == planned.bytes_sent() and world.trace.num_messages() == planned.num_messages()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("size", "m"), [(2, 4), (2, 3), (3, 4)])
def test_case_P09_interleaved_never_hangs(size: int, m: int, seed: int) -> None:
    def gradients(comm: Any) -> list[float]:
        model = pk.PipelineParallel(pipe(2 * size), comm, loss=square, schedule="interleaved", num_microbatches=m)
        chance = random.Random(100 * seed + comm.rank)
        taking(comm, model, lambda _: chance.uniform(0, 0.05))
        model.step(rows(m))
        return [float(parameter.grad) for parameter in model.parameters() if parameter.grad is not None]

    net = pipe(2 * size)
    square(net(rows(m)), None).backward()
    right = float(net.get_parameter("0.weight").grad)  # type: ignore[arg-type]
    with pk.SimulatedWorld(size, pk.Cluster(link=pk.Link(0.01, 1e3))) as world:
        found = world.run(gradients)
    assert [gradient for rank in found for gradient in rank] == pytest.approx([right] * 2 * size, rel=1e-12)
    if size == 2:
        assert right == pytest.approx({4: 1920.0, 3: 1194.0 + 2 / 3}[m])


def test_case_P10_a_weight_cut_in_two_over_stages() -> None:
    """The second stage's graph splits one weight; its two halves arrive where they belong, and the gradient of its input before them."""

    class Halved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

        def forward(self, x: Tensor) -> Tensor:
            a, b = torch.chunk(self.weight * 1, 2)
            return (x * a).sum() + 3 * (x * b).sum()

    class Start(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.ones(1, 2))

        def forward(self, rows: Tensor) -> Tensor:
            return self.x * rows

    def gradient(comm: Any) -> Any:
        model = pk.PipelineParallel([Start(), Halved()], comm, schedule="zb_h1", num_microbatches=1)
        model.step(torch.ones(1, 1))
        return next(model.parameters()).grad.tolist()  # type: ignore[union-attr]

    with pk.SimulatedWorld(2) as world:
        assert list(world.run(gradient)) == [[[10.0, 14.0]], [[1.0, 1.0], [3.0, 3.0]]]
