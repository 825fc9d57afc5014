"""Optimizer steps inside a schedule: forward and backward of a micro-batch use the same weights, which are held as long as need be."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import Schedule, make, pipedream_2bw
from partkit.worlds.errors import RankError
from partkit.worlds.world import World
from tests.pipeline_parallel.execution.models import deep, pipe, rows, square

TWO_IN_FLIGHT = Schedule.parse("rank 0: 0F0 0F1 0B0 0STEP0 0B1 0STEP1")


class Noting(torch.optim.SGD):
    """Keeps the gradients with which it has stepped."""

    def __init__(self, parameters: Any, **settings: Any) -> None:
        super().__init__(parameters, **settings)
        self.seen: list[float] = []

    def step(self, closure: Any = None) -> Any:
        self.seen += [float(parameter.grad) for group in self.param_groups for parameter in group["params"]]
        return super().step(closure)


def half_square(output: Tensor, target: Any) -> Tensor:
    return 0.5 * output.square().mean()


def one() -> nn.Module:
    layer = pipe(1)[0]
    nn.init.ones_(layer.weight)  # type: ignore[arg-type]
    return layer


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_case_P13_two_in_flight_use_the_weights_they_began_with(recompute: Any) -> None:
    """Without stashing the second gradient would be 0.9, made of the weight that the first has changed."""

    def steps(comm: Any) -> Any:
        model = pk.PipelineParallel([one()], comm, loss=half_square, schedule=TWO_IN_FLIGHT, recompute=recompute)
        optimizers: Any = model.use_optimizer(lambda parameters: Noting(parameters, lr=0.1))
        model.step(torch.ones(2, 1, dtype=torch.float64))
        versions = {str(forward): version for forward, version in model.versions.items()}
        return optimizers[0].seen, next(model.parameters()).item(), versions, model.stages[0].versions.most  # type: ignore[union-attr]

    with pk.SimulatedWorld(1) as world:
        ((gradients, weight, versions, most),) = world.run(steps)
    assert gradients == [1.0, 1.0] and weight == pytest.approx(0.8, abs=1e-15)
    assert versions == {"0F0": 0, "0F1": 0} and most == 2


def test_case_P13_a_flush_makes_one_update() -> None:
    def steps(comm: Any) -> tuple[float, float]:
        model = pk.PipelineParallel([one()], comm, loss=half_square, schedule="gpipe", num_microbatches=2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.step(torch.ones(2, 1, dtype=torch.float64))
        optimizer.step()
        (weight,) = model.parameters()
        return float(weight.grad), weight.item()  # type: ignore[arg-type]

    with pk.SimulatedWorld(1) as world:
        assert list(world.run(steps)) == [(1.0, 0.9)]


# -- the same answer as the algorithm in one process ---------------------------------------------------------------------

X = torch.randn(16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
Y = torch.randn(16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
STAGES, M, CUT = 3, 12, [3, 5]
SETTINGS = {"lr": 0.2, "momentum": 0.9, "weight_decay": 0.01}


def stale(version: Callable[[int, int], int], batch: int) -> tuple[dict[str, Tensor], list[float]]:
    """The algorithm, said plainly: stage s uses for micro-batch i the weights after ``version(s, i)`` steps. Weights and losses at the end."""
    net = deep()
    optimizer = torch.optim.SGD(net.parameters(), **SETTINGS)
    history = [{name: p.detach().clone() for name, p in net.named_parameters()}]
    losses = []
    for begin in range(0, M, batch):
        together = range(begin, begin + batch)
        optimizer.zero_grad()
        for i in together:
            weights = {
                name: history[version(sum(int(name[0]) >= start for start in CUT), i)][name].clone().requires_grad_(p.requires_grad)
                for name, p in net.named_parameters()
            }
            share = torch.arange(16).tensor_split([2, 4, 6, 8, *range(9, 16)])[i]  # rows of each of 12 micro-batches: 2, 2, 2, 2, 1, ...
            every = sum(2 if j < 4 else 1 for j in together)
            loss = F.mse_loss(torch.func.functional_call(net, weights, (X[share],)), Y[share])
            (loss * len(share) / every).backward()
            losses.append(loss.item())
            for name, p in net.named_parameters():
                if (gradient := weights[name].grad) is not None:
                    p.grad = gradient if p.grad is None else p.grad + gradient
        optimizer.step()
        history.append({name: p.detach().clone() for name, p in net.named_parameters()})
    return dict(net.named_parameters()), losses


def streamed(comm: Any, schedule: Schedule, **settings: Any) -> Any:
    model = pk.PipelineParallel(deep(), comm, loss=F.mse_loss, schedule=schedule, cut=CUT, **settings)
    model.use_optimizer(lambda parameters: torch.optim.SGD(parameters, **SETTINGS))
    step = model.step(X, target=Y)
    most = [stage.versions.most for stage in model.stages.values() if stage.versions is not None]
    return {name: p.detach() for name, p in model.module.named_parameters()}, step.losses, most


def compare(found: Any, right: tuple[dict[str, Tensor], list[float]]) -> list[int]:
    """Weights and losses are those of the algorithm; how many versions each stage has held."""
    weights, losses = right
    together = {name: p for parameters, _, _ in found for name, p in parameters.items()}
    torch.testing.assert_close(together, {name: p.detach() for name, p in weights.items()}, rtol=1e-11, atol=1e-13)
    assert found[-1][1].tolist() == pytest.approx(losses, rel=1e-11)
    return [most for _, _, all_most in found for most in all_most]


def pipedreams_version(stage: int, i: int) -> int:
    return max(0, i - (STAGES - stage) + 1)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_pipedream_is_its_algorithm(recompute: Any) -> None:
    with pk.SimulatedWorld(STAGES) as world:
        found = world.run(streamed, make("pipedream", STAGES, M), recompute=recompute)
    assert compare(found, stale(pipedreams_version, 1)) == [3, 2, 1]


@pytest.mark.parametrize("batch", [3, 4, 6])
def test_pipedream_2bw_is_its_algorithm(batch: int) -> None:
    with pk.SimulatedWorld(STAGES) as world:
        found = world.run(streamed, pipedream_2bw(STAGES, M, batch))
    assert compare(found, stale(lambda stage, i: max(0, i // batch - 1), batch)) == [2, 2, 2]


def test_live_ranks_do_the_same(live_world: Callable[[int], World]) -> None:
    found = live_world(STAGES).run(streamed, make("pipedream", STAGES, M))
    compare(found, stale(pipedreams_version, 1))


def test_split_backwards_step_too() -> None:
    """W of a micro-batch comes after the step that follows another's."""
    schedule = Schedule.parse("rank 0: 0F0 0F1 0I0 0W0 0STEP0 0I1 0F2 0W1 0STEP1 0I2 0W2 0STEP2")
    whole = Schedule.parse("rank 0: 0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0B2 0STEP2")

    def weight(comm: Any, schedule: Schedule) -> float:
        model = pk.PipelineParallel([one()], comm, loss=half_square, schedule=schedule)
        model.use_optimizer(lambda parameters: torch.optim.SGD(parameters, lr=0.1))
        model.step(rows(3))
        return next(model.parameters()).item()

    with pk.SimulatedWorld(1) as world:
        assert list(world.run(weight, schedule)) == list(world.run(weight, whole))


