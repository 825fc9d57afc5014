"""The exercises about schedules: any right order passes, each usual mistake is told with its action and its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from partkit.labs import check_bubble, check_one_f_one_b, check_zb_h1
from partkit.labs.schedules import Planner, Unreadable, read, read_freely
from partkit.labs.verdict import Verdict
from partkit.pipeline_parallel import (
    Action,
    Costs,
    Problem,
    Schedule,
    add_communication,
    chimera,
    dual_pipe,
    forward_only,
    gpipe,
    make,
    one_f_one_b,
    search,
    zb_h1,
    zb_h2,
    zb_v,
)
from tests.labs import plans

Check = Callable[[Planner], Verdict]
RIGHT: list[tuple[Check, Planner]] = [
    (check_one_f_one_b, one_f_one_b),
    (check_one_f_one_b, plans.one_forward_one_backward),
    (check_one_f_one_b, plans.as_text),
    (check_one_f_one_b, plans.as_lines_of_text),
    (check_one_f_one_b, plans.numbered_backwards),
    (check_one_f_one_b, lambda p, m: add_communication(one_f_one_b(p, m))),
    (check_zb_h1, zb_h1),
    (check_zb_h1, plans.weights_lag_behind),
]
WRONG: list[tuple[Check, Planner, str]] = [
    (
        check_one_f_one_b,
        plans.forwards_then_backwards,
        "4 ranks, 8 micro-batches: after 0F4 rank 0 keeps activations of 5 micro-batches; 1F1B keeps at most min(m, p - s) on stage s, here 4. "
        "0B0, which frees those of one, comes only later",
    ),
    (check_one_f_one_b, plans.no_warm_up, "it takes 96 units of time, 1F1B 33 (F = I = W = 1, B = 2). At 1: Rank 0 waits: its next action 0B0 needs 1B0."),
    (check_one_f_one_b, plans.no_warm_up, "It could run 0F1, 0F2, 0F3, 0F4 and 3 more now, but its order puts them later."),
    (check_one_f_one_b, plans.one_too_few, "At 3: Rank 0 waits: its next action 0B0 needs 1B0. Rank 1 begins it only at 8 and ends it at 10. It could run 0F3"),
    (check_one_f_one_b, plans.stages_the_wrong_way_round, "deadlock: rank 0 stands before 0B0, which needs 1I0 from rank 1; rank 1 stands before 1F1, which"),
    (check_one_f_one_b, plans.backward_before_its_forward, "too-early: 0B0 needs 0F0, which comes later on the same rank 0, as 0F0"),
    (check_one_f_one_b, plans.forwards_only, "there is no backward in it; each stage has one for every micro-batch"),
    (check_one_f_one_b, plans.drops_the_rest, "missing: 0B5 is missing: nobody runs the backward of stage 0 on micro-batch 5"),
    (check_one_f_one_b, plans.one_twice, "twice: 0I7 is made 2 times: by 0B7 on rank 0 (place 15) and 0B7 on rank 0 (place 16)"),
    (check_one_f_one_b, plans.on_the_wrong_rank, "wrong-rank: 3F0 is on rank 0, but stage 3 lies on rank 3"),
    (check_one_f_one_b, plans.enough_micro_batches_only, "4 ranks, 2 micro-batches: unknown: 0F2 on rank 0: there is no micro-batch 2; the last is 1"),
    (check_one_f_one_b, lambda p, m: plans.as_text(4, 8), "3 ranks, 5 micro-batches: there are 4 lists, one for each rank makes 3"),
    (check_one_f_one_b, zb_h1, "1F1B is made of F, B; yours has I, W"),
    (
        check_zb_h1,
        one_f_one_b,
        "it takes 33 units of time, ZB-H1 27 (F = I = W = 1, B = 2). The rank before waits for both parts of a B, though it needs only the",
    ),
    (
        check_zb_h1,
        plans.both_at_once,
        "it takes 30 units of time, ZB-H1 27 (F = I = W = 1, B = 2). At 7 rank 1 runs 1W0, for which nobody waits, though it could run 1F3",
    ),
    (
        check_zb_h1,
        plans.all_weights_last,
        "after 0F4 rank 0 keeps activations of 5 micro-batches; ZB-H1 keeps at most p on every stage, and no more than the m that there are, here 4.",
    ),
    (check_zb_h1, plans.lags_alike, "after 0F4 rank 0 keeps activations of 5 micro-batches"),
    (check_zb_h1, plans.lags_too_little, "it takes 28 units of time, ZB-H1 27 (F = I = W = 1, B = 2). At 7 rank 1 runs 1W0, for which nobody waits"),
    (check_zb_h1, plans.lags_too_much_at_the_end, "It could run 0W4 now, but its order puts that later."),
    (check_zb_h1, plans.weights_before_inputs, "too-early: 0W0 needs 0I0, which comes later on the same rank 0, as 0I0"),
    (check_zb_h1, plans.forgets_weights, "missing: 0W0 is missing: nobody runs the gradient of the weights of stage 0 on micro-batch 0"),
    (check_zb_h1, zb_h2, "after 0F4 rank 0 keeps activations of 5 micro-batches"),
]
ODD: list[tuple[Any, str]] = [
    (None, "your function returned a NoneType; return a list for each rank"),
    (3, "your function returned a int; return a list for each rank"),
    ([Action(0, "F", 0)], r"there is one list of actions; return a list of lists, one for each rank \(the first item is 0F0\)"),
    ([[0, 1]], "rank 0 has 0 in its list; an action is Action"),
    ([3], "rank 0 has a int in place of a list of actions: 3"),
    ([["0X0"]], "rank 0: '0X0' is no action"),
    ([["0STEP0"]], "0STEP0 on rank 0 is no forward or backward of a stage on a micro-batch"),
    ([[Action(0, "F")]], "0F on rank 0 is no forward or backward"),
    ([[Action(0, "F", -1)]], "0F-1 on rank 0 is no forward or backward"),
    ([["0F0", "0B0"], []], "there are 2 lists, one for each rank makes 1"),
]


def words(verdict: Verdict) -> str:
    return "\n".join(finding.text for finding in verdict.findings)


@pytest.mark.parametrize(("check", "plan"), RIGHT)
def test_a_right_order_is_solved(check: Check, plan: Planner) -> None:
    verdict = check(plan)
    assert verdict, verdict
    assert len(verdict.findings) == 4 and all(finding.ok for finding in verdict.findings)


@pytest.mark.parametrize(("check", "plan", "told"), WRONG)
def test_each_mistake_is_told_with_its_action_and_reason(check: Check, plan: Planner, told: str) -> None:
    verdict = check(plan)
    assert not verdict
    assert told in words(verdict), verdict
    assert len(verdict.findings) <= 3


@pytest.mark.parametrize(("made", "told"), ODD)
def test_what_is_no_schedule_is_told(made: Any, told: str) -> None:
    with pytest.raises(Unreadable, match=told):
        read(made, 1, 1)


def test_an_error_of_the_learners_function_is_told() -> None:
    assert words(check_one_f_one_b(lambda p, m: [][p])) == "4 ranks, 8 micro-batches: your function raised IndexError: list index out of range"
    assert words(check_bubble(lambda p: p)).startswith("your function raised TypeError: ")


def test_the_function_itself_is_wanted() -> None:
    with pytest.raises(TypeError, match="give the function itself, my_schedule, not what it returns"):
        check_one_f_one_b(one_f_one_b(4, 8))  # type: ignore[arg-type]


def test_nothing_at_all_is_told() -> None:
    assert "there is no action in it" in words(check_one_f_one_b(lambda p, m: [[] for _ in range(p)]))
    with pytest.raises(Unreadable, match="there is no action in it"):
        read_freely([[], []])


class TestBubble:
    @pytest.mark.parametrize("schedule", [zb_v, zb_v(4, 8), str(zb_v(4, 8)), [list(line) for line in zb_v(4, 8).ranks], add_communication(zb_v(4, 8))])
    def test_whatever_it_is_written_in(self, schedule: Any) -> None:
        verdict = check_bubble(schedule)
        assert verdict and words(verdict) == "memory: rank 0 keeps most, 4 of 4\nbubble: 5.88 % of all ranks' time; this is ZB-V"

    def test_what_has_no_name_is_as_good(self) -> None:
        """Found by greed: three micro-batches are enough for 15.8 %, where every schedule of the literature keeps more."""
        found = search(Problem((0, 1, 2, 3, 3, 2, 1, 0), 8, Costs(0.5, 0.5, 0.5, memory=0.5), memory_cap=3), seconds=0)
        verdict = check_bubble(found.schedule, 0.2, 3)
        assert verdict and words(verdict) == "memory: rank 0 keeps most, 3 of 3\nbubble: 15.8 % of all ranks' time"

    @pytest.mark.parametrize(
        ("schedule", "told"),
        [
            (one_f_one_b, "bubble: 27.3 % of all ranks' time; this is 1F1B; less than 10 % is asked for. At 4: Rank 1 waits: its next action 1B0 needs 2B0."),
            (zb_h1, "And 5.56 % are lost before the first micro-batch has come to every rank (to rank 3 at 3)."),
            (zb_h2, "memory: after 0F4 rank 0 keeps 5, 4 are allowed; let it free something first, by a B or W"),
            (dual_pipe, "memory: after 0F3 rank 0 keeps 5, 4 are allowed"),
            (chimera, "bubble: 20 % of all ranks' time; this is Chimera"),
            (lambda p, m: make("interleaved", p, m, 2), "memory: after 0F4 rank 0 keeps 4.5, 4 are allowed"),
            (forward_only, "there is no backward in it"),
            (gpipe(4, 4), "the schedule has 4 micro-batches, 8 are asked for"),
            (gpipe(2, 8), "the schedule has 2 ranks, 4 are asked for"),
            (zb_v(4, 8).with_ranks(zb_v(4, 8).ranks[::-1]), "wrong-rank: "),
            (None, "your function returned a NoneType"),
        ],
    )
    def test_what_falls_short_is_told(self, schedule: Any, told: str) -> None:
        verdict = check_bubble(schedule)
        assert not verdict
        assert told in words(verdict), verdict

    def test_a_model_cut_finer_is_the_same_model(self) -> None:
        """A quarter of the bubble for stages a quarter as long: not because there is less to do."""
        assert "8.57 %" in words(check_bubble(make("interleaved", 4, 8, 4), memory_cap=8))

    def test_equal_is_not_less(self) -> None:
        assert not check_bubble(Schedule.parse("rank 0: 0F0 0B0"), 0.0, 1, ranks=1, microbatches=1)
        assert check_bubble(Schedule.parse("rank 0: 0F0 0B0"), 1e-9, 1, ranks=1, microbatches=1)

    def test_other_costs(self) -> None:
        even, uneven = check_bubble(zb_h1, 0.12), check_bubble(zb_h1, 0.12, costs=Costs(backward_weight=0.25))
        assert even and not uneven
