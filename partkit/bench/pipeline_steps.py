"""A training step of `PipelineParallel` beside that of torch.distributed.pipelining: same model, stages, micro-batches and ranks, in one run.

Both are measured by turns on the same live ranks; a time is that of the slowest rank. The ratio is the median of the ratios of
neighbouring turns. Where our time goes, on the rank that computes most, as shares of a step:

    computing     forwards and backwards of stages: torch's own operations, alike for both
    posting       handing messages to the wire
    waiting       for messages; the rest is everything else

and, in "messages alone", how much of torch's step the messages of the rank with most neighbours would take with nothing to compute: there and
back once for each micro-batch and neighbour. It bounds what any schedule can gain by sending while it computes.

    small     layers of 64 and 16 rows: communication and what a runtime itself costs decide
    large     layers of 1024 and 512 rows: arithmetic decides

Each rank keeps to cores of its own, as far as there are some (`keep_to_cores`). Left alone, a scheduler may run two ranks on one core for
long stretches; then nothing overlaps, in neither runtime, and a schedule that sends ahead looks as slow as one that waits.

What was seen on two shared cores (torch 2.13): small steps of GPipe and interleaving take 0.7 to 0.9 times torch's, 1F1B 0.75 to 0.9 on 2 ranks
and 0.9 to 1.0 on 4; large ones are as fast, 0.9 to 1.03, being arithmetic. 1F1B gains least: it alternates one forward and one backward, so
torch fuses the send of one with the receive of the next, and blocks once for both; elsewhere it blocks for each message. Four ranks on two
cores are never idle together, so that only work saved counts. What is left of a small step is torch's own: computing, and gloo's calls
that post and wait; Python of partkit's is 8 % of it. Receives that are posted two actions ahead save a tenth (`pipeline_parallel.messages`).
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import pipelining

from partkit.bench._measure import rotated
from partkit.collectives.barrier import barrier
from partkit.communicator import Communicator, Pending
from partkit.pipeline_parallel import make
from partkit.pipeline_parallel.execution import PipelineParallel
from partkit.worlds.world import World

SCHEDULES = {
    "gpipe": pipelining.ScheduleGPipe,
    "one_f_one_b": pipelining.Schedule1F1B,
    "interleaved": pipelining.ScheduleInterleaved1F1B,
}
"""Ours -> torch's."""


class Size(NamedTuple):
    """Of a model and its batch."""

    name: str
    width: int
    rows: int
    repetitions: int


SIZES = (Size("small", 64, 16, 40), Size("large", 1024, 512, 10))
QUICK_SIZES = (Size("small", 64, 16, 3),)
LAYERS, MICROBATCHES = 8, 8


def row(world: World, name: str, size: Size) -> dict[str, Any]:
    """One line of the table: median milliseconds, and the ratio."""
    by_rank, shares = world.run(time_both, name, size), max(world.run(shares_of_step, name, size), key=lambda found: found["computing"])
    ours, theirs = ([max(times) for times in zip(*(seconds[way] for seconds in by_rank), strict=True)] for way in (0, 1))
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    return {
        "schedule": name,
        "ranks": world.size,
        "size": size.name,
        "partkit, ms": 1000 * median(ours),
        "torch, ms": 1000 * median(theirs),
        "partkit / torch": ratio,
        **shares,
        "messages alone": max(world.run(seconds_of_messages, size)) / median(theirs),
    }


