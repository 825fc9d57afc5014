"""Tied weights and replicas: gradients of all copies are summed, once each; copies stay equal to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import Schedule
from partkit.worlds.world import World
from tests.pipeline_parallel.execution.models import square


def tied(num_between: int = 0) -> nn.Sequential:
    """Embedding [[1], [2]], and a head that is its transpose."""
    embedding, head = nn.Embedding(2, 1), nn.Linear(1, 2, bias=False)
    embedding.weight = nn.Parameter(torch.tensor([[1.0], [2.0]]))
    head.weight = embedding.weight
    return nn.Sequential(embedding, *[nn.Identity() for _ in range(num_between)], head)


TOKEN, TARGET = torch.tensor([0]), torch.tensor([1])


def train(comm: Any, schedule: Schedule | str, steps: int = 3) -> tuple[float | None, list[float], list[float]]:
    """Loss and gradient of the first step, weights after the last."""
    model = pk.PipelineParallel(tied(), comm, loss=F.cross_entropy, schedule=schedule, num_microbatches=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first: Any = None
    for _ in range(steps):
        optimizer.zero_grad()
        step = model.step(TOKEN, target=TARGET)
        weight = next(model.parameters())
        first = first or (None if step.loss is None else round(float(step.loss), 6), weight.grad.flatten().tolist())
        optimizer.step()
    return (*first, weight.flatten().tolist())


def serial(steps: int = 3) -> list[float]:
    net = tied()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(TOKEN), TARGET).backward()
        optimizer.step()
    return next(net.parameters()).flatten().tolist()


def test_case_N10_tied_embedding_on_first_and_last_stage(live_world: Callable[[int], World]) -> None:
    (_, gradient, first), (loss, other, last) = live_world(2).run(train, "one_f_one_b")
    assert loss == 0.313262
    assert gradient == other == pytest.approx([0.0, -0.268941], abs=1e-6)
    assert first == last, "to the last bit"
    assert first == pytest.approx(serial(), abs=1e-6)


def test_case_N10_both_ends_on_one_rank_count_once() -> None:
    with pk.SimulatedWorld(1) as world:
        ((loss, gradient, weights),) = world.run(train, Schedule.parse("rank 0: 0F0 1F0 1B0 0B0"))
    assert (loss, gradient) == (0.313262, pytest.approx([0.0, -0.268941], abs=1e-6)) and weights == pytest.approx(serial(), abs=1e-6)


def test_copies_begin_equal_and_gradients_add_up_over_steps() -> None:
    def steps(comm: Any) -> tuple[float, float]:
        shared = nn.Linear(1, 1, bias=False)
        nn.init.constant_(shared.weight, 2.0 + comm.rank)
        model = pk.PipelineParallel([shared, shared], comm, loss=square, num_microbatches=1)
        weight = next(model.parameters())
        start = float(weight.detach())
        for _ in range(2):
            model.step(torch.tensor([[1.0]]))
        return start, float(weight.grad)  # type: ignore[arg-type]

    with pk.SimulatedWorld(2) as world:
        assert list(world.run(steps)) == [(2.0, 64.0)] * 2  # loss w^4: 4 w^3 = 32 a step


def test_a_shared_parameter_that_nobody_uses_keeps_no_gradient() -> None:
    class Idle(nn.Module):
        def __init__(self, layer: nn.Module, idle: nn.Parameter) -> None:
            super().__init__()
            self.layer, self.idle = layer, idle

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(x)
            return y

    def step(comm: Any) -> bool:
        idle = nn.Parameter(torch.ones(3))
        model = pk.PipelineParallel([Idle(nn.Linear(1, 1), idle), Idle(nn.Linear(1, 1), idle)], comm, loss=square, num_microbatches=1)
        model.step(torch.tensor([[1.0]]))
        return model.module.get_parameter(f"{comm.rank}.idle").grad is None

    with pk.SimulatedWorld(2) as world:
        assert list(world.run(step)) == [True, True]
