"""When a rank can know that what it sent has arrived, without asking: from what comes back. Pure.

    rank 0:  0F0 0SEND_F0 ...            ... 0B0        the gradient of micro-batch 0 has come, so its activation went
    rank 1:      1RECV_F0 1F0 1B0 1SEND_B0

A message is held in memory until somebody waits for its send. Waiting at once would stop the rank; waiting at the end of the step
would keep every activation until then. So each send is waited for at the first action that has received something which the other
side sent after it had used the message: that wait ends at once. Where nothing comes back (forward only), it is the end of the step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

from partkit.pipeline_parallel.action import MESSAGES, Action, flat
from partkit.pipeline_parallel.rules import needs, receiver, sender
from partkit.pipeline_parallel.schedule import Schedule


class _Sent(NamedTuple):
    """A message from one rank to another."""

    send: Action
    at: int
    """Place of the SEND in the sender's list."""
    used: int
    """Place of the action that needs it in the receiver's list."""


def receipts(schedule: Schedule, rank: int) -> dict[Action, tuple[Action, ...]]:
    """For actions of ``rank``, the SENDs of ``rank`` that have arrived once what the action needs is there.

    Args:
        schedule: with messages written out.
        rank: whose sends.

    Example:
        >>> from partkit.pipeline_parallel import add_communication, one_f_one_b
        >>> receipts(add_communication(one_f_one_b(2, 3)), 0)
        {0B0: (0SEND_F0,), 0B1: (0SEND_F1,), 0B2: (0SEND_F2,)}
        >>> receipts(add_communication(one_f_one_b(2, 3)), 1)
        {1F2: (1SEND_B0,)}
    """
    channels = _channels(schedule)
    found: dict[Action, list[Action]] = defaultdict(list)
    line = flat(schedule.ranks[rank])
    for (src, dst), sent in channels.items():
        if src != rank:
            continue
        back = sorted(channels.get((dst, src), []), key=lambda message: message.at)
        first_use = [message.used for message in back]
        for place in reversed(range(len(first_use) - 1)):
            first_use[place] = min(first_use[place], first_use[place + 1])  # among all that are sent from here on
        for message in sent:
            answer = bisect_right([other.at for other in back], message.used)
            if answer < len(back):
                found[line[first_use[answer]]].append(message.send)
    return {action: tuple(sends) for action, sends in found.items()}


def _channels(schedule: Schedule) -> dict[tuple[int, int], list[_Sent]]:
    """All messages, by rank of the sender and of the receiver, in the order in which they are sent."""
    used: dict[Action, int] = {}
    for line in schedule.ranks:
        for place, action in enumerate(flat(line)):
            for need in needs(action, schedule.num_stages, schedule.placement) if action.kind not in MESSAGES else ():
                if need.kind in MESSAGES:
                    used[sender(need)] = place
    channels: dict[tuple[int, int], list[_Sent]] = defaultdict(list)
    for rank, line in enumerate(schedule.ranks):
        for place, action in enumerate(flat(line)):
            if action in used:
                channels[rank, schedule.placement[receiver(action).stage]].append(_Sent(action, place, used[action]))
    return dict(channels)
