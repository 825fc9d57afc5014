"""How long the collectives in a trace took: a point for each algorithm, number of ranks and message size.

    collective events of one call                            a point: all calls alike
    rank 0   |--------all_reduce[sum, ring]-----|            ("all_reduce", "ring", 4 ranks, 1 MB)
    rank 1      |-----all_reduce[sum, ring]----|             median, quartiles and number of calls
    rank 2          |-all_reduce[sum, ring]-------|
    rank 3   |--------all_reduce[sum, ring]----|
                    |<------ seconds ------>|                from the last rank's entry to the last rank's exit

What a rank waits for the others before they enter is not the algorithm's time, so a call begins when its last rank enters. What is in
a span named `WARM_UP` is not counted. Ranks of a group with a name are found by the messages of that name: two groups of an
axis have the same name, but send nothing to each other. Calls that lack a rank are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.cluster import COSTS, LOOPBACK, CostFunction, Link
from partkit.figures.encoding import pack
from partkit.tracing import KIND_CODE, Clock, Columns, Trace

WARM_UP = "warm-up"
WORDS: dict[Clock, str] = {"wall": "measured here", "virtual": "simulated", "planned": "planned"}
"""What the points of a trace are, by its clock."""
Integers = npt.NDArray[np.int64]
LEAST_LATENCY, MOST_BANDWIDTH = 1e-8, 1e13
"""Seconds, bytes per second: no link that is fitted is faster."""
_ROUNDS, _STEP = 12, 1e-3


class Point(NamedTuple):
    """Calls that were alike."""

    operation: str
    algorithm: str
    ranks: int
    nbytes: int
    """Of the tensor that a rank passed in; the largest if they differ."""
    runs: int
    median: float
    """Seconds."""
    low: float
    """First quartile."""
    high: float
    """Third quartile."""


class Points:
    """The points of a trace that may still grow.

    Args:
        trace: where collectives are noted.

    Example:
        >>> from partkit.tracing import Event
        >>> calls = [Event(rank, "collective", 0.25 * rank, 1.0, tag="all_reduce[sum, ring]", nbytes=8) for rank in (0, 1)]
        >>> points = Points(Trace.from_events(calls))
        >>> points.update()
        [Point(operation='all_reduce', algorithm='ring', ranks=2, nbytes=8, runs=1, median=0.75, low=0.75, high=0.75)]
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.all: dict[tuple[str, str, int, int], Point] = {}
        """By operation, algorithm, ranks and bytes."""
        self._taken = 0
        self._calls: list[Columns] = []
        self._links: set[tuple[int, int, int]] = set()
        """Group, and two ranks that a message of it has joined."""

    def update(self) -> list[Point]:
        """Look at what has come since the last call; gives the points that are new or have changed."""
        rows = self.trace.columns[self._taken :]
        self._taken += len(rows)
        self._note_links(rows[(rows["kind"] == KIND_CODE["send"]) & (rows["group"] != 0)])
        calls = rows[rows["kind"] == KIND_CODE["collective"]]
        calls = calls[self._counts(calls)]
        if not len(calls):
            return []
        self._calls = [np.concatenate([*self._calls, calls])]
        changed = [point for point in self._points() if self.all.get(point[:4]) != point]
        self.all.update({point[:4]: point for point in changed})
        return changed

    def _note_links(self, sends: Columns) -> None:
        code = np.unique(np.stack([sends[name].astype(np.int64) for name in ("group", "rank", "peer")]), axis=1)
        self._links.update(map(tuple, code.T.tolist()))

    def _counts(self, calls: Columns) -> npt.NDArray[np.bool_]:
        """Which events are of a known operation, and no warm-up."""
        strings = self.trace.strings
        tags = [tag for tag in np.unique(calls["tag"]).tolist() if read_tag(strings[tag]) is not None]
        cold = [span for span in np.unique(calls["span"]).tolist() if WARM_UP in strings[span].split("/")]
        counted: npt.NDArray[np.bool_] = np.isin(calls["tag"], tags) & ~np.isin(calls["span"], cold)
        return counted

    def _points(self) -> list[Point]:
        """All points, from all events so far."""
        calls = self._calls[0]
        member, size = self._members(calls)
        order = np.lexsort((calls["seq"], member, calls["group"], calls["tag"]))
        keys = np.stack([calls["tag"], calls["group"], member, calls["seq"]]).T[order]
        first = np.flatnonzero(np.concatenate(([True], (keys[1:] != keys[:-1]).any(axis=1))))
        begin, end, nbytes = (np.maximum.reduceat(calls[name][order], first) for name in ("start", "end", "nbytes"))
        whole = (np.diff(np.append(first, len(order))) == size[order[first]]) & (end > begin) & (size[order[first]] > 0)
        kinds = np.stack([keys[first, 0], size[order[first]], nbytes]).T[whole]
        found, which = np.unique(kinds, axis=0, return_inverse=True)
        seconds = (end - begin)[whole]
        return [self._point(kind, seconds[which.reshape(-1) == i]) for i, kind in enumerate(found.tolist())]

    def _point(self, kind: Sequence[int], seconds: npt.NDArray[np.float64]) -> Point:
        tag, ranks, nbytes = kind
        operation, algorithm = read_tag(self.trace.strings[tag]) or ("", "")
        low, median, high = np.quantile(seconds, (0.25, 0.5, 0.75)).tolist()
        return Point(operation, algorithm, ranks, nbytes, len(seconds), median, low, high)

    def _members(self, calls: Columns) -> tuple[Integers, Integers]:
        """For each event the lowest rank of its group, and how many ranks that has (0 if unknown). Shapes (events,)."""
        lowest, size = np.zeros(len(calls), dtype=np.int64), np.full(len(calls), self.trace.size, dtype=np.int64)
        for group in np.unique(calls["group"][calls["group"] != 0]).tolist():
            joined = _components([(a, b) for name, a, b in self._links if name == group])
            at = np.flatnonzero(calls["group"] == group)
            lowest[at], size[at] = zip(*(joined.get(rank, (rank, 0)) for rank in calls["rank"][at].tolist()), strict=True)
        return lowest, size


