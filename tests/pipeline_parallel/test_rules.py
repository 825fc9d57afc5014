"""The one statement of order, typed out; and that the arrays of `table` say the same, action by action."""

from __future__ import annotations

import pytest

from partkit.pipeline_parallel.action import Action, actions
from partkit.pipeline_parallel.rules import gives, message, needs, receiver, sender
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.table import table
from tests.pipeline_parallel.sizes import some_of_each


@pytest.mark.parametrize(
    ("action", "needed"),
    [
        ("0F3", ""),
        ("2F3", "1F3"),
        ("3I3", "3F3"),
        ("3B3", "3F3"),
        ("0I3", "0F3 1I3"),
        ("1B3", "1F3 2I3"),
        ("1W3", "1I3"),
        ("1STEP3", "1W3"),
        ("1SEND_F3", "1F3"),
        ("1SEND_B3", "1I3"),
        ("1RECV_F3", ""),
        ("4F3", ""),  # the first stage of the second replica
        ("7B3", "7F3"),
        ("6B3", "6F3 7I3"),
    ],
)
def test_needs_of_four_stages(action: str, needed: str) -> None:
    assert needs(Action.parse(action), 4) == actions(needed)


@pytest.mark.parametrize(("action", "needed"), [("1F0", "1RECV_F0"), ("2F0", "1F0"), ("1B0", "1F0 2I0"), ("0B0", "0F0 0RECV_B0"), ("3F0", "3RECV_F0")])
def test_what_crosses_ranks_arrives_as_a_message(action: str, needed: str) -> None:
    assert needs(Action.parse(action), 4, placement=[0, 1, 1, 0]) == actions(needed)


def test_a_whole_backward_gives_both_gradients() -> None:
    assert gives(Action.parse("1B2")) == actions("1I2 1W2")
    assert gives(Action.parse("1I2")) == actions("1I2")


@pytest.mark.parametrize(
    ("made", "sent"), [("0F1", "0SEND_F1"), ("1F1", None), ("3F1", None), ("3B1", "3SEND_B1"), ("2I1", None), ("0I1", None), ("1W1", None)]
)
def test_only_what_crosses_ranks_is_sent(made: str, sent: str | None) -> None:
    assert message(Action.parse(made), 4, [0, 1, 1, 0]) == (Action.parse(sent) if sent else None)


@pytest.mark.parametrize(("send", "recv"), [("1SEND_F0", "2RECV_F0"), ("2SEND_B0", "1RECV_B0")])
def test_a_send_meets_its_receive(send: str, recv: str) -> None:
    assert receiver(Action.parse(send)) == Action.parse(recv) and sender(Action.parse(recv)) == Action.parse(send)


@pytest.mark.parametrize("schedule", some_of_each(), ids=lambda schedule: schedule.name)
def test_the_table_follows_the_rules(schedule: Schedule) -> None:
    t = table(schedule)
    maker = {made: row for row in range(len(t.rank)) for made in gives(t.action(row))}
    for row in range(len(t.rank)):
        found = sorted(int(other) for other in (t.made[row], t.needs[row]) if other >= 0)
        assert found == sorted(maker[need] for need in needs(t.action(row), schedule.num_stages)), t.action(row)
