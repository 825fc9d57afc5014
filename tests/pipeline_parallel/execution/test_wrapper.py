"""Pipelines of real models: the same answer as one process, whatever the schedule, the batch and the world."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import Schedule, add_communication, interleaved, make, one_f_one_b, split_backward
from partkit.pipeline_parallel.execution import Loss, Step
from partkit.worlds.errors import RankError
from partkit.worlds.world import World
from tests.pipeline_parallel.execution.models import TRAINING, deep, pipe, rows, same, square

LiveWorld = Callable[[int], World]


def run(size: int, fn: Callable[[Any], Any]) -> list[Any]:
    """``fn`` on simulated ranks."""
    with pk.SimulatedWorld(size) as world:
        return list(world.run(fn))


def one_step(comm: Any, net: Any, *args: Any, target: Any = None, **settings: Any) -> tuple[list[float], Step]:
    """The gradients of this rank's weights of one number each, and what the step gave."""
    model = pk.PipelineParallel(net, comm, loss=settings.pop("loss", square), **settings)
    step = model.step(*args, target=target)
    return [float(parameter.grad) for parameter in model.parameters() if parameter.grad is not None], step


def losses(results: list[tuple[list[float], Step]]) -> list[float]:
    """Micro-batch losses of all ranks, in the order of ranks."""
    return [loss for _, step in results if step.losses is not None for loss in step.losses.tolist()]


# -- same answer as one process --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINING)
def test_same_as_one_process_on_simulated_ranks(name: str) -> None:
    with pk.SimulatedWorld(4) as world:
        report = same(world, schedule=name, num_microbatches=8)
        assert report, str(report)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b", "interleaved", "zb_h1"])
def test_same_as_one_process_on_live_ranks(live_world: LiveWorld, name: str, size: int) -> None:
    report = same(live_world(size), schedule=name, num_microbatches=4)
    assert report, str(report)


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("schedule", [split_backward(make("gpipe", 2, 3)), interleaved(2, 5, 3), add_communication(one_f_one_b(2, 1))], ids=repr)
def test_any_schedule_that_can_run_will_do(schedule: Schedule, recompute: str) -> None:
    with pk.SimulatedWorld(2) as world:
        report = same(world, schedule=schedule, recompute=recompute)
        assert report, str(report)


def test_one_rank_may_have_all_stages() -> None:
    schedule = Schedule.parse("rank 0: 0F0 1F0 0F1 1F1 1B0 0B0 1I1 0I1 0W1 1W1")
    with pk.SimulatedWorld(1) as world:
        report = same(world, schedule=schedule)
        assert report, str(report)


# -- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", [name for name in TRAINING if name not in ("dual_pipe", "chimera", "pipedream_2bw")])
def test_case_P01_fewer_microbatches_than_stages(name: str, size: int) -> None:
    """One micro-batch: right, or refused in words that name it."""
    layers = 2 * size
    serial = pipe(layers)
    square(serial(rows(4)), None).backward()
    try:
        found = run(size, lambda comm: one_step(comm, pipe(layers), rows(4), schedule=name, num_microbatches=1))
    except RankError as error:
        assert name in str(error) and "1" in str(error)
    else:
        assert {gradient for gradients, _ in found for gradient in gradients} == {float(serial[0].weight.grad)}  # type: ignore[arg-type, union-attr]


def test_case_P02_batch_not_divisible() -> None:
    found = run(3, lambda comm: one_step(comm, pipe(3), rows(8), num_microbatches=3))
    assert [gradients for gradients, _ in found] == [[1632.0]] * 3
    assert found[2][1].loss == 1632.0 and found[0][1] == (None, None)


def test_case_P03_more_microbatches_than_rows() -> None:
    with pytest.raises(RankError, match=re.escape("input has 4 rows, fewer than the 6 micro-batches of the schedule")):
        run(2, lambda comm: one_step(comm, pipe(2), rows(4), num_microbatches=6))


def test_case_P04_shapes_change_from_step_to_step(live_world: LiveWorld) -> None:
    def steps(comm: Any) -> list[float]:
        model, found = pk.PipelineParallel(pipe(2), comm, loss=square, num_microbatches=2), []
        for n in (4, 2, 4):
            step = model.step(rows(n))
            found.append(-1.0 if step.loss is None else float(step.loss))
        return found

    assert live_world(2).run(steps) == [[-1.0] * 3, [120.0, 40.0, 120.0]]


