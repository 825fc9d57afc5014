"""Exercise: from the trace of a run, name the rank that all others wait for. The checker plays runs with a hidden straggler.

    rank 0  |=compute=|--- waits ---|r|      everybody computes, then all-reduces; one computes longer
    rank 1  |=compute=|--- waits ---|r|
    rank 2  |======= compute =======|r|      who waits least is waited for; the critical path runs through its computations

Whoever stands still longest is a victim. Jitter makes everybody a little late at times, so a single computation says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from partkit.cluster import Cluster, Jitter, Link, SlowDevice
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.verdict import Finding, Verdict
from partkit.tracing import Trace
from partkit.worlds.simulated import SimulatedWorld

Find = Callable[[Trace], int]


class Hidden(NamedTuple):
    """A run with a straggler."""

    size: int
    rank: int
    factor: float
    steps: int
    seed: int

    def play(self) -> Trace:
        """The trace of some steps of training on simulated ranks."""
        conditions = (SlowDevice(self.rank, self.factor), Jitter(0.2, self.seed))

        def train(comm: Communicator) -> None:
            for _ in range(self.steps):
                comm.compute("forward and backward", seconds=0.1)
                all_reduce(torch.ones(10_000), comm, algorithm="ring")

        with SimulatedWorld(self.size, Cluster(link=Link(50e-6, 1e9), conditions=conditions)) as world:
            world.run(train)
            return world.trace


RUNS = (Hidden(4, 2, 1.5, 6, 1), Hidden(4, 0, 1.25, 8, 2), Hidden(8, 5, 1.5, 4, 3), Hidden(6, 3, 1.3, 6, 4), Hidden(3, 1, 3.0, 3, 5))
"""What the function is tried on."""


def check_straggler(learner: Find) -> Verdict:
    """Judge ``learner(trace)``, which names the rank that holds up all others.

    Args:
        learner: gets the trace of a run and returns a rank.

    Raises:
        TypeError: ``learner`` can't be called.

    Example:
        >>> from partkit.labs import check_straggler
        >>> check_straggler(lambda trace: 0)
        the straggler: not yet
          look  4 ranks, 6 steps: you name rank 0, which computes as fast as most; all wait for another one
    """
    if not callable(learner):
        raise TypeError(f"learner={learner!r}: give the function itself, my_function, not what it returns")
    for run in RUNS:
        try:
            told = _wrong(learner(run.play()), run)
        except Exception as error:
            told = f"your function raised {type(error).__name__}: {error}"
        if told:
            return Verdict("the straggler", [Finding(False, f"{run.size} ranks, {run.steps} steps: {told}")])
    facts = [f"{run.size} ranks, {run.steps} steps: rank {run.rank} takes {run.factor:g} times as long, and you found it" for run in RUNS]
    return Verdict("the straggler", [Finding(True, text) for text in facts])


def _wrong(named: object, run: Hidden) -> str:
    if isinstance(named, bool) or not isinstance(named, int) or not 0 <= named < run.size:
        return f"your function returns {named!r}; it must be a rank from 0 to {run.size - 1}"
    return "" if named == run.rank else f"you name rank {named}, which computes as fast as most; all wait for another one"
