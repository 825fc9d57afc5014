"""Every violation by its code and its words; and that nothing is said about schedules that can run."""

from __future__ import annotations

import pickle
import random

import pytest

from partkit.pipeline_parallel import SCHEDULES, InvalidSchedule, add_blocking_calls, add_communication, gpipe, make, one_f_one_b, simulate, violations
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from tests.pipeline_parallel.sizes import all_sizes, some_of_each


def found(text: str, **known: int) -> list[tuple[str, int, str]]:
    """Code, rank and action of each violation."""
    return [(v.code, v.rank, str(v.action)) for v in violations(Schedule.parse(text, **known))]


@pytest.mark.parametrize("name", SCHEDULES)
def test_nothing_is_wrong_with_the_schedules_of_the_literature(name: str) -> None:
    for schedule in all_sizes(name, ranks=4, microbatches=5):
        assert violations(schedule) == [] and violations(add_communication(schedule)) == [], schedule


def test_missing() -> None:
    assert found("rank 0: 0F0 0B0 0F1\nrank 1: 1F0 1B0 1F1 1B1") == [("missing", 0, "0B1")]
    assert found("rank 0: 0F0 0I0", num_microbatches=1) == [("missing", 0, "0W0")]
    assert "nobody runs the gradient of the weights of stage 0 on micro-batch 0" in violations(Schedule.parse("rank 0: 0F0 0I0"))[0].reason


def test_a_schedule_without_backwards_misses_none() -> None:
    assert found("rank 0: 0F0 0F1") == []


def test_missing_messages() -> None:
    lowered = add_communication(one_f_one_b(2, 1))
    for gone in ("0SEND_F0", "1RECV_F0", "1SEND_B0", "0RECV_B0"):
        without = lowered.with_ranks([action for action in line if str(action) != gone] for line in lowered.ranks)
        assert ("missing", gone) in [(v.code, str(v.action)) for v in violations(without)]


def test_twice() -> None:
    assert found("rank 0: 0F0 0F0 0B0") == [("twice", 0, "0F0")]
    assert found("rank 0: 0F0 0B0 0W0") == [("twice", 0, "0W0")]
    assert "by 0B0 on rank 0 (place 1) and 0W0 on rank 0 (place 2)" in violations(Schedule.parse("rank 0: 0F0 0B0 0W0"))[0].reason


def test_wrong_rank() -> None:
    assert ("wrong-rank", 1, "0B0") in found("rank 0: 0F0\nrank 1: 1F0 1B0 0B0")


def test_unknown() -> None:
    assert found("rank 0: 0F0 0B0 0F1 0B1", num_microbatches=1) == [("unknown", 0, "0F1"), ("unknown", 0, "0B1")]
    stranger = Schedule.parse("rank 0: 0F0 0B0 4F0", placement=(0,), num_microbatches=1)
    assert "there is no stage 4; the last is 0" in violations(stranger)[0].reason
    crossed = make("chimera", 2, 2).with_ranks([[Action(0, "F", 1)], []])
    assert "stage 0 belongs to replica 0, micro-batch 1 to replica 1" in violations(crossed)[0].reason


def test_too_early() -> None:
    assert found("rank 0: 0B0 0F0") == [("too-early", 0, "0B0")]
    assert found("rank 0: 0F0 0W0 0I0") == [("too-early", 0, "0W0")]
    assert found("rank 0: 0F0 0F1 0B0 0REDUCE_GRAD 0B1") == [("too-early", 0, "0REDUCE_GRAD")]
    late = "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0\nrank 1: 1F0 1RECV_F0 1B0 1SEND_B0"
    assert found(late) == [("too-early", 1, "1F0")]


def test_deadlock_names_the_circle() -> None:
    [violation] = violations(Schedule.parse("rank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1F1 1B0 1B1"))
    assert violation.code == "deadlock"
    assert violation.reason == (
        "rank 0 stands before 0B0, which needs 1I0 from rank 1; rank 1 stands before 1F1, which needs 0F1 from rank 0: none of them can move"
    )


