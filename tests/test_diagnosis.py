"""From what each rank is doing to the sentence that names the mistake. Pure: the live counterparts are in tests/worlds."""

from __future__ import annotations

import pytest

from partkit.diagnosis import Call, Due, Operation, RankState, explain, is_stuck, late, name_ranks


def call(what: str = "float32[4], sum, ring", number: int = 0, name: str = "all_reduce", group: tuple[int, ...] = (0, 1), site: str = "f.py:1") -> Call:
    return Call(name, what, number, group, site)


def wait(
    rank: int, op: str, peer: int, what: str = "float32[4]", tag: str = "", *, inside: Call | None = None, wire: str = "", num_calls: int = 0
) -> RankState:
    operation = Operation(op, peer, tag, what, f"f.py:{rank}", wire or f"{tag}|{what}")  # type: ignore[arg-type]
    return RankState(rank, "blocked", operation, (operation,), inside, num_calls)


def done(rank: int, num_calls: int = 0) -> RankState:
    return RankState(rank, "finished", num_calls=num_calls)


def running(rank: int) -> RankState:
    return RankState(rank, "running")


@pytest.mark.parametrize(
    ("states", "stuck"),
    [
        ([running(0), wait(1, "recv", 0)], False),  # slow is not stuck
        ([done(0), done(1)], False),
        ([done(0), wait(1, "recv", 0)], True),
        ([wait(0, "send", 1), wait(1, "recv", 0)], False),  # on its way
        ([wait(0, "send", 1), wait(1, "send", 0)], True),
        ([wait(0, "send", 1, "int32[4]"), wait(1, "recv", 0, "float32[4]")], True),
    ],
)
def test_stuck_means_that_nobody_can_ever_move(states: list[RankState], stuck: bool) -> None:
    assert is_stuck(states) is stuck


def test_who_has_something_to_do_is_not_stuck() -> None:
    """On a crowded machine a message may have arrived, and its receiver stands in line for a core."""
    assert is_stuck([done(0), wait(1, "recv", 0)])
    assert not is_stuck([done(0), wait(1, "recv", 0)._replace(awake=True)])
    assert not is_stuck([done(0)._replace(awake=True), wait(1, "recv", 0)])


def test_a_message_posted_behind_the_wait_counts_as_on_its_way() -> None:
    posted = Operation("send", 1, "", "float32[4]", "", "w")
    sender = wait(0, "recv", 1, tag="other")._replace(posted=(posted,))
    assert not is_stuck([sender, wait(1, "recv", 0, wire="w")])


def test_a_message_that_both_have_posted_and_nobody_waits_for_yet_sets_nobody_free() -> None:
    """It may well have arrived; the ranks wait for something else."""
    sent, received = Operation("send", 1, "", "float32[4]", "", "w"), Operation("recv", 0, "", "float32[4]", "", "w")
    stuck = [wait(0, "send", 1, tag="a"), wait(1, "send", 0, tag="b")]
    assert is_stuck([stuck[0]._replace(posted=(sent, *stuck[0].posted)), stuck[1]._replace(posted=(received, *stuck[1].posted))])


def test_messages_that_are_alike_meet_in_their_order() -> None:
    first, second = (Operation("recv", 0, "", "float32[4]", "", "w", number) for number in (0, 1))
    sent = Operation("send", 1, "", "float32[4]", "", "w", 0)
    receiver = RankState(1, "blocked", second, (first, second))
    sender = RankState(0, "blocked", Operation("recv", 1, "", "int64[]", "", "other"), (sent,))
    assert is_stuck([sender, receiver])
    assert not is_stuck([sender._replace(posted=(sent, sent._replace(number=1))), receiver])


def test_what_has_met_is_not_called_unlike() -> None:
    sent, received = Operation("send", 1, "", "float32[4]", "", "w"), Operation("recv", 0, "", "float32[4]", "", "w")
    stuck = [wait(0, "send", 1, tag="a"), wait(1, "send", 0, tag="b")]
    assert explain([stuck[0]._replace(posted=(sent, *stuck[0].posted)), stuck[1]._replace(posted=(received, *stuck[1].posted))]).code == "cycle"


