"""What stages keep: as many micro-batches as the schedule promises, and nothing when the step is over."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import make, peak_microbatches
from partkit.worlds.world import World
from tests.pipeline_parallel.execution.models import TRAINING, pipe, rows, square


class Watched(nn.Module):
    """A layer that knows how many of its activations are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = pipe(1)[0]
        self.alive: list[weakref.ref[Tensor]] = []
        self.peak = 0

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.layer(x).exp()  # exp keeps its result
        if torch.is_grad_enabled() and len(x) == 1:
            self.alive.append(weakref.ref(hidden.untyped_storage()))  # type: ignore[arg-type]
            self.peak = max(self.peak, self.count())
        return hidden * 1e-3

    def count(self) -> int:
        return sum(reference() is not None for reference in self.alive)


def peaks(comm: Any, name: str, m: int) -> dict[int, tuple[int, int]]:
    """By stage: the most activations alive at a time in the second step, and how many are left after it."""
    schedule = make(name, comm.size, m)
    modules = [Watched() for _ in range(schedule.num_stages)]
    model = pk.PipelineParallel(modules, comm, loss=square, schedule=schedule)
    model.step(rows(m))
    for module in modules:
        module.peak, module.alive = 0, []
    model.step(rows(m))
    return {stage: (modules[stage % schedule.num_stages].peak, modules[stage % schedule.num_stages].count()) for stage in model.stages}


@pytest.mark.parametrize("name", [name for name in TRAINING if name not in ("chimera", "dual_pipe")])
def test_live_activations_are_those_that_the_schedule_promises(name: str) -> None:
    with pk.SimulatedWorld(4) as world:
        found = world.run(peaks, name, 8)
    counted = {stage: peak for rank in found for stage, peak in rank.items()}
    assert counted == {stage: (peak, 0) for stage, peak in enumerate(peak_microbatches(make(name, 4, 8)))}


@pytest.mark.parametrize("name", ["chimera", "dual_pipe"])
def test_replicas_keep_what_is_promised_too(name: str) -> None:
    """A stage of either replica on its own rank, so each rank counts two stages apart."""
    with pk.SimulatedWorld(4) as world:
        found = world.run(peaks, name, 8)
    promised = peak_microbatches(make(name, 4, 8))
    assert all(peak == (promised[stage], 0) for rank in found for stage, peak in rank.items())


@pytest.mark.parametrize("m", [4, 16])
def test_case_P12_1F1B_does_not_grow_with_microbatches(live_world: Callable[[int], World], m: int) -> None:
    found = live_world(3).run(peaks, "one_f_one_b", m)
    assert [peak for rank in found for peak in rank.values()] == [(3, 0), (2, 0), (1, 0)]


@pytest.mark.parametrize(("name", "m", "promised"), [("one_f_one_b", 8, [4, 3, 2, 1]), ("gpipe", 8, [8] * 4), ("one_f_one_b", 2, [2, 2, 2, 1])])
def test_case_M04_microbatches_alive(name: str, m: int, promised: list[int]) -> None:
    with pk.SimulatedWorld(4) as world:
        assert [peak for rank in world.run(peaks, name, m) for peak, _ in rank.values()] == promised


def test_recomputing_keeps_one_at_a_time() -> None:
    def counted(comm: Any) -> tuple[int, Any]:
        module = Watched()
        model = pk.PipelineParallel(
            [module, Watched()] if comm.rank == 0 else [Watched(), module], comm, loss=square, schedule="gpipe", num_microbatches=4, recompute="full"
        )
        model.step(rows(4))
        module.peak, module.alive = 0, []
        model.step(rows(4))
        return module.peak, [float(p.grad) for p in model.parameters() if p.grad is not None]

    def plain(comm: Any) -> Any:
        model = pk.PipelineParallel([Watched(), Watched()], comm, loss=square, schedule="gpipe", num_microbatches=4)
        model.step(rows(4))
        model.step(rows(4))
        return [float(p.grad) for p in model.parameters() if p.grad is not None]

    with pk.SimulatedWorld(2) as world:
        found, right = world.run(counted), world.run(plain)
    assert [peak for peak, _ in found] == [1, 1]
    assert [gradients for _, gradients in found] == list(right)


def test_recomputing_draws_the_same_random_numbers_and_counts_once() -> None:
    """Dropout: the same mask in both forwards. Batch norm: its statistics move once."""

    def step(comm: Any, recompute: Any) -> Any:
        torch.manual_seed(comm.rank)
        stages = [nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).double() for _ in range(2)]
        model = pk.PipelineParallel(stages, comm, loss=square, num_microbatches=2, recompute=recompute)
        model.step(torch.arange(12.0, dtype=torch.float64).reshape(4, 3))
        return [p.grad for p in model.parameters()], list(model.buffers())

    with pk.SimulatedWorld(2) as world:
        ours, plain = world.run(step, "full"), world.run(step, "none")
    torch.testing.assert_close(list(ours), list(plain), rtol=0, atol=0)
    assert [int(buffers[-1]) for _, buffers in ours] == [2, 2]


def test_sent_tensors_are_let_go_while_the_step_goes_on(live_world: Callable[[int], World]) -> None:
    """Of 12 gradients that stage 1 sends back, only those of the last two or so wait for the end of the step."""

    def held(comm: Any) -> int:
        model = pk.PipelineParallel([Watched(), Watched()], comm, loss=square, num_microbatches=12)
        most = 0
        executor: Any = model._training_step
        original = executor.METHODS["SEND_B"]

        def counting(self: Any, action: Any) -> None:
            nonlocal most
            original(self, action)
            most = max(most, len(self._sent))

        executor.METHODS = {**executor.METHODS, "SEND_B": counting}
        model.step(rows(12))
        return most

    assert list(live_world(2).run(held)) == [0, 2]