def test_streams_follow_each_other_and_can_be_evaluated() -> None:
    """Two streams of two are two times the algorithm for two; an evaluation between them changes nothing and uses the newest weights."""

    def weight(comm: Any) -> tuple[float, float]:
        model = pk.PipelineParallel([one()], comm, loss=half_square, schedule=TWO_IN_FLIGHT)
        model.use_optimizer(lambda parameters: torch.optim.SGD(parameters, lr=0.1))
        x = torch.ones(2, 1, dtype=torch.float64)
        model.step(x)
        seen = float(model(x)[0])
        model.step(x)
        return seen, next(model.parameters()).item()

    with pk.SimulatedWorld(1) as world:
        ((seen, weight_after),) = world.run(weight)
    assert seen == pytest.approx(0.8, abs=1e-15) and weight_after == pytest.approx(0.64, abs=1e-15)


def test_a_stage_with_nothing_to_train_has_no_optimizer() -> None:
    def use(comm: Any) -> list[int]:
        model = pk.PipelineParallel([one(), nn.Tanh()], comm, loss=half_square, schedule="pipedream", num_microbatches=2)
        found = list(model.use_optimizer(lambda parameters: torch.optim.SGD(parameters, lr=0.1)))
        model.step(rows(2))
        return found

    with pk.SimulatedWorld(2) as world:
        assert list(world.run(use)) == [[0], []]


# -- refusals ------------------------------------------------------------------------------------------------------------


def tied() -> list[nn.Module]:
    first, last = pipe(2)
    last.weight = first.weight
    return [first, last]


@pytest.mark.parametrize(
    ("modules", "schedule", "words"),
    [
        (pipe(2), make("gpipe", 2, 2), "has no STEP, so nothing steps inside of it"),
        (tied(), make("pipedream", 2, 2), "weight of stage 0 lies on another stage too"),
        (pipe(2), Schedule.parse("rank 0: 0F0 0F1 0B0 0STEP0 0B1 0STEP1\nrank 1: 1F0 1B0 1F1 1B1 1STEP1"), "gather micro-batches [(0, 1)], those of stage 0"),
        (pipe(2), Schedule.parse("rank 0: 0F0 0F1 0B0 0STEP0 0B1\nrank 1: 1F0 1B0 1STEP0 1F1 1B1"), "gradients of micro-batches [1] are left over"),
    ],
)
def test_what_can_not_step_inside(modules: Any, schedule: Schedule, words: str) -> None:
    def use(comm: Any) -> None:
        pk.PipelineParallel(list(modules), comm, loss=square, schedule=schedule).use_optimizer(lambda parameters: torch.optim.SGD(parameters, lr=0.1))

    with pk.SimulatedWorld(2) as world, pytest.raises(RankError, match=re.escape(words)):
        world.run(use)
