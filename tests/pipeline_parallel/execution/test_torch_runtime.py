"""torch's own pipelines: its runtime runs our schedules with the same gradients, and ours runs its schedules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import partkit as pk
from partkit.pipeline_parallel import Schedule, add_communication, make
from partkit.pipeline_parallel.execution.cut import cut_module
from partkit.pipeline_parallel.passes import add_reduce_grad
from partkit.worlds.world import World
from tests.pipeline_parallel.execution.models import X, Y, deep

LiveWorld = Callable[[int], World]


def gradients(module: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def serial() -> dict[str, torch.Tensor]:
    net = deep()
    F.mse_loss(net(X[:8]), Y[:8]).backward()
    return gradients(net)


def in_torchs_runtime(comm: Any, path: Path, schedule: Schedule, kind: str) -> dict[str, torch.Tensor]:
    """The gradients that torch's runtime gives with the schedule in a file."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    warnings.simplefilter("ignore")
    pieces = cut_module(deep(), schedule.num_stages).stages
    mine = [(stage, pieces[stage].module) for stage in schedule.stages_of(comm.rank)]
    stages = [PipelineStage(module, stage, schedule.num_stages, torch.device("cpu")) for stage, module in mine]
    runtime = _PipelineScheduleRuntime(stages, schedule.num_microbatches, loss_fn=F.mse_loss)
    runtime._load_csv(str(path), format=kind)
    first, last = schedule.placement[0] == comm.rank, schedule.placement[-1] == comm.rank
    runtime.step(*([X[:8]] if first else []), **({"target": Y[:8]} if last else {}))
    return {name: gradient for _, module in mine for name, gradient in gradients(module).items()}


def in_partkit(comm: Any, schedule: Schedule) -> dict[str, torch.Tensor]:
    model = pk.PipelineParallel(deep(), comm, loss=F.mse_loss, schedule=schedule)
    model.step(X[:8], target=Y[:8])
    return gradients(model.module)


def check(found: Any) -> None:
    """All ranks' gradients together are those of one process."""
    together = {name: gradient for rank in found for name, gradient in rank.items()}
    torch.testing.assert_close(together, serial(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b", "interleaved", "breadth_first", "zb_h1", "zb_v", "dual_pipe_v"])
@pytest.mark.parametrize("kind", ["compute_only", "compute_comms"])
def test_a_schedule_of_ours_in_torchs_runtime(live_world: LiveWorld, tmp_path: Path, name: str, kind: str) -> None:
    schedule = make(name, 2, 4)
    written = schedule if kind == "compute_only" else add_communication(add_reduce_grad(schedule))  # there torch divides by m
    check(live_world(2).run(in_torchs_runtime, written.to_csv(tmp_path / "schedule.csv"), schedule, kind))


LOOPED, IN_A_V = ("ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS"), ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")


@pytest.mark.parametrize("name", LOOPED + IN_A_V)
def test_a_schedule_of_torchs_in_our_runtime(live_world: LiveWorld, tmp_path: Path, name: str) -> None:
    def dump(comm: Any) -> None:
        from torch.distributed.pipelining import PipelineStage, schedules

        warnings.simplefilter("ignore")
        pieces = cut_module(deep(), 4).stages
        mine = ([[0, 3], [1, 2]] if name in IN_A_V else [[0, 2], [1, 3]])[comm.rank]
        stages = [PipelineStage(pieces[stage].module, stage, 4, torch.device("cpu")) for stage in mine]
        schedule = getattr(schedules, name)(stages, 4, loss_fn=F.mse_loss)
        if comm.rank == 0:
            schedule._dump_csv(str(tmp_path / "schedule.csv"), format="compute_only")

    world = live_world(2)
    world.run(dump)
    assert ("OVERLAP_F_B" in (tmp_path / "schedule.csv").read_text()) == (name == "ScheduleDualPipeV")
    check(world.run(in_partkit, Schedule.from_csv(tmp_path / "schedule.csv", name=name)))
