"""The checkers of the exercises: right solutions pass, each usual mistake is told in its own words, and the world stays usable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import partkit as pk
from partkit.labs import check_all_gather, check_all_to_all, check_broadcast, check_doubling, check_reduce_scatter, trial
from partkit.labs.trial import AnyWorld, Learner
from partkit.labs.verdict import Verdict
from partkit.worlds.simulated import SimulatedWorld
from tests.labs import solutions as s

Check = Callable[[Learner, AnyWorld], Verdict]
RIGHT: list[tuple[Check, Learner]] = [
    (check_broadcast, s.tree_broadcast),
    (check_broadcast, s.halving_broadcast),
    (check_all_gather, s.ring_all_gather),
    (check_all_gather, s.left_all_gather),
    (check_reduce_scatter, s.ring_reduce_scatter),
    (check_all_to_all, s.pairwise_all_to_all),
    (check_all_to_all, s.posted_at_once),
    (check_doubling, s.recursive_doubling),
]
WRONG: list[tuple[Check, Learner, str]] = [
    (
        check_broadcast,
        lambda x, comm: x.clone(),
        "rank 1, element 0 (12 of 12 elements are wrong): it holds element 0 of rank 1, it must hold",
    ),
    (
        check_broadcast,
        s.flat_broadcast,
        "8 simulated ranks, shape [24]: it takes 7 steps, one after the other, where ceil(log2 p) = 3 are",
    ),
    (check_broadcast, s.flat_at_once, "it takes 7 steps, one after the other, where ceil(log2 p) = 3 are enough; this is the flat algorithm"),
    (check_broadcast, s.chain_broadcast, "7 steps, one after the other, where ceil(log2 p) = 3 are enough; this is a chain"),
    (check_broadcast, s.tree_for_powers_of_two, "3 ranks, shape [12]: it raises an error.\nrank 1: ValueError: dst=3 is outside this group"),
    (check_broadcast, s.everybody_gets_it_twice, "rank 1 received 2 messages; once is enough, p - 1 = 3 messages in all (sent: 6)"),
    (check_broadcast, s.back_to_the_root, "rank 0 received a message; it is the root and has everything"),
    (check_broadcast, lambda x, comm: None, "rank 0 returned nothing (None); return the tensor"),
    (check_broadcast, s.dropped_handles, "rank 0: a message was posted and not waited for; call wait() on what isend and irecv give"),
    (check_broadcast, s.ends_a_rank, "4 ranks, shape [12]: a rank ends.\nrank 1 ended without a result (exit code 3)"),
    (check_all_gather, lambda x, comm: x, "rank 0 returned the shape [3]; it must be [12]"),
    (check_all_gather, s.own_piece_only, "it holds element 0 of rank 3, it must hold element 0 of rank 1"),
    (check_all_gather, s.order_of_arrival, "the pieces stand in the order in which they arrived; put rank r's piece in place r"),
    (check_all_gather, s.direct_all_gather, "rank 0 sent to ranks 1-3; in a ring each rank sends to one neighbour only"),
    (check_all_gather, s.whole_result_round, "rank 0 sent 288 bytes, not 72: hand on one piece at a step"),
    (check_all_gather, s.in_turns, "it takes 56 steps, one after the other, where p - 1 = 7 are enough; ranks wait for each other"),
    (check_all_gather, s.buffer_of_float32, "does not come to an end.\nranks 0-1: a send and a receive that do not fit"),
    (check_reduce_scatter, s.one_too_early, "rank 0 holds the finished block 1, but rank r must end with block r"),
    (check_reduce_scatter, s.own_share_sent_on, "rank 0, element 0 (3 of 3 elements are wrong): the part of ranks 1-2 is missing"),
    (check_reduce_scatter, s.all_reduce_and_cut, "rank 0 sent to ranks 1-3; in a ring each rank sends to one neighbour only"),
    (check_reduce_scatter, s.whole_sum, "rank 0 returned the shape [12]; it must be [3]"),
    (check_reduce_scatter, s.in_the_input, "rank 0: the input was changed; work on a clone"),
    (check_reduce_scatter, s.blocks_that_divide, "4 ranks, shape [10]: 10 elements on 4 ranks make blocks of 3, 3, 2, 2: cut x with"),
    (check_all_to_all, s.rank_zero_first, "steps, one after the other, where p - 1 = 7 are enough; some ranks wait for one that is busy with another"),
    (check_all_to_all, s.send_then_receive, "each waits for the next, a cycle"),
    (check_all_to_all, s.gather_all_and_pick, "rank 0 sent 288 bytes, not 72: send each other rank its own block, and nothing else"),
    (check_all_to_all, s.in_order_of_steps, "all elements are there, but not in their places"),
    (check_doubling, s.same_partner, "the part of ranks 2-3 is missing and the part of ranks 0-1 was added more than once"),
    (check_doubling, s.sends_the_input, "rank 0, element 0 (12 of 12 elements are wrong): the part of rank 3 is missing"),
    (check_doubling, s.ring_instead, "rank 0 sent 3 messages, recursive doubling sends log2(p) = 2"),
    (check_doubling, s.one_after_the_other, "8 simulated ranks, shape [24]: it takes 6 steps, one after the other, where log2(p) = 3 are enough"),
    (check_broadcast, s.torchs_own_broadcast, "shape [12]: the result is right, but none of its messages went through comm (was it torch.distributed?); send"),
    (check_doubling, s.ready_made, "the result is right, but a ready-made collective made it (all_reduce)"),
]


def name(value: object) -> str:
    return getattr(value, "__name__", "words")


@pytest.mark.live
@pytest.mark.parametrize(("check", "learner"), RIGHT, ids=name)
def test_a_right_solution_is_solved(world4: pk.World, check: Check, learner: Learner) -> None:
    verdict = check(learner, world4)
    assert verdict, verdict
    assert all(finding.ok for finding in verdict.findings)


@pytest.mark.live
@pytest.mark.parametrize(("check", "learner", "words"), WRONG, ids=name)
def test_each_mistake_is_told_in_words(world4: pk.World, check: Check, learner: Learner, words: str) -> None:
    verdict = check(learner, world4)
    assert not verdict
    assert words in "\n".join(finding.text for finding in verdict.findings), verdict
    assert len(verdict.findings) <= 4


@pytest.mark.parametrize(("check", "learner"), [(check_reduce_scatter, s.ring_reduce_scatter), (check_all_to_all, s.pairwise_all_to_all)], ids=name)
def test_a_simulated_world_is_enough(check: Check, learner: Learner) -> None:
    with SimulatedWorld(4) as world:
        verdict = check(learner, world)
    assert verdict, verdict


@pytest.mark.live
def test_a_loop_without_end_is_stopped_and_the_world_stays(world4: pk.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST_SECONDS", 1.0)
    verdict = check_broadcast(s.loop_without_end, world4)
    assert "3 ranks, shape [12]: it does not come to an end: still running after 1 s, it was stopped" in repr(verdict).replace("        it was", "it was")
    assert list(world4.run(lambda comm: comm.rank)) == [0, 1, 2, 3]


@pytest.mark.live
def test_a_loop_without_end_on_simulated_ranks_is_stopped_too(world4: pk.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST_SECONDS", 1.0)

    def learner(x: torch.Tensor, comm: pk.Communicator) -> torch.Tensor:
        while comm.size > 4:
            pass
        return s.tree_broadcast(x, comm)

    verdict = check_broadcast(learner, world4)
    assert "8 simulated ranks, shape [24]: it does not come to an end: still running after 1 s" in verdict.findings[0].text
    assert list(world4.run(lambda comm: comm.rank)) == [0, 1, 2, 3]


@pytest.mark.live
def test_an_error_shows_the_learners_lines_only(world4: pk.World) -> None:
    verdict = check_broadcast(s.tree_for_powers_of_two, world4)
    assert "tree_for_powers_of_two\n    comm.send(result, comm.rank + have)" in verdict.findings[0].text
    assert "trial.py" not in verdict.findings[0].text


@pytest.mark.live
def test_what_a_deadlock_left_does_not_spoil_the_next_attempt(world4: pk.World) -> None:
    assert not check_all_to_all(s.send_then_receive, world4)
    assert check_all_to_all(s.pairwise_all_to_all, world4)


def test_what_is_no_function_is_refused() -> None:
    with SimulatedWorld(2) as world, pytest.raises(TypeError, match="give the function itself"):
        check_broadcast(torch.ones(1), world)  # type: ignore[arg-type]
