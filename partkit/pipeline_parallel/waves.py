"""Exact times of a schedule, a whole round of actions at a time: for wide pipelines.

In the order of lockstep rounds (`partkit.pipeline_parallel.lockstep`) everything that an action waits for has been worked out
before it, so a round is a few operations of numpy on all ranks that act in it:

    ready   = max(end of the row behind which it is sent, end of the row behind which it is received)
    arrived = ready + bytes / bandwidth + latency
    start   = max(end of the row before it, arrived)
    end     = start + seconds

That is exact as long as no message has to wait for a port. Whether one would have had to is looked up afterwards: two messages
that share a port and overlap. Then the answer is None, and `partkit.pipeline_parallel.clockwork` takes its time.

Cost: a round is seven calls of numpy, and there are about 2 (m + p) of them; no Python for single actions.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from partkit.pipeline_parallel.clockwork import Floats, Times
from partkit.pipeline_parallel.messages import Messages
from partkit.pipeline_parallel.table import NONE, Ints, Table


def run(t: Table, x: Messages, when: Ints, seconds: Floats, way: Floats) -> Times | None:
    """The time of every action and message; None if that takes more than rounds to tell.

    Args:
        t: the actions.
        x: the messages.
        when: (n,), the lockstep round of each action.
        seconds: (n,), how long each action takes.
        way: (k,), how long each message takes once it has its ports.
    """
    if (when[x.sent_after] >= when[x.used_by]).any():  # sent later than in lockstep: rounds are no order for these lists
        return None
    start, end = _walk(t, x, when, seconds, way)
    sent, received = end[x.sent_after], end[x.received_after]
    ready = np.maximum(sent, received)
    arrived = ready + way
    return None if _wait_for_ports(x, ready, arrived) else Times(start, end[:-1], sent, received, arrived)


def _walk(t: Table, x: Messages, when: Ints, seconds: Floats, way: Floats) -> tuple[Floats, Floats]:
    """(n,) starts and (n + 1,) ends; the last end is 0, so that NONE is the beginning."""
    n = len(t.rank)
    before = np.arange(-1, n - 1)
    before[t.first[:-1][t.first[:-1] < n]] = NONE
    sent, received, travels = np.full(n, NONE), np.full(n, NONE), np.zeros(n)
    sent[x.used_by], received[x.used_by], travels[x.used_by] = x.sent_after, x.received_after, way
    order = np.argsort(when, kind="stable")
    edges = np.searchsorted(when[order], np.arange(int(when.max(initial=-1)) + 2)).tolist()
    before, sent, received, travels, lasts = before[order], sent[order], received[order], travels[order], seconds[order]
    started, end = np.zeros(n), np.zeros(n + 1)
    for begin, stop in pairwise(edges):
        arrived = np.maximum(end[sent[begin:stop]], end[received[begin:stop]])
        arrived += travels[begin:stop]
        started[begin:stop] = start = np.maximum(end[before[begin:stop]], arrived)
        end[order[begin:stop]] = start + lasts[begin:stop]
    starts = np.empty(n)
    starts[order] = started
    return starts, end


def _wait_for_ports(x: Messages, ready: Floats, arrived: Floats) -> bool:
    """Whether two messages of one sender, or of one receiver, overlap."""
    if not (arrived > ready).any():
        return False
    for port in (x.src, x.dst):
        order = np.lexsort((ready, port))
        same = port[order[1:]] == port[order[:-1]]
        if (same & (ready[order[1:]] < arrived[order[:-1]])).any():
            return True
    return False
