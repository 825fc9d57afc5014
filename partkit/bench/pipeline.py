"""Pipelines: how fast a schedule is simulated on paper, and how long a step takes beside torch's (`partkit.bench.pipeline_steps`).

computations  forwards, backwards, steps
actions       everything in the lists of the ranks: computations, sends, receives
million/s     actions over seconds of this process on a core, from the schedule to the finished trace; the best of some runs
of these computations     the same for computations alone
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from partkit.bench._measure import Claim, done, options, progress
from partkit.bench.pipeline_steps import QUICK_SIZES as QUICK_STEPS
from partkit.bench.pipeline_steps import SCHEDULES, keep_to_cores
from partkit.bench.pipeline_steps import SIZES as STEPS
from partkit.bench.pipeline_steps import row as step_row
from partkit.cluster import Link
from partkit.pipeline_parallel import Costs, Schedule, make, simulate
from partkit.worlds.world import World

COSTS = Costs(activation_bytes=1000)
LINK = Link(latency=0.01, bandwidth=1e5)
WIDE = ("one_f_one_b", 512, 1024)
SIZES: tuple[tuple[str, int, int], ...] = (WIDE, ("gpipe", 512, 1024), ("forward_only", 512, 1024), ("one_f_one_b", 64, 4096), ("zb_h1", 8, 256))
QUICK_SIZES: tuple[tuple[str, int, int], ...] = (("one_f_one_b", 32, 64), ("zb_h1", 4, 8))


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Measure; see the module's text for the words."""
    chosen = options("pipeline", argv, ("--ranks", {"type": int, "nargs": "+", "default": [2, 4]}))
    rows = [simulated(*size, repetitions=1 if chosen.quick else 5) for size in (QUICK_SIZES if chosen.quick else SIZES)]
    steps = [row for ranks in ([2] if chosen.quick else chosen.ranks) for row in steps_on(ranks, quick=chosen.quick)]
    done()
    wide = rows[0]
    claims = [Claim(f"a million actions of {wide['schedule']}, {wide['ranks']} x {wide['micro-batches']}", 1 / wide["million/s"], 1.0, "s")]
    for row in steps:
        limit = 0.9 if row["size"] == "small" else 1.0
        claims.append(Claim(f"a step of {row['schedule']}, {row['size']}, {row['ranks']} ranks, against torch's", row["partkit / torch"], limit, "x"))
    return {"simulate": rows, "steps": steps, "claims": [claim.row() for claim in claims]}


def steps_on(ranks: int, *, quick: bool) -> list[dict[str, Any]]:
    """The lines of the table of steps for so many live ranks."""
    with World(ranks, trace=False) as world:
        world.run(keep_to_cores)
        found = []
        for name in SCHEDULES:
            for size in QUICK_STEPS if quick else STEPS:
                progress(f"a step of {name}, {size.name}, on {ranks} ranks, {size.repetitions} times")
                found.append(step_row(world, name, size))
        return found


def simulated(name: str, ranks: int, microbatches: int, repetitions: int) -> dict[str, Any]:
    """One line of the table."""
    progress(f"simulating {name} on {ranks} ranks with {microbatches} micro-batches, {repetitions} times")
    schedule = make(name, ranks, microbatches)
    seconds = min(seconds_to_simulate(schedule) for _ in range(repetitions))
    computed = sum(map(len, schedule.ranks))
    actions = len(simulate(schedule, COSTS, LINK))  # each of them leaves an event
    sizes = {"schedule": schedule.name, "ranks": ranks, "micro-batches": microbatches}
    return {
        **sizes,
        "computations": computed,
        "actions": actions,
        "seconds": seconds,
        "million/s": actions / seconds / 1e6,
        "of these computations": computed / seconds / 1e6,
    }


def seconds_to_simulate(schedule: Schedule) -> float:
    """Time of this process, so that others on the machine do not count."""
    start = time.process_time()
    simulate(schedule, COSTS, LINK)
    return time.process_time() - start