def test_a_rank_that_waits_for_the_circle_is_not_in_it() -> None:
    text = "rank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1F1 1B0 1B1\nrank 2: 2F0 2B0 2F1 2B1"
    assert found(text) == [("deadlock", 0, "0B0")]


def test_case_h11_blocking_sends_deadlock_1f1b_and_not_gpipe() -> None:
    """Both neighbours send and neither receives; the same lists run where sends do not block."""
    lowered = add_blocking_calls(one_f_one_b(2, 4))
    assert violations(lowered) == []
    [violation] = violations(lowered, blocking=True)
    assert violation.code == "deadlock" and "rank 0 blocks in 0SEND_F1 until rank 1 comes to 1RECV_F1" in violation.reason
    assert "rank 1 blocks in 1SEND_B0 until rank 0 comes to 0RECV_B0" in violation.reason
    assert violations(add_blocking_calls(gpipe(2, 4)), blocking=True) == []


def test_channel_order() -> None:
    text = "rank 0: 0F0 0F1 0SEND_F1 0SEND_F0\nrank 1: 1RECV_F0 1RECV_F1 1F0 1F1"
    [violation] = violations(Schedule.parse(text))
    assert violation.code == "channel-order" and "message 0 from rank 0 to rank 1 is sent as 0SEND_F1, but received as 1RECV_F0" in violation.reason


def test_over_memory() -> None:
    assert violations(one_f_one_b(4, 8), memory_cap=4) == []
    assert [(v.code, v.rank, str(v.action)) for v in violations(one_f_one_b(4, 8), memory_cap=2)] == [("over-memory", 0, "0F2"), ("over-memory", 1, "1F2")]
    assert "after 0F2 rank 0 keeps 3, and may keep 2" in violations(one_f_one_b(4, 8), memory_cap=2)[0].reason


@pytest.mark.parametrize("schedule", some_of_each(), ids=lambda schedule: schedule.name)
def test_every_single_damage_is_noticed(schedule: Schedule) -> None:
    """Take an action away, repeat one, move one to another rank: each is named, and at that action."""
    draw = random.Random(1)
    for _ in range(10):
        rank = draw.randrange(schedule.num_ranks)
        place = draw.randrange(len(schedule.ranks[rank]))
        action = schedule.ranks[rank][place]
        if action.kind == "STEP":
            continue
        line = list(schedule.ranks[rank])
        other = (rank + 1) % schedule.num_ranks
        for code, changed in {
            "missing": {rank: line[:place] + line[place + 1 :]},
            "twice": {rank: line[: place + 1] + line[place:]},
            "wrong-rank": {rank: line[:place] + line[place + 1 :], other: [*schedule.ranks[other], action]},
        }.items():
            damaged = schedule.with_ranks(changed.get(r, schedule.ranks[r]) for r in range(schedule.num_ranks))
            assert any(v.code == code and v.action.stage == action.stage and v.action.microbatch == action.microbatch for v in violations(damaged)), (
                code,
                action,
            )


def test_what_cannot_run_is_refused_at_the_door_with_all_reasons() -> None:
    for use in (simulate, add_communication):
        with pytest.raises(InvalidSchedule, match="missing: 1B0 is missing") as caught:
            use(Schedule.parse("rank 0: 0F0 0B0 2F0\nrank 1: 1F0", placement=(0, 1)))
        assert {v.code for v in caught.value.violations} == {"missing", "unknown"}


def test_a_schedule_that_is_not_complete_yet_can_be_played_as_far_as_it_goes() -> None:
    assert simulate(Schedule.parse("rank 0: 0F0 0F1\nrank 1: 1F0 1B0")).makespan == 4
    with pytest.raises(InvalidSchedule, match="missing: 0B0"):
        add_communication(Schedule.parse("rank 0: 0F0 0F1\nrank 1: 1F0 1B0"))


def test_the_error_travels_between_processes() -> None:
    error = InvalidSchedule(violations(Schedule.parse("rank 0: 0F0\nrank 1: 1F0 1B0")))
    again = pickle.loads(pickle.dumps(error))
    assert again.violations == error.violations and str(again) == str(error) and "0B0 is missing" in str(again)