def points(trace: Trace) -> list[Point]:
    """The points of a trace as it is now, by operation, algorithm, ranks and bytes."""
    found = Points(trace)
    found.update()
    return [found.all[key] for key in sorted(found.all)]


def read_tag(tag: str) -> tuple[str, str] | None:
    """Operation and algorithm of a collective; None unless it is an algorithm with a known cost, or "native".

    Example:
        >>> read_tag("all_reduce[sum, ring]"), read_tag("all_reduce[sum, hierarchical in nodes of 2]"), read_tag("dist.all_reduce")
        (('all_reduce', 'ring'), ('all_reduce', 'hierarchical'), None)
    """
    operation, _, details = tag.partition("[")
    algorithm = details.rstrip("]").split(", ")[-1].split(" ")[0]
    return (operation, algorithm) if algorithm in {*COSTS.get(operation, {}), "native"} and operation in COSTS else None


def _components(links: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Rank -> the lowest rank of those that it is joined to, directly or through others, and their number."""
    sets: dict[int, set[int]] = {}
    for a, b in links:
        one, other = sets.setdefault(a, {a}), sets.setdefault(b, {b})
        if one is not other:
            one |= other
            sets.update(dict.fromkeys(other, one))
    return {rank: (min(joined), len(joined)) for rank, joined in sets.items()}


def fit(found: Sequence[Point], channels: int | None = None) -> Link | None:
    """The link with which the model comes closest to the points; None if fewer than two of them have a model.

    Least squares of the relative errors, so that small messages count as much as large ones. The time of an algorithm is its
    number of latencies times the latency, plus its number of bytes over the bandwidth. Both numbers may depend on the link (an
    algorithm that chooses how it cuts its tensor), so they are taken at the link found so far, until it stays.

    Args:
        found: what was measured.
        channels: how many messages all ranks together have under way at a time (`Link`), since dots alone don't tell; None if each
            pair of ranks has a link of its own.

    Example:
        >>> link = Link(latency=5e-5, bandwidth=2e9)
        >>> seconds = lambda n: COSTS["all_reduce"]["ring"](n, 1, 4, link).seconds
        >>> made = [Point("all_reduce", "ring", 4, n, 1, seconds(n), 0, 0) for n in (1000, 1_000_000)]
        >>> found = fit(made)
        >>> f"{found.latency:.3g} {found.bandwidth:.3g}"
        '5e-05 2e+09'
    """
    known = [(point, COSTS[point.operation][point.algorithm]) for point in found if point.algorithm in COSTS.get(point.operation, {}) and point.ranks > 1]
    if len(known) < 2:
        return None
    link = replace(LOOPBACK, channels=channels)
    for _ in range(_ROUNDS):
        parts = np.array([_parts(cost, point, link) for point, cost in known])
        latency, per_byte = _non_negative(parts)
        before, link = link, Link(max(latency, LEAST_LATENCY), 1 / max(per_byte, 1 / MOST_BANDWIDTH), channels)
        if link == before:
            break
    return link


def _parts(cost: CostFunction, point: Point, link: Link) -> tuple[float, float]:
    """Latencies and bytes in the time of a call, per second that it took.

    Twice the latency with half the bandwidth is twice the time, so what is not a latency's part is the bandwidth's.
    """
    longer = replace(link, latency=link.latency * (1 + _STEP))
    time, more = (cost(point.nbytes, 1, point.ranks, one).through(one).seconds for one in (link, longer))
    latencies = (more - time) / (longer.latency - link.latency)
    return latencies / point.median, max(0.0, time - latencies * link.latency) * link.bandwidth / point.median


def _non_negative(parts: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Two numbers, none below 0, for which ``parts`` times them is nearest to 1. Shape (points, 2)."""
    ones = np.ones(len(parts))
    both = np.linalg.lstsq(parts, ones, rcond=None)[0]
    if (both >= 0).all():
        return float(both[0]), float(both[1])
    alone = [float(column.sum() / max(float(column @ column), 1e-300)) for column in parts.T]
    errors = [float(((parts[:, k] * alone[k] - 1) ** 2).sum()) for k in (0, 1)]
    return (alone[0], 0.0) if errors[0] <= errors[1] else (0.0, alone[1])


class PointEncoder:
    """Turns the points of a growing trace into blocks for a browser: headers with the points that have changed, no columns.

    Args:
        trace: may grow between calls.

    Attributes:
        num_events: blocks so far.
        points: what they are made from.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.num_events = 0
        self.points = Points(trace)

    @property
    def note(self) -> str:
        """What the points are."""
        return WORDS[self.trace.clock]

    def encode(self) -> bytes:
        """What has changed since the last call, as one block; empty if nothing has."""
        changed: list[dict[str, Any]] = [point._asdict() for point in self.points.update()]
        if not changed:
            return b""
        self.num_events += 1
        return pack({"n": 1, "points": changed}, ())