@pytest.mark.parametrize("name", TRAINING)
def test_case_P05_outputs_meet_their_own_targets(name: str) -> None:
    """In sample order, whatever the order in which micro-batches are done; of two replicas, the first has the first half."""
    net = [nn.Identity() for _ in range(6)]
    last = pipe(2)

    def step(comm: Any) -> tuple[list[float], Step]:
        schedule = make(name, 2, 4)
        stages = schedule.num_stages
        modules = [*net[: stages - 2], *last] if stages > 2 else list(last)
        return one_step(comm, modules, rows(4), target=rows(4), schedule=schedule)

    found = sorted(run(2, step), key=lambda result: 0.0 if result[1].losses is None else float(result[1].losses[0]))
    assert losses(found) == [9.0, 36.0, 81.0, 144.0]
    assert sum(float(result[1].loss) for result in found if result[1].loss is not None) == 67.5


class Masked(nn.Module):
    """A stage that looks at a keyword argument of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pipe(1)[0]

    def forward(self, x: Tensor, mask: Tensor | None = None, *, table: Tensor | None = None) -> Tensor:
        y: Tensor = self.layer(x)
        assert table is None or table.shape == (2,)
        return y if mask is None else y * mask


def test_case_P06_keyword_arguments_are_split_with_the_batch() -> None:
    mask = torch.tensor([[1.0], [0.0], [1.0], [0.0]], dtype=torch.float64)

    def step(comm: Any) -> tuple[list[float], Step]:
        model = pk.PipelineParallel([Masked(), pipe(1)], comm, loss=square, num_microbatches=2, split={"table": None})
        return [], model.step(rows(4), mask=mask, table=torch.ones(2))

    assert losses(run(2, step)) == [8.0, 72.0]


def test_keyword_arguments_that_do_not_fit() -> None:
    def step(comm: Any, **given: Any) -> Any:
        model = pk.PipelineParallel([Masked(), pipe(1)], comm, loss=square, num_microbatches=2, split=given.pop("split", None))
        return model.step(rows(4), **given)

    with pytest.raises(RankError, match=re.escape("no stage takes the keyword argument 'mosk'")):
        run(2, lambda comm: step(comm, mosk=None))
    with pytest.raises(
        RankError, match=re.escape("table of shape [2] has 2 rows in dim 0, but x has 4; if it does not belong to rows, say split={'table': None}")
    ):
        run(2, lambda comm: step(comm, table=torch.ones(2)))
    with pytest.raises(RankError, match=re.escape("there is no argument 'tuble'; there are x, table, target")):
        run(2, lambda comm: step(comm, table=torch.ones(4), split={"tuble": None}))


class Several(nn.Module):
    """Gives what the next stage uses, something of bools, or something with a gradient that nobody asks for, and values."""

    def __init__(self, second: str) -> None:
        super().__init__()
        self.layer = pipe(1)[0]
        self.second = second

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Any]]:
        y = self.layer(x)
        return y, {"second": x > 2 if self.second == "bool" else 3 * y, "scale": 2.0, "note": None}


class First(nn.Module):
    """Uses the first of what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pipe(1)[0]

    def forward(self, x: Tensor, rest: dict[str, Any]) -> Tensor:
        assert rest["scale"] == 2.0 and rest["note"] is None and len(rest["second"]) == len(x)
        y: Tensor = self.layer(x)
        return y


@pytest.mark.parametrize("second", ["bool", "float"])
@pytest.mark.parametrize("name", ["one_f_one_b", "zb_h1"])
def test_case_P07_several_outputs_some_without_gradient(live_world: LiveWorld, name: str, second: str) -> None:
    found = live_world(2).run(lambda comm: one_step(comm, [Several(second), First()], rows(4), schedule=name, num_microbatches=2))
    assert losses(list(found)) == [40.0, 200.0] and [gradients for gradients, _ in found] == [[120.0], [120.0]]


def test_case_P11_gradients_add_up_over_steps() -> None:
    def steps(comm: Any, loss: Loss) -> float:
        model = pk.PipelineParallel(pipe(2), comm, loss=loss, num_microbatches=2)
        for _ in range(3):
            model.step(rows(4))
        return float(next(model.parameters()).grad)  # type: ignore[arg-type]

    assert run(2, lambda comm: steps(comm, Loss(square))) == [360.0] * 2
    assert run(2, lambda comm: steps(comm, Loss(lambda output, _: output.square().sum(), reduction="sum"))) == [1440.0] * 2


