"""When a run must be ended, and how hard: decisions over a clock that the tests turn."""

from __future__ import annotations

import pytest

from partkit.diagnosis import Call, Operation, RankState
from partkit.worlds.supervisor import FELLOW_SECONDS, KILL_SECONDS, LOOK_SECONDS, SILENCE_SECONDS, Supervisor


def blocked(rank: int, peer: int, progress: int = 0) -> RankState:
    operation = Operation("recv", peer, "", "float32[1]", "", "w")
    return RankState(rank, "blocked", operation, (operation,), progress=progress)


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor(2, now=100.0)


def test_it_asks_after_a_silence_and_again_and_again(supervisor: Supervisor) -> None:
    assert supervisor.step(100.0 + SILENCE_SECONDS - 0.01) == "nothing"
    assert supervisor.step(100.0 + SILENCE_SECONDS) == "look"
    assert supervisor.step(100.0 + SILENCE_SECONDS + LOOK_SECONDS / 2) == "nothing"
    assert supervisor.step(100.0 + SILENCE_SECONDS + LOOK_SECONDS) == "look"


def test_whatever_is_heard_ends_the_silence(supervisor: Supervisor) -> None:
    supervisor.heard(100.3)
    assert supervisor.step(100.3 + SILENCE_SECONDS - 0.01) == "nothing"


def test_it_takes_two_equal_looks_of_all_to_call_ranks_stuck(supervisor: Supervisor) -> None:
    assert supervisor.saw(blocked(0, 1), {0, 1}) is None
    assert supervisor.saw(blocked(1, 0), {0, 1}) is None
    supervisor.step(101.0)
    assert supervisor.saw(blocked(0, 1), {0, 1}) is None
    found = supervisor.saw(blocked(1, 0), {0, 1})
    assert found is not None and found.code == "cycle" and supervisor.diagnosis is found


@pytest.mark.parametrize("second", [blocked(1, 0, progress=1), RankState(1, "running")])
def test_a_rank_that_did_something_in_between_is_not_stuck(supervisor: Supervisor, second: RankState) -> None:
    for state in (blocked(0, 1), blocked(1, 0), blocked(0, 1), second):
        assert supervisor.saw(state, {0, 1}) is None


def test_a_message_in_between_makes_the_first_look_void(supervisor: Supervisor) -> None:
    for state in (blocked(0, 1), blocked(1, 0)):
        supervisor.saw(state, {0, 1})
    supervisor.heard(101.0)
    for state in (blocked(0, 1), blocked(1, 0)):
        assert supervisor.saw(state, {0, 1}) is None


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_a_time_out_is_above_zero(timeout: float) -> None:
    with pytest.raises(ValueError, match="seconds that a rank may wait for one message, above 0, or None"):
        Supervisor(2, now=100.0, timeout=timeout)


def test_case_H16_who_has_waited_too_long_is_told_for_whom() -> None:
    supervisor = Supervisor(2, now=100.0, timeout=3.0)
    for now in (100.25, 101.0, 103.25):
        assert supervisor.waits(RankState(1, "running"), now) is None
        assert supervisor.waits(blocked(0, 1), now) is None
    found = supervisor.waits(blocked(0, 1), 103.26)
    assert found is not None and supervisor.diagnosis is found
    assert (found.code, found.ranks) == ("late", (1,))
    busy = "  rank 1: busy with something that is no message, after 0 collective calls"
    assert found.reason.splitlines() == ["the others waited for it longer than 3 s:", "  rank 0: recv float32[1] from rank 1", busy]


@pytest.mark.parametrize("between", [blocked(0, 1, progress=1), RankState(0, "running")])
def test_each_message_may_take_the_whole_time_out(between: RankState) -> None:
    supervisor = Supervisor(2, now=100.0, timeout=3.0)
    for state, now in ((blocked(0, 1), 100.0), (between, 102.0), (blocked(0, 1, progress=between.progress), 104.0)):
        assert supervisor.waits(state, now) is None
    assert supervisor.waits(blocked(0, 1, progress=between.progress), 107.5) is not None


def test_without_a_time_out_a_slow_rank_is_waited_for_as_long_as_it_takes(supervisor: Supervisor) -> None:
    assert supervisor.waits(blocked(0, 1), 100.0) is supervisor.waits(blocked(0, 1), 1e9) is None


def test_with_a_time_out_it_also_asks_while_others_are_heard() -> None:
    supervisor = Supervisor(2, now=100.0, timeout=3.0)
    supervisor.heard(100.2)
    assert [supervisor.step(100.24), supervisor.step(100.25), supervisor.step(100.26)] == ["nothing", "look", "nothing"]


def test_a_rank_that_does_not_answer_is_waited_for(supervisor: Supervisor) -> None:
    for _ in range(3):
        supervisor.step(110.0)
        assert supervisor.saw(blocked(0, 1), {0, 1}) is None


def test_a_failure_gives_the_others_a_moment_then_they_are_told_then_killed(supervisor: Supervisor) -> None:
    supervisor.failed(200.0)
    supervisor.failed(200.1)  # the second failure gives no second moment
    assert supervisor.step(200.0 + FELLOW_SECONDS - 0.01) == "nothing"
    told = 200.0 + FELLOW_SECONDS
    assert supervisor.step(told) == "abort"
    assert supervisor.step(told + KILL_SECONDS - 0.01) == "nothing"
    assert supervisor.step(told + KILL_SECONDS) == "kill"


def test_a_stop_is_carried_out_at_once_and_only_once(supervisor: Supervisor) -> None:
    supervisor.failed(200.0)
    supervisor.stop(200.0)
    assert supervisor.step(200.0) == "abort"
    supervisor.stop(201.0)
    assert supervisor.step(201.0) == "nothing"
    assert supervisor.step(200.0 + KILL_SECONDS) == "kill"


def test_what_a_finished_rank_has_done_is_known_however_late_it_answers() -> None:
    supervisor = Supervisor(2, now=0.0)
    left = RankState(0, "finished", num_calls=2)
    call = Call("all_reduce", "float32[2], sum, ring", 2, (0, 1), "x.py:1")
    waiting = blocked(1, 0)._replace(call=call)
    assert supervisor.saw(left, {1}) is None
    assert supervisor.saw(waiting, {1}) is None
    found = supervisor.saw(waiting, {1})  # the second look, before the finished rank has answered it
    assert found is not None and found.ranks == (0,) and "finished after 2 collective calls" in found.reason
