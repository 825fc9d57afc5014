"""Models and loops as people write them: operations in place, hooks, autocast, inference mode, batches along another dim, errors of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel.execution.recompute import recomputing
from partkit.worlds.errors import RankError
from tests.pipeline_parallel.execution.models import X, Y, deep


def gradients(make: Callable[[], nn.Module], size: int, around: Any = nullcontext, **settings: Any) -> dict[str, Tensor]:
    """Those of two steps, of all ranks."""

    def steps(comm: Any) -> dict[str, Tensor | None]:
        model = pk.PipelineParallel(make(), comm, loss=F.mse_loss, num_microbatches=4, **settings)
        for _ in range(2):
            with around():
                model.step(X, target=Y)
        return {name: p.grad for name, p in model.module.named_parameters()}

    with pk.SimulatedWorld(size) as world:
        return {name: grad for found in world.run(steps) for name, grad in found.items() if grad is not None}


def serial(make: Callable[[], nn.Module]) -> dict[str, Tensor]:
    net = make()
    for _ in range(2):
        F.mse_loss(net(X), Y).backward()
    return {name: p.grad for name, p in net.named_parameters() if p.grad is not None}


def same(found: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-14)


class Twofold(nn.Module):
    """Changes what it is given, and not in a way that is the same if done twice."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)


