"""What every algorithm of a collective costs over the message size, and where the fastest one changes. Pure; the model only.

    seconds                                    all curves come from `partkit.cluster.COSTS`, the closed forms
       |  naive            /        ring       of the alpha-beta model: latency + bytes / bandwidth a message
       |                 o/  ____--            o  crossover: from here on another algorithm is the fastest
       |____----____----/                      bands: stretches of sizes with one fastest algorithm
       +--naive--|--ring-------- bytes

The curves are sampled at `SIZES`, evenly on a logarithmic axis. Most algorithms' time is, but for roundings at a few bytes, linear in
the bytes. So of each three powers of ten the ends and the middle are evaluated, and a stretch on which the middle is where a
straight line has it is not cut further: 7 evaluations a curve instead of 70, of which one can take a tenth of a second for
hundreds of ranks. A crossover is where the straight lines between neighbouring samples meet.

Where ranks share channels (`partkit.cluster.Link`), curves are at least the time of the messages of all ranks through these
(`partkit.cluster.cost.Cost.through`).

References: as for `partkit.cluster`. Where MPI libraries switch algorithms: Thakur, Rabenseifner and Gropp 2005, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.cluster import COSTS, LOOPBACK, Cost, CostFunction, Link

Numbers = npt.NDArray[np.float64]
DECADES, PER_DECADE = 9, 8
SIZES: Numbers = np.unique(np.round(10.0 ** np.linspace(0, DECADES, DECADES * PER_DECADE + 1)))
"""Bytes at which curves are sampled: 1 B to 1 GB."""
EQUAL = 1e-9
"""Times that differ by less than this part are equal."""
STRAIGHT = 1e-3


class Curve(NamedTuple):
    """The time of one algorithm in the model."""

    algorithm: str
    seconds: Numbers
    """At `SIZES`."""


class Crossover(NamedTuple):
    """Where the fastest algorithm changes."""

    nbytes: float
    seconds: float
    before: str
    after: str


class Band(NamedTuple):
    """A stretch of sizes on which one algorithm is the fastest."""

    algorithm: str
    equals: tuple[str, ...]
    """Others that take the same time all along."""
    low: float
    """Bytes."""
    high: float

    @property
    def name(self) -> str:
        """``ring``, ``ring = halving``."""
        return " = ".join((self.algorithm, *self.equals))


class Model(NamedTuple):
    """The curves of one operation on so many ranks and such a link."""

    operation: str
    ranks: int
    link: Link
    curves: list[Curve]
    """In the order of the table of costs."""
    bands: list[Band]
    """From small messages to large ones, without gaps."""
    crossovers: list[Crossover]
    """Between the bands."""
    costs: Mapping[str, CostFunction]
    """Of each algorithm."""

    def cost(self, algorithm: str, nbytes: int) -> Cost:
        """What a call costs if each rank passes in ``nbytes``."""
        return self.costs[algorithm](nbytes, 1, self.ranks, self.link).through(self.link)


def model(operation: str, ranks: int, link: Link = LOOPBACK) -> Model:
    """Sample all algorithms of an operation.

    Args:
        operation: a key of `partkit.cluster.COSTS`.
        ranks: at least 1.
        link: between any two of them.

    Raises:
        ValueError: no algorithm of such an operation has a known cost, or there is no rank.

    Example:
        >>> found = model("all_reduce", ranks=4, link=Link(latency=1e-4, bandwidth=1e9))
        >>> len(found.curves) == len(COSTS["all_reduce"]), len(found.crossovers) == len(found.bands) - 1
        (True, True)
    """
    if operation not in COSTS:
        raise ValueError(f"operation={operation!r}: its cost is not known; operation is one of {', '.join(map(repr, COSTS))}")
    if ranks < 1:
        raise ValueError(f"ranks={ranks!r}: a collective needs at least one rank")
    return assemble(operation, ranks, link, COSTS[operation])


def assemble(operation: str, ranks: int, link: Link, costs: Mapping[str, CostFunction]) -> Model:
    """The same with costs of your own: algorithm -> `partkit.cluster.CostFunction`.

    Example:
        >>> quick = lambda numel, itemsize, size, link: Cost((1,), (1,), 1, 1e-3 + 1e-8 * numel)
        >>> slow = lambda numel, itemsize, size, link: Cost((1,), (1,), 1, 2e-3 + 1e-9 * numel)
        >>> found = assemble("broadcast", 2, LOOPBACK, {"quick": quick, "slow": slow})
        >>> [(band.name, round(band.high)) for band in found.bands]
        [('quick', 111111), ('slow', 1000000000)]
    """

    def curve(name: str) -> Curve:
        return Curve(name, _sample(lambda nbytes: costs[name](nbytes, 1, ranks, link).through(link).seconds))

    curves = [curve(name) for name in costs]
    bands, crossovers = _fastest(curves)
    return Model(operation, ranks, link, curves, bands, crossovers, costs)


def _sample(seconds: Callable[[int], float]) -> Numbers:
    """A curve at `SIZES`; straight stretches (in bytes) are not evaluated inside."""
    out = np.full(len(SIZES), np.nan)

    def evaluate(i: int) -> float:
        if np.isnan(out[i]):
            out[i] = seconds(int(SIZES[i]))
        return float(out[i])

    def fill(first: int, last: int) -> None:
        if last - first < 2:
            return
        middle = (first + last) // 2
        straight = float(np.interp(SIZES[middle], SIZES[[first, last]], (evaluate(first), evaluate(last))))
        if abs(evaluate(middle) - straight) <= STRAIGHT * straight:
            for low, high in ((first, middle), (middle, last)):
                out[low:high] = np.interp(SIZES[low:high], SIZES[[low, high]], (out[low], out[high]))
        else:
            fill(first, middle)
            fill(middle, last)

    edges = np.searchsorted(SIZES, 10.0 ** np.arange(0, DECADES + 1, 3)).tolist()
    for edge in edges:
        evaluate(edge)
    for first, last in pairwise(edges):
        fill(first, last)
    return out


def _fastest(curves: list[Curve]) -> tuple[list[Band], list[Crossover]]:
    """Bands and what is between them. The fastest stays the fastest until another is faster, not only equal."""
    seconds = np.stack([curve.seconds for curve in curves])
    least = seconds.min(axis=0)
    equal = seconds <= least * (1 + EQUAL)  # (algorithms, sizes)
    leader, leaders = int(equal[:, 0].argmax()), []
    for i in range(len(SIZES)):
        leader = leader if equal[leader, i] else int(equal[:, i].argmax())
        leaders.append(leader)
    changes = [i for i in range(1, len(SIZES)) if leaders[i] != leaders[i - 1]]
    crossovers = [_crossing(i, curves[leaders[i - 1]], curves[leaders[i]]) for i in changes]
    edges = [float(SIZES[0]), *(crossover.nbytes for crossover in crossovers), float(SIZES[-1])]
    bands = []
    for k, (first, last) in enumerate(zip([0, *changes], [*changes, len(SIZES)], strict=True)):
        own = leaders[first]
        others = tuple(curves[j].algorithm for j in range(len(curves)) if j != own and equal[j, first:last].all())
        bands.append(Band(curves[own].algorithm, others, edges[k], edges[k + 1]))
    return bands, crossovers


def _crossing(i: int, before: Curve, after: Curve) -> Crossover:
    """Where the lines from sample ``i - 1`` to ``i`` meet."""
    gap = before.seconds[i - 1 : i + 1] - after.seconds[i - 1 : i + 1]  # from at most 0 to above 0
    part = float(-gap[0] / (gap[1] - gap[0]))
    nbytes = float(SIZES[i - 1] + part * (SIZES[i] - SIZES[i - 1]))
    return Crossover(nbytes, float(before.seconds[i - 1] + part * (before.seconds[i] - before.seconds[i - 1])), before.algorithm, after.algorithm)


class ModelSpec(NamedTuple):
    """A `Model` and the costs at one size, for the browser."""

    operation: str
    ranks: int
    sizes: list[float]
    curves: list[dict[str, Any]]
    """``{name, seconds}``."""
    bands: list[dict[str, Any]]
    crossovers: list[dict[str, Any]]
    latency: float
    bandwidth: float
    costs: list[dict[str, Any]]
    """At ``nbytes``, in the order of ``curves``: the most messages and bytes that a rank sends, steps, seconds."""
    nbytes: int
    channels: int
    """0 if each pair of ranks has its own link."""


def spec(found: Model, nbytes: int) -> dict[str, Any]:
    """A model as plain JSON.

    Example:
        >>> spec(model("all_reduce", 4), 1000)["costs"][0]["name"] == model("all_reduce", 4).curves[0].algorithm
        True
    """
    return ModelSpec(
        operation=found.operation,
        ranks=found.ranks,
        sizes=SIZES.tolist(),
        curves=[{"name": curve.algorithm, "seconds": curve.seconds.tolist()} for curve in found.curves],
        bands=[{**band._asdict(), "name": band.name, "equals": list(band.equals)} for band in found.bands],
        crossovers=[crossover._asdict() for crossover in found.crossovers],
        latency=found.link.latency,
        bandwidth=found.link.bandwidth,
        costs=[cost_row(curve.algorithm, found.cost(curve.algorithm, nbytes)) for curve in found.curves],
        nbytes=nbytes,
        channels=found.link.channels or 0,
    )._asdict()


def cost_row(algorithm: str, cost: Cost) -> dict[str, Any]:
    """A cost as a row of a table: of ranks that differ, the one that has most to do."""
    return {"name": algorithm, "messages": max(cost.messages), "bytes": max(cost.bytes_sent), "steps": cost.steps, "seconds": cost.seconds}
