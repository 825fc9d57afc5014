"""Selective recomputation: the insides of chosen submodules are not kept, and nothing else changes."""

from __future__ import annotations

import re
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import Schedule
from partkit.pipeline_parallel.execution.cut import cut_module
from partkit.pipeline_parallel.execution.recompute import chosen, recomputing
from partkit.worlds.errors import RankError
from tests.pipeline_parallel.execution.models import same, square


class Wide(nn.Module):
    """Keeps a large tensor inside, and counts how many of these are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 50), nn.Linear(50, 3)
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(50)
        self.alive: list[weakref.ref[Any]] = []
        self.peak = self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        inside = self.norm(self.up(x)).exp()  # exp keeps its result
        if torch.is_grad_enabled():
            self.calls += 1
            self.alive.append(weakref.ref(inside.untyped_storage()))
            self.peak = max(self.peak, sum(reference() is not None for reference in self.alive))
        y: Tensor = self.down(self.drop(inside))
        return y


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), Wide(), nn.Tanh()) for _ in range(2)]).double()


def steps(comm: Any, schedule: Any, recompute: Any) -> Any:
    """Two steps; gradients, buffers, the most insides alive in the second, and how often that ran."""
    model = pk.PipelineParallel(net(), comm, loss=square, schedule=schedule, num_microbatches=4, recompute=recompute)
    (wide,) = (module for module in model.modules() if isinstance(module, Wide))
    torch.manual_seed(comm.rank)
    for _ in range(2):
        wide.alive, wide.peak, wide.calls = [], 0, 0
        model.step(torch.arange(24.0, dtype=torch.float64).reshape(8, 3))
    left = sum(reference() is not None for reference in wide.alive)
    return [p.grad for p in model.parameters()], list(model.buffers()), (wide.peak, wide.calls, left)


@pytest.mark.parametrize(
    ("schedule", "whole", "selective"),
    [("gpipe", [4, 4], [1, 1]), ("one_f_one_b", [2, 1], [1, 1]), ("zb_h1", [2, 2], [1, 2])],  # W keeps what I has made again
)
def test_only_what_backward_works_on_is_alive(schedule: str, whole: list[int], selective: list[int]) -> None:
    """The same gradients, random numbers and statistics with and without; each insides made twice, not more often."""
    with pk.SimulatedWorld(2) as world:
        plain = world.run(steps, schedule, "none")
        names = world.run(steps, schedule, ["0.1", "1.1"])
        function = world.run(steps, schedule, lambda name, module: isinstance(module, Wide))
        full = world.run(steps, schedule, "full")
    assert [counts for _, _, counts in plain] == [(peak, 4, 0) for peak in whole]
    for found in (names, function):
        assert [counts for _, _, counts in found] == [(peak, 8, 0) for peak in selective]
    assert [peak for _, _, (peak, _, _) in full] == selective
    for found in (names, function, full):
        torch.testing.assert_close([result[:2] for result in found], [result[:2] for result in plain], rtol=0, atol=0)


@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_v", "interleaved"])
def test_same_as_one_process(schedule: str) -> None:
    with pk.SimulatedWorld(2) as world:
        report = same(world, schedule=schedule, num_microbatches=4, recompute=lambda name, module: isinstance(module, nn.Tanh | nn.Linear))
        assert report, str(report)


def test_the_weights_of_the_forward_are_used_again() -> None:
    """Under PipeDream the module has newer weights by the time of the backward."""

    def weight(comm: Any, recompute: Any) -> Any:
        schedule = Schedule.parse("rank 0: 0F0 0F1 0B0 0STEP0 0B1 0STEP1")
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 3), nn.Tanh())).double()
        model = pk.PipelineParallel([layers], comm, loss=square, schedule=schedule, recompute=recompute)
        model.use_optimizer(lambda parameters: torch.optim.SGD(parameters, lr=0.5))
        model.step(torch.arange(6.0, dtype=torch.float64).reshape(2, 3))
        return [p.detach() for p in model.parameters()]

    with pk.SimulatedWorld(1) as world:
        torch.testing.assert_close(list(world.run(weight, ["0.1"])), list(world.run(weight, "none")), rtol=0, atol=0)


def test_a_forward_that_differs_the_second_time_is_refused() -> None:
    class Moody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x.exp() if self.calls == 1 else x.exp().exp()

    moody, x = Moody(), torch.ones(2, requires_grad=True)
    with recomputing([moody]):
        y = moody(x)
    with pytest.raises(RuntimeError, match="a Moody that runs again for its backward keeps 2 tensors, where its first run kept 1"):
        y.sum().backward()


def test_hooks_of_a_module_run_once() -> None:
    layer, x, calls = nn.Tanh(), torch.ones(2, requires_grad=True), []
    layer.register_forward_pre_hook(lambda module, args: calls.append(1))
    with recomputing([layer]):
        y = layer(x)
    y.sum().backward()
    assert calls == [1]


def test_of_nested_modules_the_outermost() -> None:
    first, second = chosen(cut_module(net(), 2), lambda name, module: name in ("0.1", "0.1.up", "1.1.down"))
    assert [type(module) for module in first] == [Wide] and [type(module) for module in second] == [nn.Linear]


@pytest.mark.parametrize(
    ("recompute", "words"),
    [
        ("some", "recompute is one of 'none', 'full', names of submodules, or a function that chooses"),
        (["0.7"], "there is no submodule '0.7'; there are 0, 0.0, 0.1, 0.1.up"),
    ],
)
def test_wrong_arguments(recompute: Any, words: str) -> None:
    def make(comm: Any) -> None:
        pk.PipelineParallel(net(), comm, loss=square, num_microbatches=1, recompute=recompute)

    with pk.SimulatedWorld(2) as world, pytest.raises(RankError, match=re.escape(words)):
        world.run(make)


def test_containers_are_never_called() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    with pytest.raises(ValueError, match="'layers' is never called by itself"):
        chosen(cut_module(Listed(), 2, ["layers.1"]), ["layers"])
