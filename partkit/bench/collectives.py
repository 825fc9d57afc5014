"""All-reduce: partkit's ring against torch.distributed's own; and what tracing costs.

All ways are measured by turns in the same run on the same ranks; a time is that of the slowest rank, medians are shown.
"torch" is ``torch.distributed.all_reduce`` itself; partkit's "native" is the same after its check that all ranks agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from partkit.bench._measure import Claim, done, options, progress
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.worlds.world import World

WAYS = ("ring", "native", "torch")
KB, MB = 1_000, 1_000_000
SIZES = {1 * KB: 60, 16 * KB: 60, 256 * KB: 40, 4 * MB: 10, 64 * MB: 3}
"""Bytes on each rank -> repetitions."""
QUICK_SIZES = {1 * KB: 3, 16 * KB: 3}


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Measure; see the module's text for the words."""
    chosen = options("collectives", argv, ("--ranks", {"type": int, "nargs": "+", "default": [2, 4, 8]}))
    ranks, sizes = ([2], QUICK_SIZES) if chosen.quick else (chosen.ranks, SIZES)
    rows: list[dict[str, Any]] = []
    for size in ranks:
        with World(size, trace=False) as world:
            for nbytes, repetitions in sizes.items():
                progress(f"all-reduce of {nbytes:,} bytes on {size} ranks, {repetitions} times")
                rows.append(all_reduce_row(world, nbytes, repetitions))
    tracing = [tracing_row(name, work, 1 if chosen.quick else 9) for name, work in WORKLOADS.items()]
    done()
    limits = {"a training step": 3.0}
    claims = [Claim(f"tracing costs {row['workload']}", row["cost %"], limits[row["workload"]], "%") for row in tracing if row["workload"] in limits]
    return {"all-reduce, ms": rows, "tracing": tracing, "claims": [claim.row() for claim in claims]}


def all_reduce_row(world: World, nbytes: int, repetitions: int) -> dict[str, Any]:
    """One line of the table: each way's median time in ms, and the ratio of ring to torch."""
    by_rank = world.run(time_ways, nbytes, repetitions)
    slowest = {way: [max(times) for times in zip(*(seconds[way] for seconds in by_rank), strict=True)] for way in WAYS}
    found = {way: 1000 * median(times) for way, times in slowest.items()}
    return {"ranks": world.size, "bytes": nbytes, **found, "ring / torch": found["ring"] / found["torch"]}


def time_ways(comm: Communicator, nbytes: int, repetitions: int) -> dict[str, list[float]]:
    """On a rank: seconds of each way, by turns; the first turn warms up and is not counted."""
    x = torch.ones(nbytes // 4)
    ways: dict[str, Callable[[], object]] = {
        "ring": lambda: all_reduce(x, comm, algorithm="ring"),
        "native": lambda: all_reduce(x, comm, algorithm="native"),
        "torch": lambda: dist.all_reduce(x.clone()),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(1 + repetitions):
        for way, reduce in ways.items():
            all_reduce(torch.zeros(1), comm)  # so that all begin together
            start = time.perf_counter()
            reduce()
            seconds[way].append(time.perf_counter() - start)
    return {way: times[1:] for way, times in seconds.items()}


# -- what tracing costs ----------------------------------------------------------------------------------------------


def training_steps(comm: Communicator) -> float:
    """Forward, backward and an all-reduce of the gradients of a small network, 40 times. Seconds."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    x, y = torch.randn(128, 64), torch.randint(10, (128,))
    start = time.perf_counter()
    for _ in range(40):
        with comm.span("step"):
            model.zero_grad()
            torch.autograd.backward(torch.nn.functional.cross_entropy(model(x), y))
            for parameter in model.parameters():
                parameter.grad = all_reduce(parameter.grad, comm, "mean") if parameter.grad is not None else None
    return time.perf_counter() - start


def small_messages(comm: Communicator) -> float:
    """Nothing but messages of 4 bytes: the worst case. Seconds."""
    start = time.perf_counter()
    for _ in range(200):
        all_reduce(torch.ones(comm.size), comm)
    return time.perf_counter() - start


WORKLOADS: dict[str, Callable[[Communicator], float]] = {"a training step": training_steps, "messages of 4 bytes": small_messages}


def tracing_row(name: str, work: Callable[[Communicator], float], repetitions: int) -> dict[str, Any]:
    """The same work traced and untraced, by turns, on four ranks."""
    progress(f"tracing on and off, {name}")
    with World(4) as world:
        world.run(work)
        pairs = [(max(world.ask(work)), max(world.run(work))) for _ in range(repetitions)]
        events = len(world.trace)
    off, on = (median(column) for column in zip(*pairs, strict=True))
    cost = median(100 * (traced / untraced - 1) for untraced, traced in pairs)
    return {"workload": name, "events": events, "off s": off, "on s": on, "cost %": cost}