def test_case_N02_the_loss_is_a_mean_over_tokens_that_count() -> None:
    """Micro-batches with 1, 0 and 2 tokens; the one without is no nan."""
    torch.manual_seed(0)
    x, target = torch.randn(6, 3).double(), torch.tensor([2, -100, -100, -100, 0, 1])

    def step(comm: Any) -> tuple[dict[str, Tensor], Step]:
        loss = Loss(F.cross_entropy, count=lambda target: int((target != -100).sum()))
        model = pk.PipelineParallel(deep(4), comm, loss=loss, num_microbatches=3)
        found = model.step(x, target=target)
        return {name: p.grad for name, p in model.module.named_parameters() if p.grad is not None}, found

    net = deep(4)
    right = F.cross_entropy(net(x), target)
    right.backward()
    results = run(2, step)
    torch.testing.assert_close(results[1][1].loss, right.detach(), rtol=1e-12, atol=0)
    gradients = {name: gradient for found, _ in results for name, gradient in found.items()}
    assert gradients.keys() == {name for name, p in net.named_parameters() if p.grad is not None}
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, net.get_parameter(name).grad, rtol=1e-9, atol=1e-15)


# -- evaluation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one_f_one_b", "zb_v", "chimera"])
def test_forward_gives_the_outputs_in_order(name: str) -> None:
    def outputs(comm: Any) -> Tensor | None:
        model = pk.PipelineParallel(deep(), comm, schedule=name, num_microbatches=4)
        found: Tensor | None = model.eval()(torch.arange(21.0, dtype=torch.float64).reshape(7, 3))
        return found

    found = [part for part in reversed(run(2, outputs)) if part is not None]
    torch.testing.assert_close(torch.cat(found), deep()(torch.arange(21.0, dtype=torch.float64).reshape(7, 3)), rtol=1e-12, atol=0)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"schedule": one_f_one_b(3, 4)}, "is for 3 ranks, but there are 2"),
        ({"schedule": one_f_one_b(2, 4), "num_microbatches": 5}, "num_microbatches=5, but"),
        ({"schedule": "1f1b", "num_microbatches": 4}, "there is no schedule '1f1b'"),
        ({}, "say in how many micro-batches a batch is split"),
        ({"schedule": Schedule.parse("rank 0: 0F0\nrank 1: 1F0 1B0")}, "0B0 is missing"),
        ({"num_microbatches": 2, "recompute": "some"}, "recompute is one of 'none', 'full', names of submodules"),
        ({"num_microbatches": 2, "cut": [1, 2]}, "makes 3 stages, but the schedule has 2"),
        ({"num_microbatches": 2, "cut": ["9"]}, "there is no layer '9'; there are 0, 1, 2"),
        ({"num_microbatches": 2, "cut": "2"}, "cut='2': give a list of the places at which stages begin: cut=['2']"),
        ({"num_microbatches": 2, "recompute": True}, "recompute=True): recompute is one of 'none', 'full'"),
        ({"num_microbatches": 2.0}, "one_f_one_b(2, 2.0): 2.0 is no whole number"),
        ({"num_microbatches": "4"}, "one_f_one_b(2, '4'): '4' is no whole number"),
        ({"num_microbatches": 2, "schedule": None}, "schedule=None: give a Schedule, the name of one, or a function"),
        ({"num_microbatches": 2, "schedule": "forward_only"}, "step(): forward only has no backward, so it makes no gradients; for outputs call model(x)"),
        ({"num_microbatches": 2, "loss": "mse"}, "loss='mse': the loss is a function of output and target"),
    ],
)
def test_wrong_arguments(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RankError, match=re.escape(words)):
        run(2, lambda comm: one_step(comm, pipe(3), rows(4), **settings))


def test_losses_that_are_not_one_number() -> None:
    for loss, words in ((None, "give PipelineParallel(..., loss=function)"), (lambda output, _: output, "let the function reduce it")):
        with pytest.raises(RankError, match=re.escape(words)):
            run(1, lambda comm, loss=loss: one_step(comm, pipe(1), rows(4), num_microbatches=2, loss=loss))


def test_a_value_that_depends_on_the_numbers_is_refused() -> None:
    class Sizes(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, float]:
            return x, float(x.sum())

    with pytest.raises(RankError, match=re.escape("stage 0 hands over 7.0, where it announced 3.0 for batches that look like this one")):
        run(2, lambda comm: one_step(comm, [Sizes(), First()], rows(4), num_microbatches=2))