def in_place() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), Twofold(), nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3)).double()


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_h1"])
@pytest.mark.parametrize("cut", [[1, 3], [2, 3], [1, 2]])
def test_a_stage_may_begin_in_place(cut: list[int], schedule: str, recompute: str) -> None:
    same(gradients(in_place, 3, schedule=schedule, cut=cut, recompute=recompute), serial(in_place))


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_batch_is_changed_by_nobody(recompute: str) -> None:
    """Not by looking what a stage hands over, nor by running it again."""

    def step(comm: Any) -> tuple[Tensor, Tensor | None]:
        x = X.clone()
        stages = [Twofold(), nn.Linear(3, 3).double()]
        nn.init.ones_(stages[1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(stages[1].bias)  # type: ignore[arg-type]
        return x, pk.PipelineParallel(stages, comm, loss=lambda y, _: y.sum() / 1, num_microbatches=1, recompute=recompute).step(x).loss

    with pk.SimulatedWorld(2) as world:
        (first, _), (second, loss) = world.run(step)
    assert torch.equal(first, X) and torch.equal(second, X)
    torch.testing.assert_close(loss, 3 * 2 * X.sum())


def test_what_was_changed_in_place_is_not_run_again() -> None:
    x, twofold = torch.ones(2, requires_grad=True), nn.Sequential(Twofold(), nn.Sigmoid())
    with recomputing([twofold]):
        y = twofold(x * 1)
    with pytest.raises(RuntimeError, match="what a Sequential was called with has been changed in place since, by itself or by somebody else"):
        y.sum().backward()


def hooked() -> nn.Module:
    """Gradients are changed on their way: of activations and of weights."""
    net = deep(4)

    def threefold(module: nn.Module, args: Any, y: Tensor) -> None:
        if y.requires_grad:
            y.register_hook(lambda g: 3 * g)

    for layer in net:
        layer.register_forward_hook(threefold)
    for weight in net.parameters():
        if weight.requires_grad:
            weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    return net


@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_h1"])
def test_hooks_that_change_gradients(schedule: str) -> None:
    """One micro-batch, as a clamp of the sum is not the sum of clamps."""

    def step(comm: Any) -> dict[str, Tensor | None]:
        model = pk.PipelineParallel(hooked(), comm, loss=F.mse_loss, num_microbatches=1, schedule=schedule)
        model.step(X, target=Y)
        return {name: p.grad for name, p in model.module.named_parameters()}

    net = hooked()
    F.mse_loss(net(X), Y).backward()
    with pk.SimulatedWorld(2) as world:
        found = {name: grad for of_rank in world.run(step) for name, grad in of_rank.items() if grad is not None}
    same(found, {name: p.grad for name, p in net.named_parameters() if p.grad is not None})


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_a_step_trains_wherever_it_is_called(around: Any) -> None:
    same(gradients(deep, 2, around), serial(deep))


@pytest.mark.parametrize("recompute", ["none", "full", ["0.0"]])
@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_h1"])
def test_autocast_of_a_step_holds_in_its_stages(schedule: str, recompute: Any) -> None:
    def make() -> nn.Module:
        return deep(4).float()

    def step(comm: Any) -> dict[str, Tensor | None]:
        model = pk.PipelineParallel(make(), comm, loss=F.mse_loss, num_microbatches=1, schedule=schedule, recompute=recompute)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model.step(X.float(), target=Y.float())
        return {name: p.grad for name, p in model.module.named_parameters()}

    net = make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.mse_loss(net(X.float()), Y.float())
    loss.backward()
    exact = make()
    F.mse_loss(exact(X.float()), Y.float()).backward()
    with pk.SimulatedWorld(2) as world:
        found = {name: grad for of_rank in world.run(step) for name, grad in of_rank.items() if grad is not None}
    for name, gradient in found.items():
        assert torch.equal(gradient, net.get_parameter(name).grad)  # type: ignore[arg-type]
    assert any(not torch.equal(gradient, exact.get_parameter(name).grad) for name, gradient in found.items())  # type: ignore[arg-type]


# -- outputs ---------------------------------------------------------------------------------------------------------


def outputs(comm: Any, module: Any, x: Tensor, split: dict[str, int | None]) -> Any:
    return pk.PipelineParallel([nn.Identity(), module], comm, num_microbatches=2, split=split)(x)


class WithMean(nn.Module):
    """A number beside the output, as auxiliary losses are."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        return x, x.mean(), 3


def test_a_number_of_each_microbatch_is_lost_by_none() -> None:
    with pk.SimulatedWorld(2) as world:
        _, (same_x, means, three) = world.run(outputs, WithMean(), X[:4], {})
    assert torch.equal(same_x, X[:4]) and three == 3
    torch.testing.assert_close(means, torch.stack([X[:2].mean(), X[2:4].mean()]))


def test_rows_along_another_dim() -> None:
    x = X[:8].reshape(2, 4, 3)
    with pk.SimulatedWorld(2) as world:
        assert torch.equal(world.run(outputs, nn.Identity(), x, {"input": 1, "output": 1})[1], x)
        assert [y.shape for y in world.run(outputs, nn.Identity(), x, {"input": 1, "output": None})[1]] == [(2, 2, 3)] * 2
        with pytest.raises(RankError, match=re.escape("input is split along dim 1; along which dim are outputs to be joined? Say split={..., 'output': 1}")):
            world.run(outputs, nn.Identity(), x, {"input": 1})


# -- errors ----------------------------------------------------------------------------------------------------------


class Failing(nn.Module):
    """In the forward or in the backward of the micro-batch that begins with 5."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def forward(self, x: Tensor) -> Tensor:
        if x[0, 0] == 5 and self.where == "forward":
            raise KeyError("of my own")
        if x[0, 0] == 5 and self.where == "backward":
            x.register_hook(self.fail)
        if self.where == "look" and not x.any():
            raise KeyError("of my own")
        return x * 1

    def fail(self, _: Tensor) -> None:
        raise KeyError("of my own")


@pytest.mark.parametrize(
    ("where", "schedule", "words"),
    [
        ("forward", "one_f_one_b", "in 1F2, the forward of stage 1 on micro-batch 2"),
        ("backward", "one_f_one_b", "in 1B2, the backward of stage 1 on micro-batch 2"),
        ("backward", "zb_h1", "in 1I2, the gradient of the input of stage 1 on micro-batch 2"),
        ("look", "one_f_one_b", "while stage 1 ran on zeros to see what it hands over, before the first step"),
    ],
)
def test_an_error_of_the_model_says_where_the_schedule_was(where: str, schedule: str, words: str) -> None:
    class Start(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            return self.one * x

    def step(comm: Any) -> None:
        stages = [Start(), Failing(where), nn.Identity()]
        pk.PipelineParallel(stages, comm, loss=lambda y, _: y.sum(), num_microbatches=4, schedule=schedule).step(torch.tensor([[1.0], [3.0], [5.0], [7.0]]))

    with pk.SimulatedWorld(3) as world, pytest.raises(RankError, match=rf"(?s)rank 1: KeyError: 'of my own'.*{re.escape(words)}"):
        world.run(step)
