"""The messages of a schedule: who sends to whom, when each side posts its half, and which action waits for it.

A SEND follows the action that makes its tensor at once. For a RECV there is a choice, and the sender makes it: when it sends,
the receive is placed two actions before the place to which the receiver has come by then, in lockstep rounds
(`partkit.pipeline_parallel.lockstep`).

    round      0      1      2      3          rank 0: 0RECV_B0 0F0 0SEND_F0 0F1 0SEND_F1 0B0 ...
    rank 0    0F0    0F1     .     0B0         rank 1: 1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 ...
    rank 1     .     1F0    1B0    1F1

Both sides of a channel then see the same messages in the same order, whatever the schedule: in one round a rank sends at
most one message to another rank. A wire without tags (NCCL) asks for no more; and a receive is never posted after the
action that needs it, so nothing can hang.

Why one action earlier: a message starts when both sides have posted it. Posted behind the action that the receiver is busy with, it
would not start before that ends, and the rank would wait for it; posted before that action, it travels meanwhile. In the model any
earlier gains nothing (8 ranks, 32 micro-batches, messages of half a forward: GPipe takes 155 units with none in advance, 124 with
one or more; ZB-H1 128.5 and 117).

Why a second one: a wire has a rendezvous. If the sender comes first it has to announce the message, and the receiver has to answer; if
the receiver has posted, the message goes at once. Real ranks are not in step, so one action in advance is often too late. In a step of
small stages on live ranks (medians, torch 2.13, two cores) 1F1B took 1.07 times what torch's schedule takes with one in advance and
0.93 with two on 4 ranks, 0.88 and 0.81 on 2; GPipe 0.85 and 0.81, 0.90 and 0.77. More gain little, and keep more buffers waiting.

In a schedule that is lowered already, places are read off its lists.

Source: that the sender places the receive is the idea of torch.distributed.pipelining; it goes through the ranks one by one
where we go in rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.table import NONE, RECV_B, RECV_F, SEND_B, SEND_F, STEP, B, Columns, F, I, Ints, Table, W, one_of


class Messages(NamedTuple):
    """k messages. "After" are rows of the table; NONE for what is posted before the rank's first action."""

    src: Ints
    dst: Ints
    made_by: Ints
    """Row whose result is sent."""
    used_by: Ints
    """Row that waits for it."""
    sent_after: Ints
    """Row after which the sender posts it."""
    received_after: Ints
    """Row after which the receiver posts it."""
    send_place: Ints
    """Order among all messages that the sender posts."""
    receive_place: Ints
    """Order among all messages that the receiver posts."""


def messages(schedule: Schedule, t: Table, every: Columns, when: Ints) -> Messages:
    """The messages of ``schedule``: as its lists say if it is lowered, else where lockstep rounds put them.

    Args:
        schedule: complete and free of deadlock.
        t: its timed actions.
        every: all its actions.
        when: (n,), the lockstep round of each timed action.
    """
    return _written_out(t, every, schedule) if schedule.lowered else _in_lockstep(t, when)


def crossing(t: Table) -> Ints:
    """Rows that wait for another rank."""
    return np.flatnonzero((t.needs >= 0) & (t.rank[t.needs] != t.rank))


def _in_lockstep(t: Table, when: Ints) -> Messages:
    used_by = crossing(t)
    made_by = t.needs[used_by]
    src, dst = t.rank[made_by], t.rank[used_by]
    # Rows of a rank have rising rounds, and ranks follow each other: (rank, round) as one number rises all along.
    scale = int(when.max(initial=0)) + 2
    after = np.searchsorted(t.rank * scale + when, dst * scale + when[made_by], side="right") - 1
    after = np.where(after > t.first[dst] + 1, after - 2, NONE)  # two actions in advance
    # Behind an action stands first what it sends, then what it receives until the next: by round, and by rank of the sender.
    return Messages(src, dst, made_by, used_by, made_by, after, np.zeros_like(src), 1 + when[made_by] * len(t.first) + src)


def _written_out(t: Table, every: Columns, schedule: Schedule) -> Messages:
    """The SENDs and RECVs in the lists, put together by stage, direction and micro-batch.

    Raises:
        ValueError: a message lacks one of its sides.
    """
    row = np.cumsum(one_of(every.kind, F, B, I, W, STEP)) - 1  # of the last timed action so far
    row = np.where(row >= t.first[every.rank], row, NONE)
    used_by = crossing(t)
    made_by, forward = t.needs[used_by], t.kind[used_by] == F
    places = []
    for side, of in (((SEND_F, SEND_B), made_by), ((RECV_F, RECV_B), used_by)):
        index = np.full((2, len(schedule.placement), int(every.microbatch.max(initial=0)) + 1), NONE)
        for direction, kind in enumerate(side):
            chosen = np.flatnonzero(every.kind == kind)
            index[direction, every.stage[chosen], every.microbatch[chosen]] = chosen
        places.append(index[np.where(forward, 0, 1), t.stage[of], t.microbatch[of]])
    send, recv = places
    if (send == NONE).any() or (recv == NONE).any():
        raise ValueError("a lowered schedule writes out both sides of every message; violations(schedule) says which are missing")
    return Messages(t.rank[made_by], t.rank[used_by], made_by, used_by, row[send], row[recv], send, recv)