def test_different_calls_are_laid_side_by_side_equal_ones_folded() -> None:
    inside = {0: call(group=(0, 1, 2)), 1: call("float32[8], sum, ring", group=(0, 1, 2), site="f.py:9"), 2: call(group=(0, 1, 2))}
    found = explain([wait(rank, "recv", (rank + 1) % 3, inside=inside[rank]) for rank in range(3)])
    assert (found.code, found.ranks) == ("mismatch", (1,))
    assert found.reason.splitlines() == [
        "its call differs from that of ranks 0, 2:",
        "  rank 1: all_reduce #1 of float32[8], sum, ring at f.py:9",
        "  ranks 0, 2: all_reduce #1 of float32[4], sum, ring at f.py:1",
    ]


@pytest.mark.parametrize(
    "other",
    [
        call("float32[2, 2], sum, ring"),
        call("int32[4], sum, ring"),
        call("float32[4], max, ring"),
        call("float32[4], sum, naive"),
        call(number=1),
        call(name="broadcast"),
    ],
)
def test_calls_differ_by_shape_dtype_op_algorithm_number_or_name(other: Call) -> None:
    assert explain([wait(0, "recv", 1, inside=call()), wait(1, "recv", 0, inside=other)]).code == "mismatch"


def test_the_source_line_is_no_part_of_a_call() -> None:
    assert call(site="f.py:1").same_as(call(site="f.py:2"))


def test_a_wait_outside_of_a_collective_that_others_are_in() -> None:
    found = explain([wait(0, "recv", 1, "int64[]"), wait(1, "recv", 0, inside=call())])
    assert (found.code, found.ranks) == ("mismatch", (0, 1))
    assert found.reason.splitlines() == [
        "some ranks are in a collective, others wait for a message outside of it:",
        "  rank 0: recv int64[] from rank 1 at f.py:0",
        "  rank 1: all_reduce #1 of float32[4], sum, ring at f.py:1",
    ]


def test_steps_of_one_collective_are_not_called_unlike() -> None:
    group = (0, 1, 2)
    steps = [wait(0, "send", 1, "float32[1]", "step 1", inside=call(group=group)), wait(1, "recv", 0, "float32[2]", "step 2", inside=call(group=group))]
    assert explain([*steps, done(2)]).code == "missing"


def test_a_step_of_one_collective_whose_sides_differ_is_called_unlike() -> None:
    """`all_to_all_v` with sizes that two ranks state differently: the calls agree, the pieces don't."""
    found = explain([wait(0, "send", 1, "float32[1]", "step 1", inside=call()), wait(1, "recv", 0, "float32[2]", "step 1", inside=call())])
    assert (found.code, found.ranks) == ("unlike", (0, 1))
    assert found.reason.startswith("a send and a receive that do not fit:")


def test_a_rank_that_left_is_named_with_its_number_of_calls() -> None:
    found = explain([done(0, num_calls=2), wait(1, "recv", 0, inside=call(number=2), num_calls=3)])
    assert (found.code, found.ranks) == ("missing", (0,))
    assert found.reason.startswith("finished after 2 collective calls, but others still wait for it:")
    assert "rank 1: all_reduce #3 of float32[4], sum, ring at f.py:1" in found.reason


def test_a_rank_that_goes_on_when_all_others_have_finished_is_named_itself() -> None:
    three = tuple(call(number=number, group=(0, 1, 2)) for number in range(3))
    goes_on = wait(1, "recv", 0, inside=three[2], num_calls=3)._replace(calls=three)
    found = explain([done(0, num_calls=2)._replace(calls=three[:2]), goes_on, done(2, num_calls=2)._replace(calls=three[:2])])
    assert (found.code, found.ranks) == ("missing", (1,))
    assert found.reason.splitlines() == [
        "goes on, but ranks 0, 2 finished after 2 collective calls:",
        "  rank 1: all_reduce #3 of float32[4], sum, ring at f.py:1",
        "  ranks 0, 2: finished after 2 collective calls, the last all_reduce #2 of float32[4], sum, ring at f.py:1",
    ]