def keep_to_cores(comm: Communicator) -> None:
    """Bind this rank to its share of the cores, where the system can; to one, which it shares, where there are fewer cores than ranks."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    first, end = comm.rank * len(cores) // comm.size, (comm.rank + 1) * len(cores) // comm.size
    os.sched_setaffinity(0, cores[first : max(end, first + 1)])


def seconds_of_messages(comm: Communicator, size: Size) -> float:
    """Of a step, if nothing were computed: an activation there and a gradient back, for each micro-batch and neighbour of a rank in the middle."""
    x, neighbours = torch.empty(size.rows // MICROBATCHES, size.width), 1 if comm.size == 2 else 2
    taken = []
    for _ in range(size.repetitions):
        barrier(comm)
        start = time.perf_counter()
        for _ in range(MICROBATCHES if comm.rank < 2 else 0):
            if comm.rank == 0:
                comm.send(x, 1)
                comm.recv(x, 1)
            else:
                comm.recv(x, 0)
                comm.send(x, 0)
        taken.append(time.perf_counter() - start)
    return neighbours * median(taken)


def time_both(comm: Communicator, name: str, size: Size) -> tuple[list[float], list[float]]:
    """Seconds of each step of this rank: ours, torch's."""
    x, y = batch(size)
    steps = [our_step(comm, name, size, x, y), torchs_step(comm, name, size, x, y)]
    for step in steps:
        step()  # shapes become known
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(size.repetitions):
        for step, seconds in rotated(list(zip(steps, taken, strict=True)), turn):
            barrier(comm)
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
    return taken


def shares_of_step(comm: Communicator, name: str, size: Size) -> dict[str, float]:
    """Where the time of our steps goes on this rank."""
    x, y = batch(size)
    model = PipelineParallel(model_of(size.width), comm, loss=F.mse_loss, schedule=name, num_microbatches=MICROBATCHES)
    model.step(x, target=y)  # shapes become known
    taken: defaultdict[str, float] = defaultdict(float)
    timed: list[tuple[Any, str, str]] = [(stage, method, "computing") for stage in model.stages.values() for method in ("forward", "backward")]
    timed += [(Communicator, "isend", "posting"), (Communicator, "irecv", "posting"), (Pending, "wait", "waiting")]
    for _ in range(size.repetitions):
        barrier(comm)
        with ExitStack() as undo:
            for owner, method, share in timed:
                undo.enter_context(patch.object(owner, method, _timing(getattr(owner, method), taken, share)))
            start = time.perf_counter()
            model.step(x, target=y)
            taken["step"] += time.perf_counter() - start
    return {share: taken[share] / taken["step"] for share in ("computing", "posting", "waiting")}


def _timing(call: Callable[..., Any], taken: defaultdict[str, float], share: str) -> Callable[..., Any]:
    """The same, with its time added to a share."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            taken[share] += time.perf_counter() - start

    return timed


def batch(size: Size) -> list[Tensor]:
    """Inputs and targets, (rows, width) each."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size.rows, size.width, generator=generator) for _ in range(2)]


def model_of(width: int) -> nn.Sequential:
    """Layers that are all alike."""
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(LAYERS)])


def our_step(comm: Communicator, name: str, size: Size, x: Tensor, y: Tensor) -> Callable[[], object]:
    """A step of `PipelineParallel`."""
    model = PipelineParallel(model_of(size.width), comm, loss=F.mse_loss, schedule=name, num_microbatches=MICROBATCHES)
    return lambda: model.step(x, target=y)


def torchs_step(comm: Communicator, name: str, size: Size, x: Tensor, y: Tensor) -> Callable[[], object]:
    """A step of torch's schedule on the same stages."""
    schedule = make(name, comm.size, MICROBATCHES)
    layers, a_stage = model_of(size.width), LAYERS // schedule.num_stages
    stages = [
        pipelining.PipelineStage(layers[stage * a_stage : (stage + 1) * a_stage], stage, schedule.num_stages, torch.device("cpu"))
        for stage in schedule.stages_of(comm.rank)
    ]
    made: Any = SCHEDULES[name]
    runs = made(stages if name == "interleaved" else stages[0], MICROBATCHES, loss_fn=F.mse_loss)
    args = (x,) if comm.rank == 0 else ()
    kwargs = {"target": y, "losses": []} if comm.rank == comm.size - 1 else {}
    return lambda: runs.step(*args, **kwargs)
