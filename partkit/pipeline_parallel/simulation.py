"""Run a schedule on paper: from costs and a link to a `Trace` like that of a real run.

    schedule --> table (rows) --> messages (who posts what when) --> times --> Trace
                 `table`          `messages`                         `clockwork`, `waves`

The trace holds a compute event for each action, named as the schedule names it (``2F0``), and for each message that crosses
ranks a send event and a receive event, named after the action that made it, from the moment when that side posts to the moment
when the message is there. A rank stands still for a message (``waited``) from the moment when it comes to the action that needs it.
The clock of the trace is "planned".

The model of time is that of the simulated world; see `partkit.virtual_time`.

Source: one-port alpha-beta model, Chan et al. 2007, "Collective communication: theory, practice, and experience".
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from partkit.cluster import Cluster, Link
from partkit.pipeline_parallel import clockwork, waves
from partkit.pipeline_parallel.action import KINDS
from partkit.pipeline_parallel.clockwork import Floats, Times
from partkit.pipeline_parallel.costs import UNIT, Costs
from partkit.pipeline_parallel.lockstep import rounds
from partkit.pipeline_parallel.messages import Messages, messages
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.table import F, Ints, Table, columns, table
from partkit.pipeline_parallel.validate import InvalidSchedule, violations
from partkit.tracing import KIND_CODE, RECORD, Columns, Trace

FREE = Link(latency=0.0, bandwidth=inf)
"""A link on which messages take no time."""


def simulate(schedule: Schedule, costs: Costs = UNIT, link: Link | Cluster = FREE) -> Trace:
    """When everything happens, if actions and messages take what ``costs`` and ``link`` say.

    Args:
        schedule: with or without messages written out; without, they are placed as `passes.add_communication` does. It need not be
            complete: one that is still being built is played as far as it goes.
        costs: of actions and messages.
        link: between any two ranks; or a cluster, whose links may differ, whose ranks may be late, slow, or die. Its devices do not
            matter: costs are stated in seconds.

    Returns:
        A finished trace of as many ranks as the schedule has; what never happens, since a rank dies before, is not in it.

    Raises:
        InvalidSchedule: the schedule can't run; the error holds every reason.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> simulate(one_f_one_b(4, 8)).makespan  # (m + p - 1)(F + B)
        33.0
        >>> simulate(one_f_one_b(4, 8), Costs(activation_bytes=10), Link(latency=0.0, bandwidth=100.0))
        Trace(4 ranks, 160 events, 48 messages, 480 bytes sent)
    """
    every = columns(schedule)
    t = table(schedule, every)
    when = rounds(t)
    if (when < 0).any():
        raise InvalidSchedule(violations(schedule))
    x = messages(schedule, t, every, when)
    nbytes = message_bytes(t, x, costs, schedule.num_stages)
    busy, cluster = seconds(t, costs, schedule.num_stages), link if isinstance(link, Cluster) else Cluster(link=link)
    times = None
    if cluster.topology is None and not cluster.conditions:
        times = waves.run(t, x, when, busy, cluster.link.latency + nbytes / cluster.link.bandwidth)
    return trace(t, x, times or clockwork.run(t, x, busy, nbytes, cluster.network(schedule.num_ranks)), nbytes)


def seconds(t: Table, costs: Costs, num_stages: int) -> Floats:
    """(n,): how long each action takes."""
    per_kind = np.array([costs.per_stage(kind, num_stages) for kind in KINDS])
    found: Floats = per_kind[t.kind, t.stage % num_stages]
    return found


def message_bytes(t: Table, x: Messages, costs: Costs, num_stages: int) -> Ints:
    """(k,): the size of each message."""
    forward, backward = (np.array(costs.message_bytes(kind, num_stages)) for kind in ("F", "B"))
    place = t.stage[x.made_by] % num_stages
    return np.where(t.kind[x.made_by] == F, forward[place], backward[place]).astype(np.int64)


def trace(t: Table, x: Messages, times: Times, nbytes: Ints) -> Trace:
    """What a run with these times would have left behind."""
    n, k = len(t.rank), len(x.src)
    rows = np.zeros(n + 2 * k, dtype=RECORD)
    strings, tags = _names(t)
    made = tags[x.made_by]
    came = np.where(x.used_by > t.first[x.dst], times.end[x.used_by - 1], 0.0)  # when the receiver came to the action that needs it
    waited = np.minimum(np.maximum(came, times.received), times.arrived)
    _fill(rows[:n], "compute", {"rank": t.rank, "start": times.start, "end": times.end, "waited": times.start, "peer": np.full(n, -1), "tag": tags})
    message = {"end": times.arrived, "nbytes": nbytes, "tag": made}
    _fill(rows[n : n + k], "send", {"rank": x.src, "peer": x.dst, "start": times.sent, "waited": times.sent, **message})
    _fill(rows[n + k :], "recv", {"rank": x.dst, "peer": x.src, "start": times.received, "waited": waited, **message})
    rows = rows if np.isfinite(times.arrived).all() and np.isfinite(times.end).all() else rows[np.isfinite(rows["end"])]
    return Trace.from_columns(rows, strings, size=len(t.first) - 1, clock="planned")


def _fill(rows: Columns, kind: str, values: Mapping[str, npt.NDArray[Any]], chunk: int = 1 << 14) -> None:
    """Write columns of events, a chunk of rows at a time: all columns of a chunk while it is in the cache."""
    rows["kind"] = KIND_CODE[kind]
    for begin in range(0, len(rows), chunk):
        for name, column in values.items():
            rows[name][begin : begin + chunk] = column[begin : begin + chunk]


def _names(t: Table) -> tuple[list[str], Ints]:
    """The table of strings, and by row the number of its name in it: every stage, kind and micro-batch has its own."""
    stages, microbatches = int(t.stage.max(initial=0)) + 1, int(t.microbatch.max(initial=0)) + 1
    used = [code for code in range(len(KINDS)) if (t.kind == code).any()]
    numbers = [str(i) for i in range(microbatches)]
    starts = [f"{stage}{KINDS[code]}" for stage in range(stages) for code in used]
    strings = ["", *chain.from_iterable(map(start.__add__, numbers) for start in starts)]
    number = np.zeros(len(KINDS), dtype=np.int64)
    number[used] = np.arange(len(used))
    return strings, 1 + (t.stage * len(used) + number[t.kind]) * microbatches + t.microbatch