def test_who_has_gone_past_a_call_is_laid_beside_those_who_are_in_it() -> None:
    """Rank 0 and rank 1 have broadcast from rank 0 and gone on; rank 3 broadcasts from itself."""
    group = (0, 1, 2, 3)
    right, wrong, next_one = (call(what, number, "broadcast", group) for what, number in (("from rank 0", 0), ("from rank 3", 0), ("from rank 0", 1)))
    ahead = [wait(rank, "recv", 3, inside=next_one)._replace(calls=(right, next_one)) for rank in (0, 1)]
    found = explain([*ahead, wait(2, "send", 3, inside=right), wait(3, "send", 2, "int64[1]", inside=wrong)])
    assert (found.code, found.ranks) == ("mismatch", (3,))
    assert found.reason.splitlines() == [
        "its call differs from that of ranks 0-2:",
        "  rank 3: broadcast #1 of from rank 3 at f.py:1",
        "  ranks 0-2: broadcast #1 of from rank 0 at f.py:1",
    ]


def test_groups_are_told_where_they_differ() -> None:
    pairs = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (1, 3)}
    made = {rank: call(group=pair)._replace(group_name=str(pair)) for rank, pair in pairs.items()}
    left = [done(rank, num_calls=1)._replace(calls=(made[rank],)) for rank in (0, 1)]
    found = explain([*left, wait(2, "recv", 3, inside=made[2]), wait(3, "recv", 1, inside=made[3])])
    assert (found.code, found.ranks) == ("mismatch", (3,))
    assert found.reason.splitlines()[1] == "  rank 3: all_reduce #1 of float32[4], sum, ring among ranks 1, 3 at f.py:1"


@pytest.mark.parametrize(("ops", "words"), [("recv", "for a message from it"), ("send", "for it to take a message"), ("both", "to exchange messages with it")])
def test_who_left_without_a_message_is_named_and_what_others_wait_for(ops: str, words: str) -> None:
    waiting = [wait(1, "recv", 0), wait(2, "send", 0)] if ops == "both" else [wait(1, ops, 0)]
    found = explain([done(0), *waiting])
    assert (found.code, found.ranks) == ("alone", (0,))
    assert found.reason.splitlines()[0] == f"finished, but others still wait {words}:"


def test_one_call_is_not_called_calls() -> None:
    assert "after 1 collective call," in explain([done(0, num_calls=1), wait(1, "recv", 0, inside=call(number=1))]).reason


def test_a_send_and_a_receive_that_nearly_match() -> None:
    found = explain([wait(0, "send", 1, "float32[8]"), wait(1, "recv", 0, "float32[4]", "x")])
    assert (found.code, found.ranks) == ("unlike", (0, 1))
    assert "send float32[8] to rank 1 at f.py:0" in found.reason
    assert "recv float32[4] from rank 0 with tag 'x' at f.py:1" in found.reason


def test_a_cycle_is_told_in_its_order_without_those_who_only_wait_for_it() -> None:
    found = explain([wait(0, "recv", 1), wait(1, "send", 2), wait(2, "send", 3), wait(3, "send", 1)])
    assert (found.code, found.ranks) == ("cycle", (1, 2, 3))
    assert [line.split(" at ")[0] for line in found.reason.splitlines()[1:]] == [
        "  rank 1 waits in send float32[4] to rank 2",
        "  rank 2 waits in send float32[4] to rank 3",
        "  rank 3 waits in send float32[4] to rank 1",
    ]


def test_a_cycle_begins_with_its_lowest_rank() -> None:
    assert explain([wait(0, "recv", 3), wait(1, "recv", 2), wait(2, "recv", 3), wait(3, "recv", 1)]).ranks == (1, 2, 3)


@pytest.mark.parametrize(("count", "lines"), [(12, 12), (13, 9), (64, 9)])
def test_a_long_cycle_is_told_by_its_ends(count: int, lines: int) -> None:
    found = explain([wait(rank, "recv", (rank + 1) % count) for rank in range(count)])
    told = found.reason.splitlines()[1:]
    assert found.ranks == tuple(range(count)) and len(found.states) == count and len(told) == lines
    assert told[0].startswith("  rank 0 waits in recv") and told[-1].startswith(f"  rank {count - 1} waits in recv")
    assert lines == count or told[6] == f"  ... {count - 8} more; the exception's diagnosis.states has all ..."


