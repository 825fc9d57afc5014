"""Exact times of a schedule, by the engine that keeps the time of the simulated world (`partkit.virtual_time`).

The table and its messages become what the engine reads, a list for each rank. For rank 1 of one_f_one_b(2, 2):

    1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 ...        post a; wait for a; 1.0; post b; 2.0; post c; wait for b; 1.0; ...

A RECV is posted where it stands and waited for by the action that needs it; a SEND is posted and not waited for. Posting takes no
time. That is how the schedule is executed, so the times are those of executing it on simulated ranks, to the last bit.

Cost: some microseconds an action. `partkit.pipeline_parallel.waves` is faster for wide pipelines, and must agree with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.pipeline_parallel.messages import Messages
from partkit.pipeline_parallel.table import NONE, Ints, Table
from partkit.virtual_time import Engine, Entry, Network, Side
from partkit.virtual_time.program import meet

Floats = npt.NDArray[np.float64]


class Times(NamedTuple):
    """When things happen: (n,) for the rows of a table, (k,) for its messages."""

    start: Floats
    end: Floats
    sent: Floats
    """When the sender posts."""
    received: Floats
    """When the receiver posts."""
    arrived: Floats
    """When the message is there."""

    # What never happens, since a rank dies before, is infinite.


def run(t: Table, x: Messages, seconds: Floats, nbytes: Ints, network: Network) -> Times:
    """The time of every action and message.

    Args:
        t: the actions.
        x: the messages.
        seconds: (n,), how long each action takes.
        nbytes: (k,), the size of each message.
        network: how long messages take on their way.
    """
    n, num_ranks = len(t.rank), len(t.first) - 1
    sends = [Side(src, dst, size, is_send=True) for src, dst, size in zip(x.src.tolist(), x.dst.tolist(), nbytes.tolist(), strict=True)]
    recvs = [Side(send.peer, send.rank, send.nbytes, is_send=False) for send in sends]
    for send, recv in zip(sends, recvs, strict=True):
        meet(send, recv)
    engine = Engine(num_ranks, network)
    entered = _fill(engine.lists, t, x, seconds, [*sends, *recvs])
    engine.run()
    place = np.array(entered, dtype=np.int64)
    start, end = np.empty(n), np.empty(n)
    for rank, (moments, entries) in enumerate(zip(engine.times, engine.lists, strict=True)):
        rows = slice(t.first[rank], t.first[rank + 1])
        known = np.array(moments + [np.inf] * (len(entries) + 1 - len(moments)))
        start[rows], end[rows] = known[place[rows]], known[place[rows] + 1]
    sent, received = (np.array([side.posted if side.posted >= 0 else np.inf for side in sides]) for sides in (sends, recvs))
    return Times(start, end, sent, received, np.array([side.end for side in sends]))


def _fill(lists: list[list[Entry]], t: Table, x: Messages, seconds: Floats, sides: list[Side]) -> list[int]:
    """Write the ranks' lists; by row, the place of its duration in them."""
    k, first, duration = len(x.src), t.first.tolist(), seconds.tolist()
    awaited = np.full(len(t.rank), NONE)
    awaited[x.used_by] = k + np.arange(k)
    waits = awaited.tolist()
    before, after = posts(x, len(t.rank), len(lists))
    entered: list[int] = []
    for rank, entries in enumerate(lists):
        entries.extend(sides[post] for post in before[rank])
        for row in range(first[rank], first[rank + 1]):
            if waits[row] != NONE:
                entries.append(sides[waits[row]])
            entered.append(len(entries))
            entries.append(duration[row])
            entries.extend(sides[post] for post in after[row])
    return entered


def posts(x: Messages, n: int, num_ranks: int) -> tuple[list[list[int]], list[Sequence[int]]]:
    """What is posted before each rank's first action, by rank, and behind each action, by row. Message i of k is i where it is sent
    and k + i where it is received."""
    after = np.concatenate([x.sent_after, x.received_after])
    place = np.concatenate([x.send_place, x.receive_place])
    rank = np.concatenate([x.src, x.dst])
    order = np.lexsort((place, after))
    split = int(np.searchsorted(after[order], 0))
    before: list[list[int]] = [[] for _ in range(num_ranks)]
    for post in order[:split].tolist():
        before[rank[post]].append(post)
    edges = np.searchsorted(after[order], np.arange(n + 1)).tolist()
    numbers = order.tolist()
    return before, [numbers[edges[row] : edges[row + 1]] for row in range(n)]
