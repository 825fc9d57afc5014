"""A send is waited for only where its message has surely arrived: on every schedule."""

from __future__ import annotations

import pytest

from partkit.pipeline_parallel import SCHEDULES, Schedule, add_communication, make
from partkit.pipeline_parallel.action import MESSAGES, Action, flat
from partkit.pipeline_parallel.execution.receipts import receipts
from partkit.pipeline_parallel.rules import gives, needs, sender


def known_before(schedule: Schedule) -> dict[Action, frozenset[Action]]:
    """For each action, all that must have been done when what it needs is there: followed back along lists and needs."""
    known: dict[Action, frozenset[Action]] = {}
    lists = [flat(line) for line in schedule.ranks]
    place = [0] * len(lists)
    maker = {made: action for line in lists for action in line for made in gives(action)}
    while any(at < len(line) for at, line in zip(place, lists, strict=True)):
        for rank, line in enumerate(lists):
            while place[rank] < len(line):
                action = line[place[rank]]
                before = set() if place[rank] == 0 else known[line[place[rank] - 1]] | {line[place[rank] - 1]}
                wanted = [sender(need) if need.kind in MESSAGES else maker[need] for need in needs(action, schedule.num_stages, schedule.placement)]
                if any(need not in known for need in wanted):
                    break
                for need in wanted:
                    before |= known[need] | {need}
                known[action] = frozenset(before)
                place[rank] += 1
    return known


@pytest.mark.parametrize("name", SCHEDULES)
def test_whoever_is_waited_for_has_used_the_message(name: str) -> None:
    schedule = add_communication(make(name, 4, 8))
    known = known_before(schedule)
    user = {
        sender(need): action
        for line in schedule.ranks
        for action in flat(line)
        if action.kind not in MESSAGES
        for need in needs(action, schedule.num_stages, schedule.placement)
        if need.kind in MESSAGES
    }
    for rank in range(schedule.num_ranks):
        waited = receipts(schedule, rank)
        for action, sends in waited.items():
            assert all(user[send] in known[action] and send in known[action] for send in sends)
        own = [action for action in flat(schedule.ranks[rank]) if action.kind in ("SEND_F", "SEND_B")]
        found = [send for sends in waited.values() for send in sends]
        assert len(found) == len(set(found)) and set(found) <= set(own)
        if name != "forward_only":
            assert {send for send in own if send.kind == "SEND_F"} <= set(found), "every activation's gradient comes back"
