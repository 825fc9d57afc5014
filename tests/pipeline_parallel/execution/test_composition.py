"""Pipelines side by side: data parallelism over pipelines, with unequal numbers of tokens that count, is one process with all data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import make
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.execution import Loss
from partkit.pipeline_parallel.passes import add_reduce_grad

IGNORED = -100
X = torch.randn(12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
TARGET = torch.tensor([1, IGNORED, IGNORED, 0, 2, 2, 1, IGNORED, 0, 1, 2, 0])  # of the first six rows four count, of the last six five


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3), nn.Identity()).double()


def serial() -> tuple[list[float], dict[str, Tensor], dict[str, Tensor]]:
    """Losses of two steps, gradients of the second, weights after it."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), TARGET, ignore_index=IGNORED)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, dict(model.named_parameters())


def parallel(comm: Any, schedule: str, wrong: bool = False) -> Any:
    """The same, on this rank's place in the mesh: its share of the rows, its stages."""
    dp, pp = comm.group("dp"), comm.group("pp")
    rows = torch.arange(12).tensor_split(dp.size)[dp.rank]
    counts = (TARGET[rows] != IGNORED).sum()
    total = counts * dp.size if wrong else pk.all_reduce(counts, dp)  # wrong: as if every replica had as many tokens as this one
    loss = Loss(lambda output, target: F.cross_entropy(output, target, ignore_index=IGNORED, reduction="sum") / total, reduction="sum")
    model = pk.PipelineParallel(net(), pp, loss=loss, schedule=schedule, num_microbatches=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9) if list(model.parameters()) else None
    losses = []
    for _ in range(2):
        model.zero_grad()
        step = model.step(X[rows], target=TARGET[rows])
        for parameter in model.parameters():
            parameter.grad = pk.all_reduce(parameter.grad, dp)
        if step.loss is not None:
            losses.append(pk.all_reduce(step.loss, dp).item())
        if optimizer is not None:
            optimizer.step()
    return losses, {name: p.grad for name, p in model.module.named_parameters()}, {name: p.detach() for name, p in model.module.named_parameters()}


SIZES = [(dp, pp) for dp in (1, 2, 3, 4) for pp in (1, 2, 3, 4) if dp * pp <= 4]


@pytest.mark.parametrize("schedule", ["one_f_one_b", "gpipe", "zb_h1"])
@pytest.mark.parametrize(("dp", "pp"), SIZES)
def test_case_N24_replicas_of_pipelines_with_unequal_tokens(dp: int, pp: int, schedule: str) -> None:
    losses, gradients, weights = serial()
    with pk.SimulatedWorld(pk.Mesh(dp=dp, pp=pp)) as world:
        for found_losses, found_gradients, found_weights in world.run(parallel, schedule):
            assert found_losses in ([], pytest.approx(losses, abs=1e-12))
            for name in found_gradients:
                torch.testing.assert_close(found_gradients[name], gradients[name], rtol=0, atol=1e-12)
                torch.testing.assert_close(found_weights[name], weights[name].detach(), rtol=0, atol=1e-12)


def test_case_N24_live_ranks(live_world: Callable[[Any], Any]) -> None:
    losses, gradients, _ = serial()
    results = live_world(pk.Mesh(dp=2, pp=2)).run(parallel, "one_f_one_b")
    assert [found for found, _, _ in results] == [[], pytest.approx(losses, abs=1e-12)] * 2
    assert {name for _, found, _ in results for name in found} == gradients.keys()


def test_case_N24_a_mean_of_means_would_be_seen() -> None:
    """The usual mistake, averaging the replicas' means, moves the loss by far more than rounding does."""
    with pk.SimulatedWorld(pk.Mesh(dp=2, pp=2)) as world:
        (_, _, _), (found, _, _), *_ = world.run(parallel, "one_f_one_b", True)
    assert abs(found[0] - serial()[0][0]) > 1e-3


def test_gradients_are_reduced_over_replicas_where_the_schedule_says() -> None:
    """REDUCE_GRAD stands behind the last backward of a stage: stage 1 is reduced while stage 0 still works on its backwards."""

    def step(comm: Any) -> Any:
        dp, pp = comm.group("dp"), comm.group("pp")
        schedule = add_reduce_grad(make("gpipe", 2, 3))
        loss = Loss(lambda output, target: F.cross_entropy(output, target, reduction="sum"), reduction="sum")
        model, seen = pk.PipelineParallel(net(), pp, loss=loss, schedule=schedule), []

        def reduce(action: Action) -> None:
            seen.append(action)
            if action.kind == "REDUCE_GRAD":
                for parameter in model.stages[action.stage].piece.module.parameters():
                    parameter.grad = pk.all_reduce(parameter.grad, dp)

        model.before_each(reduce)
        rows = torch.arange(12).tensor_split(dp.size)[dp.rank]
        model.step(X[rows], target=TARGET[rows].clamp(min=0))
        model.before_each(None)
        model.step(X[rows], target=TARGET[rows].clamp(min=0))
        return seen == list(model.schedule.ranks[pp.rank]), {name: p.grad for name, p in model.module.named_parameters()}

    whole = net()
    F.cross_entropy(whole(X), TARGET.clamp(min=0), reduction="sum").backward()
    parts = [net() for _ in range(2)]
    for part, rows in zip(parts, torch.arange(12).tensor_split(2), strict=True):
        F.cross_entropy(part(X[rows]), TARGET[rows].clamp(min=0), reduction="sum").backward()
    with pk.SimulatedWorld(pk.Mesh(dp=2, pp=2)) as world:
        found = list(world.run(step))
    assert all(seen for seen, _ in found)
    for rank, (_, gradients) in enumerate(found):
        for name, gradient in gradients.items():  # reduced in the first step, not in the second
            own = parts[rank // 2].get_parameter(name).grad
            torch.testing.assert_close(gradient, whole.get_parameter(name).grad + own, rtol=0, atol=1e-12)  # type: ignore[operator]
