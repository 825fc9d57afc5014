"""Simulated ranks: events a second from 8 to 1024 of them, how the cost grows, memory; beside live ranks where both can run.

A run is one ring all-reduce of one float32 for each rank: 2 (p - 1) messages of each of p ranks, two events a message, with real
numbers and a trace. "yardstick" is a million calls of an empty function, timed by turns with the runs: a machine that is busy
or slow is so for both, and ``x yardstick`` is what a change of the code changes.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch

from partkit.bench._measure import Claim, bar, by_turns, done, fresh, options, progress
from partkit.cluster import COSTS, Cluster
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

RANKS = (8, 16, 32, 64, 128, 256, 512, 1024)
QUICK_RANKS = (4, 8)
LIVE = (2, 4, 8)
IN_FRESH = "from partkit.bench.simulate import row_and_megabytes; import json; print(json.dumps(row_and_megabytes({ranks})))"
REPLAYED = 64
SHAPES = {"recursive_doubling": 1024, "halving_doubling": 1024, "double_tree": 1024}
"""Cost studies without numbers: algorithm and number of ranks."""
QUICK_SHAPES = {"recursive_doubling": 16}


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Measure; see the module's text for the words."""
    chosen = options("simulate", argv, ("--ranks", {"type": int, "nargs": "+", "default": list(RANKS)}))
    ranks, shapes = (QUICK_RANKS, QUICK_SHAPES) if chosen.quick else (sorted(chosen.ranks), SHAPES)
    beside = LIVE[:1] if chosen.quick else LIVE
    steps = Steps([*(f"ring all-reduce of {size} simulated ranks" for size in ranks), *(f"{n} live ranks" for n in beside), "replay", *shapes])
    rows = []
    for size in ranks[:-1]:
        steps.next(size * size)
        rows.append(ring_row(size, 1 if chosen.quick or size > 128 else 3))
    steps.next(ranks[-1] ** 2)
    row, memory = fresh(IN_FRESH.format(ranks=ranks[-1]))
    rows.append(row)
    live = [live_row(size, 3 if chosen.quick else 9, steps) for size in beside]
    steps.next()
    replay = replay_row(8 if chosen.quick else REPLAYED)
    studies = [shapes_row(algorithm, size, steps) for algorithm, size in shapes.items()]
    done()
    return {
        "ring all-reduce": rows,
        "beside live ranks": live,
        "replay": [replay],
        "without numbers": studies,
        "claims": [claim.row() for claim in claims(rows, replay, ranks[-1], memory)],
    }


class Steps:
    """What is to be measured, as a bar that grows.

    Args:
        names: of the measurements.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._done, self._count = names, 0.0, 0

    def next(self, work: float = 50_000.0) -> None:
        """The next one begins; ``work``: how much it is, in events."""
        whole = self._done + work + 50_000.0 * (len(self._names) - self._count - 1)
        progress(f"{bar(self._done / whole)}  {self._names[self._count]}")
        self._done += work
        self._count += 1


def claims(rows: list[dict[str, Any]], replay: dict[str, Any], largest: int, memory: float) -> list[Claim]:
    """What is promised of these numbers."""
    found = [Claim("microseconds an event, the largest run", rows[-1]["us / event"], 1e6 / 350_000, "us")]
    found += [Claim("512 ranks", row["seconds"], 3.0, "s") for row in rows if row["ranks"] == 512]
    growth = rows[-1]["x yardstick"] / min(row["x yardstick"] for row in rows)
    return [
        *found,
        Claim("an event of the largest run costs as much as one of the cheapest run, factor", growth, 2.0, ""),
        Claim(f"replay of {replay['events']} events", replay["seconds"], 1.0, "s"),
        Claim(f"memory of {largest} ranks, torch included", memory, 2000, "MB"),
    ]


def ring(comm: Communicator) -> None:
    """What every rank does."""
    all_reduce(torch.ones(comm.size), comm, algorithm="ring")


def ring_row(size: int, repetitions: int) -> dict[str, Any]:
    """One line of the table: medians, by turns with the yardstick."""
    with SimulatedWorld(size) as world:
        seconds, stick = by_turns(repetitions, lambda: seconds_of(lambda: world.run(ring)), yardstick)
        events = len(world.trace)
        formula = COSTS["all_reduce"]["ring"](size, 4, size, world.cluster.link).seconds
        exact = abs(world.trace.makespan / formula - 1) if formula else 0.0
    each = 1e6 * seconds / events
    return {"ranks": size, "events": events, "seconds": seconds, "us / event": each, "x yardstick": each / stick, "virtual time off by": exact}


def live_row(size: int, repetitions: int, steps: Steps) -> dict[str, Any]:
    """The same run on live and on simulated ranks, by turns."""
    steps.next()
    with World(size) as live, SimulatedWorld(size, Cluster()) as simulated:
        live.run(ring)
        wall, simulating = by_turns(repetitions, lambda: seconds_of(lambda: live.run(ring)), lambda: seconds_of(lambda: simulated.run(ring)))
        virtual = simulated.trace.makespan
    return {"ranks": size, "live: ms of wall time": 1e3 * wall, "simulated: ms to run": 1e3 * simulating, "simulated: ms of virtual time": 1e3 * virtual}


def replay_row(size: int) -> dict[str, Any]:
    """Retiming a run of so many ranks on another cluster."""
    with SimulatedWorld(size) as world:
        world.run(ring)
        seconds = median(seconds_of(lambda: world.trace.replay(Cluster())) for _ in range(3))
        return {"ranks": size, "events": len(world.trace), "seconds": seconds}


def shapes_row(algorithm: str, size: int, steps: Steps) -> dict[str, Any]:
    """A cost study without numbers: shapes move only."""
    steps.next()

    def study(comm: Communicator) -> None:
        all_reduce(torch.ones(comm.size), comm, algorithm=algorithm)

    with SimulatedWorld(size, numbers=False) as world:
        seconds = seconds_of(lambda: world.run(study))
        return {"algorithm": algorithm, "ranks": size, "events": len(world.trace), "seconds": seconds, "virtual ms": 1e3 * world.trace.makespan}


def seconds_of(work: Any) -> float:
    """Wall time of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def yardstick() -> float:
    """Microseconds of a call of an empty function, now, on this machine."""

    def nothing() -> None:
        pass

    start = time.perf_counter()
    for _ in range(1_000_000):
        nothing()
    return time.perf_counter() - start


def row_and_megabytes(size: int) -> tuple[dict[str, Any], float]:
    """One run, and the most memory that this process has held, in 10^6 bytes."""
    row = ring_row(size, 1)
    return row, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
