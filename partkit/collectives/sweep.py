"""Every algorithm of a collective at several sizes, so that a trace of it can be laid beside the model.

    for each size:  warm up;  then so many times:  naive | ring | native        all ranks meet before each call

Algorithms take turns, so that whatever slows the machine slows all of them alike. The first turn of a size is in a span of its own,
"warm-up". What comes out is the trace: its collective events say how long each call took (`partkit.figures.cost_points`).
"""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from partkit.collectives.barrier import dissemination_barrier
from partkit.communicator import Communicator


def sweep(comm: Communicator, operation: str, algorithms: Sequence[str] | None, sizes: Sequence[int], runs: int) -> None:
    """On a rank: call each algorithm ``runs`` times at each size, after a call that warms up.

    Args:
        comm: the ranks that take part.
        operation: the name of a collective.
        algorithms: names; all of the operation's if None.
        sizes: bytes of the float32 tensor that each rank passes in; the nearest multiple of 4 bytes, at least 4.
        runs: at least 1.

    Raises:
        ValueError: there is no such operation, ``runs`` is below 1, or a size is negative.

    Example:
        >>> import partkit as pk
        >>> with pk.World(2) as world:
        ...     results = world.run(sweep, "all_reduce", ["ring"], [400], 3)
        ...     len([event for event in world.trace.events if event.rank == 0 and event.kind == "collective"])
        4
    """
    if runs < 1 or any(size < 0 for size in sizes):
        raise ValueError(f"sweep(sizes={list(sizes)}, runs={runs}): sizes are at least 0, runs at least 1")
    collective, known = _find(operation)
    names = list(known) if algorithms is None else list(algorithms)
    for size in sizes:
        call = _prepared(collective, torch.ones(max(1, round(size / 4))), comm)
        with comm.span("warm-up"):
            _turn(comm, call, names)
        for _ in range(runs):
            _turn(comm, call, names)


def _find(operation: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A collective, and its algorithms by name: from the module of its name, or else from the one that it shares."""
    others = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name not in (operation, "sweep")]
    for name in (operation, *others):
        if importlib.util.find_spec(f"partkit.collectives.{name}") is not None:
            module = import_module(f"partkit.collectives.{name}")
            if hasattr(module, operation) and hasattr(module, "ALGORITHMS") and getattr(module, operation).__module__ == module.__name__:
                return getattr(module, operation), module.ALGORITHMS
    raise ValueError(f"sweep(operation={operation!r}): there is no such collective in partkit.collectives")


def _prepared(collective: Callable[..., Any], x: Tensor, comm: Communicator) -> Callable[[str], Any]:
    """The collective as a function of the algorithm alone; a rooted one with root 0."""
    given = {"x": x, "comm": comm, "root": 0}
    arguments = {name: value for name, value in given.items() if name in inspect.signature(collective).parameters}
    return lambda algorithm: collective(**arguments, algorithm=algorithm)


def _turn(comm: Communicator, call: Callable[[str], Any], names: Sequence[str]) -> None:
    for name in names:
        dissemination_barrier(comm, "sweep")  # all begin together
        call(name)
