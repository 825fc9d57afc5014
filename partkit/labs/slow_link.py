"""Exercise: how long does a ring all-reduce take if one of its links is slow? The checker holds a formula to simulated runs.

    ranks 0 -> 1 -> 2 -> 3 -> 0        every link takes t = latency + n / (p bandwidth) for a chunk; 1 -> 2 takes f t

The ring goes in 2 (p - 1) steps, and in every one of them a chunk crosses *each* link. So it is not enough to charge the slow link
once, nor to share its loss out among p links: what everybody has to wait for, everybody waits for in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isclose

import torch

from partkit.cluster import Cluster, Link, SlowLink
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.verdict import Finding, Verdict
from partkit.worlds.simulated import SimulatedWorld

Seconds = Callable[[int, int, Link, float], float]
LINKS = (Link(latency=50e-6, bandwidth=1e9), Link(latency=0.0, bandwidth=25e6), Link(latency=1e-3, bandwidth=1e12))
SIZES, FACTORS = (4, 2, 3, 8), (3.0, 1.0, 10.0)
ITEMSIZE = 4


def check_slow_link(learner: Seconds) -> Verdict:
    """Judge ``learner(nbytes, size, link, factor)``, the seconds of a ring all-reduce in which one link is slow.

    Args:
        learner: seconds for ``nbytes`` on ``size`` ranks over ``link``, where from one rank to its right neighbour a message takes
            ``factor`` times as long. All chunks are equal.

    Raises:
        TypeError: ``learner`` can't be called.

    Example:
        >>> from partkit.labs import check_slow_link
        >>> check_slow_link(lambda nbytes, size, link, factor: 2 * (size - 1) * link.seconds(nbytes / size))
        ring with a slow link: not yet
          look  4 ranks, one link 3 times slower: your formula gives 900 us, the run takes 2,700 us; this is the time without a slow link
    """
    if not callable(learner):
        raise TypeError(f"learner={learner!r}: give the function itself, my_function, not what it returns")
    cases = [(link, size, FACTORS[(i + j) % len(FACTORS)]) for i, link in enumerate(LINKS) for j, size in enumerate(SIZES)]
    for link, size, factor in cases:
        try:
            told = list(_wrong(learner, link, size, factor))
        except Exception as error:
            told = [f"your function raised {type(error).__name__}: {error}"]
        if told:
            return Verdict("ring with a slow link", [Finding(False, f"{size} ranks, one link {factor:g} times slower: {text}") for text in told])
    ranks = ", ".join(map(str, sorted(SIZES)))
    return Verdict("ring with a slow link", [Finding(True, f"the time of simulated runs on {ranks} ranks, with three links and three factors, to nine digits")])


def simulated_seconds(nbytes: int, size: int, link: Link, factor: float) -> float:
    """The same from a run on simulated ranks; the link from rank 0 to rank 1 is slow.

    Example:
        >>> simulated_seconds(32, 4, Link(latency=1.0, bandwidth=float("inf")), 2.0)
        12.0
    """

    def reduce(comm: Communicator) -> None:
        all_reduce(torch.ones(nbytes // ITEMSIZE), comm, algorithm="ring")

    with SimulatedWorld(size, Cluster(link=link, conditions=(SlowLink(0, 1, factor),)), numbers=False) as world:
        world.run(reduce)
        return world.trace.makespan


def _wrong(learner: Seconds, link: Link, size: int, factor: float) -> Iterator[str]:
    nbytes = ITEMSIZE * 25_000 * size
    given, right = learner(nbytes, size, link, factor), simulated_seconds(nbytes, size, link, factor)
    if isinstance(given, bool) or not isinstance(given, int | float):
        yield f"your function gives {given!r}; it must give a number of seconds"
    elif not isclose(given, right, rel_tol=1e-9):
        yield f"your formula gives {1e6 * given:,.6g} us, the run takes {1e6 * right:,.6g} us{_hint(given, link.seconds(nbytes / size), size, factor)}"


def _hint(given: float, step: float, size: int, factor: float) -> str:
    """What a wrong answer is the right one to; ``step`` is the time of a chunk on a link that is not slow."""
    steps = 2 * (size - 1)
    answers = {
        "this is the time without a slow link": steps * step,
        "the slow link is charged for one step of all": (steps - 1 + factor) * step,
        "the loss is shared out among the links, but in each step all wait for the slow one": steps * step * (size - 1 + factor) / size,
        "the factor is on the bytes or on the latency only; here it is on both": -1.0,
    }
    found = [words for words, seconds in answers.items() if isclose(given, seconds, rel_tol=1e-9)]
    between = min(steps * step, factor * steps * step) < given < max(steps * step, factor * steps * step)
    return f"; {found[0]}" if found else f"; {list(answers)[-1]}" if between else ""
