"""Lockstep: the schedule played in rounds, all actions alike. What runs in which round, and what never runs.

In each round every rank whose next action has what it needs (from rounds before) does that action; the others wait.

    round     0    1    2    3    4    5           rank 0: 0F0 0F1 0B0 0B1
    rank 0   0F0  0F1   .   0B0  .   0B1           rank 1: 1F0 1B0 1F1 1B1
    rank 1    .   1F0  1B0  1F1 1B1   .

Rounds are an order that every rank can agree on without a clock. So they decide where messages are placed
(`partkit.pipeline_parallel.messages`), and what is left over when no rank can move is a deadlock.
"""

from __future__ import annotations

import numpy as np

from partkit.pipeline_parallel.table import ABSENT, NONE, Ints, Table


def rounds(t: Table) -> Ints:
    """By row: the round in which it runs, or -1 if it never does.

    Each round is a few operations on one number a rank, so that wide pipelines cost little more than narrow ones.

    Example:
        >>> from partkit.pipeline_parallel.schedule import Schedule
        >>> from partkit.pipeline_parallel.table import table
        >>> rounds(table(Schedule.parse("rank 0: 0F0 0F1 0B0 0B1\\nrank 1: 1F0 1B0 1F1 1B1"))).tolist()
        [0, 1, 3, 5, 1, 2, 3, 4]
    """
    n = len(t.rank)
    found = np.full(n + 2, n + 1)  # the two more: what is needed by nobody (NONE, always there) and what is ABSENT (never)
    found[NONE], found[ABSENT] = -1, n + 1
    position, end = t.first[:-1].copy(), t.first[1:]
    active = np.flatnonzero(position < end)
    for now in range(n):
        rows = position[active]
        ready = (found[t.made[rows]] < now) & (found[t.needs[rows]] < now)
        if not ready.any():
            break
        found[rows[ready]] = now
        moved = active[ready]
        position[moved] += 1
        if (position[moved] == end[moved]).any():
            active = active[position[active] < end[active]]
            if not len(active):
                break
    found = found[:n]
    return np.where(found <= n, found, -1)