def test_many_who_wait_for_one_are_told_by_their_ends() -> None:
    found = explain([done(0), *(wait(rank, "recv", 0) for rank in range(1, 64))])
    assert found.ranks == (0,) and "  ... 55 more;" in found.reason and "rank 63 waits in recv" in found.reason


def test_a_wait_whose_partner_never_comes_says_what_the_partner_does() -> None:
    found = explain([done(0), wait(1, "recv", 0), wait(2, "recv", 1)])
    assert (found.code, found.ranks) == ("alone", (0,))
    assert "rank 1 waits in recv float32[4] from rank 0 at f.py:1; rank 0 has finished" in found.reason
    assert "rank 2 waits in recv float32[4] from rank 1 at f.py:2; rank 1 waits in recv float32[4] from rank 0" in found.reason


# -- backward ----------------------------------------------------------------------------------------------------------------


def movement(name: str = "all_gather", number: int = 0, group: tuple[int, ...] = (0, 1), site: str = "f.py:3") -> Due:
    return Due(name, number, group, site)


def test_who_waits_in_backward_for_a_rank_that_owes_it_is_told_which_movement_it_is() -> None:
    states = [wait(0, "recv", 1, inside=call())._replace(backward_of=movement()), done(1)._replace(due=(movement(), movement(number=1)))]
    found = explain(states)
    assert (found.code, found.ranks) == ("backward", (1,))
    assert found.reason.splitlines() == [
        "rank 0 is in the backward of all_gather #1 (at f.py:3), in which rank 1 must take part and did not:",
        "  rank 1 has finished without it",
        "If its result is not part of the loss on rank 1, say so there: loss = pk.functional.tie(loss, result)",
    ]


def test_of_two_ranks_in_different_backwards_the_one_that_left_out_the_younger_is_named() -> None:
    """Backward goes from the last movement to the first, so rank 0 has left out the second before it came to the first."""
    first, second = movement(number=0, site="f.py:1"), movement("all_reduce", number=1, site="f.py:2")
    skipped = wait(0, "recv", 1, inside=call())._replace(backward_of=first, due=(second,))
    found = explain([skipped, wait(1, "recv", 0, inside=call("int64[1]"))._replace(backward_of=second, due=(first,))])
    assert (found.code, found.ranks) == ("backward", (0,))
    assert "rank 1 is in the backward of all_reduce #2 (at f.py:2)" in found.reason
    assert "rank 0 waits in all_reduce #1 of float32[4], sum, ring at f.py:1, in the backward of all_gather #1 (at f.py:1)" in found.reason


@pytest.mark.parametrize(
    "other",
    [
        done(1),
        done(1)._replace(due=(movement(number=1),)),
        done(1)._replace(due=(movement(group=(1, 2)),)),
        wait(1, "recv", 0, "float32[8]", inside=call("float32[8]"))._replace(backward_of=movement(), due=(movement(number=1),)),
    ],
)
def test_a_rank_that_owes_nothing_of_it_is_not_accused_of_leaving_it_out(other: RankState) -> None:
    state = wait(0, "recv", 1, inside=call())._replace(backward_of=movement())
    assert explain([state, other]).code in ("missing", "mismatch")


@pytest.mark.parametrize(("ranks", "words"), [([3], "rank 3"), ([2, 0, 1], "ranks 0-2"), ([0, 2], "ranks 0, 2"), ([0, 1, 2, 5, 6, 9], "ranks 0-2, 5-6, 9")])
def test_ranks_are_named_shortly(ranks: list[int], words: str) -> None:
    assert name_ranks(ranks) == words


def test_a_rank_that_nobody_waits_for_is_not_late() -> None:
    recv = Operation("recv", 1, "", "float32[1]", "")
    states = [RankState(0, "blocked", recv), RankState(1, "running"), RankState(2, "running")]
    assert late(states, 3.0).ranks == (1,)


def test_a_message_that_takes_too_long_on_its_way_is_told_as_such() -> None:
    send, recv = Operation("send", 1, "", "float32[1]", ""), Operation("recv", 0, "", "float32[1]", "")
    found = late([RankState(0, "blocked", send), RankState(1, "blocked", recv)], 0.5)
    assert (found.ranks, found.reason.splitlines()[0]) == ((0, 1), "no message came within 0.5 s:")
