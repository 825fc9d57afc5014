"""The figures of the papers: makespan, bubble, memory; the pictures in the docstrings; torch's own lists."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.pipelining import schedules as torchs

from partkit.cluster import Link
from partkit.pipeline_parallel import SCHEDULES, Costs, bubble_inside, bubble_share, grid, make, peak_memory, peak_microbatches, simulate, violations
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.passes import split_backward, take_overlaps_apart
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.stepping import staleness, weight_versions
from tests.pipeline_parallel.sizes import quickly

SLOTS = Costs(backward=1)
STEPS = Costs(forward=2, backward=4, step=1)
PICTURES: dict[str, tuple[tuple[int, ...], Costs]] = {
    "gpipe": ((4, 4), Costs()),
    "one_f_one_b": ((4, 6), Costs()),
    "interleaved": ((3, 6), Costs()),
    "breadth_first": ((3, 3), Costs()),
    "zb_h1": ((4, 8), Costs()),
    "zb_h2": ((4, 8), Costs()),
    "zb_v": ((3, 6), Costs()),
    "dual_pipe_v": ((3, 7), Costs()),
    "dual_pipe": ((4, 8), Costs()),
    "chimera": ((4, 4), SLOTS),
    "pipedream": ((3, 5), STEPS),
    "pipedream_2bw": ((3, 6, 3), Costs(step=1)),
    "forward_only": ((4, 4), Costs()),
}


def docstring(name: str) -> str:
    return import_module(f"partkit.pipeline_parallel.schedules.{name}").__doc__ or ""


def indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_in_the_docstring_is_what_the_schedule_does(name: str) -> None:
    sizes, costs = PICTURES[name]
    assert f"{name}({', '.join(map(str, sizes[:2]))}" in docstring(name)
    assert indented(grid(make(name, *sizes), costs)) in docstring(name)


@pytest.mark.parametrize("name", ["eager_one_f_one_b", "one_f_one_b"])
def test_the_pictures_of_eager_1f1b_with_messages(name: str) -> None:
    assert indented(grid(make(name, 3, 6), Costs(activation_bytes=1), Link(0.0, 1.0))) in docstring("eager_one_f_one_b")


sizes = {"p": st.integers(1, 6), "m": st.integers(1, 12)}
times = {"f": st.integers(1, 5), "i": st.integers(1, 5), "w": st.integers(1, 5)}


def makespan(name: str, *size: int, **costs: float) -> float:
    return simulate(make(name, *size), Costs(**costs)).makespan


@given(**sizes, **times)
@quickly
def test_gpipe_and_1f1b_take_m_plus_p_minus_1(p: int, m: int, f: int, i: int, w: int) -> None:
    """Huang et al. 2019, section 2.3; Narayanan et al. 2021, section 2.2.1."""
    for name in ("gpipe", "one_f_one_b"):
        assert makespan(name, p, m, forward=f, backward_input=i, backward_weight=w) == (m + p - 1) * (f + i + w)
    assert makespan("forward_only", p, m, forward=f) == (m + p - 1) * f


def test_bubble_of_four_stages_and_eight_microbatches() -> None:
    assert makespan("one_f_one_b", 4, 8) == 33 and makespan("one_f_one_b", 4, 8, backward_input=0.5, backward_weight=0.5) == 22
    for name in ("gpipe", "one_f_one_b"):
        assert bubble_share(simulate(make(name, 4, 8))) == pytest.approx(3 / 11, rel=1e-12)
        assert bubble_share(simulate(make(name, 4, 4))) == pytest.approx(3 / 7, rel=1e-12)  # 12 / 21 busy


@given(p=st.integers(1, 5), groups=st.integers(1, 4), v=st.integers(1, 4), f=st.integers(1, 4), b=st.integers(1, 8))
@quickly
def test_looped_stages_divide_the_bubble_by_v(p: int, groups: int, v: int, f: int, b: int) -> None:
    """Narayanan et al. 2021, section 2.2.2: the bubble is (p - 1)(F + B) / v of the times of a whole rank."""
    m = p * groups
    for name in ("interleaved", "breadth_first"):
        assert makespan(name, p, m, v, forward=f, backward=b) == (m * v + p - 1) * (f + b)


@given(p=st.integers(1, 6), m=st.integers(1, 16))
@quickly
def test_case_m04_p12_microbatches_alive(p: int, m: int) -> None:
    assert peak_microbatches(make("one_f_one_b", p, m)) == tuple(min(m, p - s) for s in range(p))
    assert peak_microbatches(make("gpipe", p, m)) == (m,) * p
    assert peak_microbatches(make("eager_one_f_one_b", p, m)) == tuple(min(m, 2 * (p - s) - 1) for s in range(p))
    assert peak_microbatches(make("zb_h1", p, m)) == tuple(min(m, p) for s in range(p))
    assert peak_microbatches(make("zb_h2", p, m)) == tuple(min(m, 2 * p - 1) for s in range(p))
    assert peak_microbatches(make("forward_only", p, m)) == (0,) * p


@given(p=st.integers(1, 5), groups=st.integers(1, 4), v=st.integers(1, 4))
@quickly
def test_memory_of_looped_stages(p: int, groups: int, v: int) -> None:
    """Korthikanti et al. 2022, section 4.1: interleaving keeps 1 + (p - 1) / (p v) times what 1F1B keeps, on the first rank."""
    m = p * groups
    kept = peak_memory(make("interleaved", p, m, v))
    assert kept == tuple(min(m * v, (v - 1) * p + 2 * (p - 1 - r) + 1) for r in range(p))
    if kept[0] < m * v:
        assert Fraction(int(kept[0]), v) == p * (1 + Fraction(p - 1, p * v))
    assert peak_memory(make("breadth_first", p, m, v)) == (m * v,) * p


def test_case_m04_the_typed_figures() -> None:
    assert peak_microbatches(make("one_f_one_b", 4, 8)) == (4, 3, 2, 1)
    assert peak_microbatches(make("gpipe", 4, 8)) == (8, 8, 8, 8)
    assert peak_microbatches(make("one_f_one_b", 4, 2)) == (2, 2, 2, 1)


@given(p=st.integers(1, 6), more=st.integers(0, 12), **times)
@quickly
def test_zero_bubble_h1_and_h2(p: int, more: int, f: int, i: int, w: int) -> None:
    """Qi et al. 2023: (p - 1)(F + I - W) and (p - 1)(F + I - 2W) while W is shorter than F and I; enough micro-batches for it to show."""
    low = min(f, i, w)  # the handcrafted orders are made for equal times: W no longer than the others
    m, costs = 2 * p - 1 + more, {"forward": low, "backward_input": low, "backward_weight": low}
    assert bubble_inside(simulate(make("zb_h1", p, m), Costs(**costs))) == (p - 1) * low
    assert bubble_inside(simulate(make("zb_h2", p, m), Costs(**costs))) == 0
    assert makespan("zb_h1", p, m, **costs) - m * 3 * low == (p - 1) * low  # a third of 1F1B's


@pytest.mark.parametrize(("f", "i", "w"), [(10, 11, 7), (10, 12, 9), (10, 10, 10)])
def test_zero_bubble_with_the_times_of_real_layers(f: int, i: int, w: int) -> None:
    costs = Costs(forward=f, backward_input=i, backward_weight=w)
    assert bubble_inside(simulate(make("zb_h1", 4, 12), costs)) == pytest.approx(3 * (f + i - w))
    assert bubble_inside(simulate(make("one_f_one_b", 4, 12), costs)) == pytest.approx(3 * (f + i + w))


@given(p=st.integers(1, 6), m=st.integers(1, 14), kept=st.integers(0, 3))
@quickly
def test_memory_of_the_zero_bubble_schedules(p: int, m: int, kept: int) -> None:
    """Qi et al. 2023: max over stages of (p - s) M_B + s M_W, and of (2(p - s) - 1) M_B + 2s M_W, with M_B = 3."""
    costs, m = Costs(memory=3, weight_memory=kept), m + 2 * p
    assert peak_memory(make("zb_h1", p, m), costs) == tuple((p - s) * 3 + s * kept for s in range(p))
    assert peak_memory(make("zb_h2", p, m), costs) == tuple((2 * (p - s) - 1) * 3 + 2 * s * kept for s in range(p))


@given(p=st.integers(1, 6), more=st.integers(0, 8))
@quickly
def test_zb_v_has_no_bubble_and_the_memory_of_1f1b(p: int, more: int) -> None:
    schedule = make("zb_v", p, 2 * p - 1 + more)
    assert bubble_inside(simulate(schedule)) == 0
    assert max(peak_memory(schedule)) <= 2 * p  # of half a stage each
    assert max(peak_memory(make("zb_v", p, 2 * p + more))) == 2 * p


@given(p=st.integers(1, 6), m=st.integers(1, 12))
@quickly
def test_pipedream_gradients_are_p_minus_1_minus_s_steps_old(p: int, m: int) -> None:
    """Narayanan et al. 2019, section 3.3."""
    old = staleness(make("pipedream", p, m + p))
    assert all(old[Action(s, "STEP", i)] == p - 1 - s for s in range(p) for i in range(p - 1, m + p))
    assert peak_microbatches(make("pipedream", p, m)) == tuple(min(m, p - s) for s in range(p))


@given(p=st.integers(1, 5), batches=st.integers(2, 4), more=st.integers(0, 3))
@quickly
def test_pipedream_2bw_is_one_step_old_everywhere(p: int, batches: int, more: int) -> None:
    """W(t+1) = W(t) - lr * gradient(W(t-1)), and two versions at a time."""
    b = p + more
    schedule = make("pipedream_2bw", p, b * batches, b)
    versions = weight_versions(schedule, hold_back=b)
    assert all(versions[Action(s, "F", i)] == max(0, i // b - 1) for s in range(p) for i in range(b * batches))
    old = staleness(schedule, hold_back=b)
    assert all(old[Action(s, "STEP", b * t + b - 1)] == min(t, 1) for s in range(p) for t in range(batches))


def test_case_p13_two_microbatches_in_flight_use_the_same_weights() -> None:
    versions = weight_versions(make("pipedream", 2, 2))
    assert [versions[Action(0, "F", i)] for i in (0, 1)] == [0, 0]  # stage 0 forwards both before its first step
    assert all(action.kind != "STEP" for line in make("one_f_one_b", 2, 2).ranks for action in line)  # a flush has one step, at the end


def test_case_p01_fewer_microbatches_than_stages_run_or_are_refused_in_words() -> None:
    for name in SCHEDULES:
        for p in (2, 3, 4):
            try:
                schedule = make(name, p, 1)
            except ValueError as refusal:
                assert f"{name}({p}, 1" in str(refusal) and ("needs" in str(refusal) or "would" in str(refusal))
            else:
                assert violations(schedule) == []


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("gpipe", (0, 4), "at least 1 rank"),
        ("chimera", (3, 4), "even number of ranks"),
        ("dual_pipe", (4, 7), "even number of micro-batches"),
        ("dual_pipe", (4, 6), "at least 8 micro-batches"),
        ("dual_pipe_v", (4, 7), "at least 8 micro-batches"),
        ("pipedream_2bw", (4, 8, 3), "a batch is at least 4"),
        ("pipedream_2bw", (4, 9, 4), "12 micro-batches would"),
        ("no_such", (4, 4), "there is no schedule 'no_such'"),
        ("interleaved", (2, 4, 0), "at least 1 stage"),
    ],
)
def test_sizes_for_which_there_is_no_such_schedule(name: str, arguments: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(name, *arguments)


def from_torch(name: str, p: int, m: int, stages_per_rank: int = 1) -> Schedule:
    """The order that torch 2.13's class computes, read as partkit reads it."""
    kind: Any = getattr(torchs, name)
    bare = kind.__new__(kind)
    bare.pp_group_size, bare._n_microbatches, bare.n_local_stages = p, m, stages_per_rank
    bare._num_stages = bare.num_stages = p * stages_per_rank
    bare._stages = [SimpleNamespace(group_size=p)] * stages_per_rank
    if name == "ScheduleInterleaved1F1B":
        bare.number_of_rounds = max(1, m // p)
        bare.microbatches_per_round = m // bare.number_of_rounds
    lines = bare._get_pipeline_order() if stages_per_rank == 1 else {rank: bare._calculate_single_rank_operations(rank) for rank in range(p)}
    text = "\n".join(f"rank {rank}: " + " ".join(str(action) for action in lines[rank] if action is not None) for rank in range(p))
    return Schedule.parse(text, num_microbatches=m)


def without_reductions(schedule: Schedule) -> Schedule:
    return take_overlaps_apart(schedule).with_ranks((a for a in line if a.kind != "REDUCE_GRAD") for line in take_overlaps_apart(schedule).ranks)


@pytest.mark.parametrize(
    ("theirs", "ours", "p", "m"),
    [
        ("ScheduleGPipe", "gpipe", 4, 6),
        ("ScheduleInterleaved1F1B", "interleaved", 4, 8),
        ("ScheduleInterleaved1F1B", "interleaved", 2, 3),
        ("ScheduleZBVZeroBubble", "zb_v", 4, 10),
        ("ScheduleZBVZeroBubble", "zb_v", 3, 2),
        ("ScheduleDualPipeV", "dual_pipe_v", 4, 10),
        ("ScheduleDualPipeV", "dual_pipe_v", 3, 6),
    ],
)
def test_torch_has_the_same_order(theirs: str, ours: str, p: int, m: int) -> None:
    schedule = from_torch(theirs, p, m, 1 if theirs == "ScheduleGPipe" else 2)
    assert split_backward(without_reductions(schedule)).ranks == split_backward(make(ours, p, m)).ranks


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (3, 3)])
def test_torchs_listing_of_1f1b_lacks_microbatch_0_on_the_last_rank(p: int, m: int) -> None:
    """torch 2.13: ``Schedule1F1B._get_pipeline_order`` numbers the last rank's forwards 1 to m."""
    wrong = violations(from_torch("Schedule1F1B", p, m))
    last = p - 1
    assert {(v.code, v.rank, str(v.action)) for v in wrong} == {("missing", last, f"{last}F0"), ("unknown", last, f"{last}F{m}"), *too_early(last, m)}
    assert f"there is no micro-batch {m}; the last is {m - 1}" in " ".join(v.reason for v in wrong)


def too_early(last: int, m: int) -> set[tuple[str, int, str]]:
    """Nothing else: every other backward of that rank still follows its forward."""
    return set()
