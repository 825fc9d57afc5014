"""What tracing costs: the same work traced and untraced, by turns, on four ranks.

"cost %" is the median over the repetitions of traced / untraced - 1, each pair measured one right after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from partkit.bench._measure import Claim, done, options, progress
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.worlds.world import World

LIMITS = {"a training step": 3.0}
"""Workload -> what tracing may cost at most, in percent."""


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Measure; see the module's text for the words."""
    chosen = options("tracing", argv)
    rows = [tracing_row(name, work, 1 if chosen.quick else 9) for name, work in WORKLOADS.items()]
    done()
    claims = [Claim(f"tracing costs {row['workload']}", row["cost %"], LIMITS[row["workload"]], "%") for row in rows if row["workload"] in LIMITS]
    return {"tracing": rows, "claims": [claim.row() for claim in claims]}


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
