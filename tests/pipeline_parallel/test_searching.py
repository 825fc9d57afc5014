"""The search against brute force, the known optima, and its own bound."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import Link
from partkit.pipeline_parallel import Costs, InvalidSchedule, Problem, make, peak_memory, recognize, search, simulate, violations
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.searching.bound import lower_bound
from partkit.pipeline_parallel.searching.exact import solve
from partkit.pipeline_parallel.searching.greedy import greedy
from tests.pipeline_parallel.sizes import quickly


def brute_force(problem: Problem) -> float:
    """The best of all orders of all ranks."""
    best = float("inf")
    lines = [[a for a in problem.actions if problem.placement[a.stage] == rank] for rank in range(problem.num_ranks)]
    for orders in product(*(list(permutations(line)) for line in lines)):
        schedule = Schedule(orders, problem.placement, problem.num_microbatches)
        try:
            makespan = simulate(schedule, problem.costs, problem.link).makespan
        except InvalidSchedule:
            continue
        if makespan < best and not violations(schedule, costs=problem.costs, memory_cap=problem.memory_cap):
            best = makespan
    return best


@pytest.mark.parametrize("cap", [None, 1])
@pytest.mark.parametrize("costs", [Costs(), Costs(forward=[1, 3], backward=[4, 2]), Costs(forward=[2, 1], backward=[1, 5], activation_bytes=1)])
def test_the_solver_finds_what_brute_force_finds(costs: Costs, cap: float | None) -> None:
    problem = Problem((0, 1), 2, costs, memory_cap=cap, link=Link(0.0, 2.0), split=False)
    found = search(problem)
    assert found.makespan == pytest.approx(brute_force(problem)) and found.gap == pytest.approx(0, abs=1e-9)


def test_split_backward_against_brute_force() -> None:
    problem = Problem((0, 1), 1, Costs(forward=[1, 2], backward_input=[2, 1], backward_weight=[3, 2]))
    assert search(problem).makespan == brute_force(problem)


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (Problem((0, 1, 2, 3), 8, memory_cap=4, split=False), "1F1B"),
        (Problem((0, 1, 2), 6, memory_cap=3), "ZB-H1"),
    ],
)
def test_what_is_known_to_be_best_is_found_and_named(problem: Problem, name: str) -> None:
    found = search(problem)
    assert (found.name, found.gap) == (name, 0)
    assert found.bound == lower_bound(problem)


def test_less_memory_than_1f1b_takes_longer_and_is_proved_to() -> None:
    found = search(Problem((0, 1, 2), 4, memory_cap=2, split=False), seconds=20)
    assert max(peak_memory(found.schedule)) <= 2
    assert found.makespan > lower_bound(Problem((0, 1, 2), 4, split=False)) and found.gap == 0


def test_uneven_stages_are_scheduled_better_than_by_any_known_order() -> None:
    """A heavy last stage, and memory for two micro-batches: the search beats 1F1B and ZB-H1."""
    costs = Costs(forward=[1, 1, 2], backward_input=[1, 1, 2], backward_weight=[1, 1, 1])
    found = search(Problem((0, 1, 2), 4, costs, memory_cap=3), seconds=20)
    assert violations(found.schedule, costs=costs, memory_cap=3) == []
    assert found.makespan <= min(simulate(make(name, 3, 4), costs).makespan for name in ("one_f_one_b", "zb_h1"))


@given(p=st.integers(1, 6), m=st.integers(1, 24), split=st.booleans(), spare=st.integers(0, 4), seed=st.integers(0, 99))
@quickly
def test_greed_keeps_to_memory_and_never_beats_the_bound(p: int, m: int, split: bool, spare: int, seed: int) -> None:
    costs = Costs(forward=[1 + (seed * s) % 3 for s in range(p)], backward_input=[1 + (seed + s) % 2 for s in range(p)])
    problem = Problem(tuple(range(p)), m, costs, memory_cap=1 + spare, split=split)
    for schedule in greedy(problem):
        assert violations(schedule, memory_cap=1 + spare) == []
        assert simulate(schedule, costs).makespan >= lower_bound(problem)


def test_greed_goes_round_a_v() -> None:
    schedules = list(greedy(Problem((0, 1, 2, 2, 1, 0), 8, memory_cap=6)))
    assert schedules and all(violations(schedule, memory_cap=6) == [] for schedule in schedules)


def test_a_large_problem_has_a_stated_gap() -> None:
    found = search(Problem(tuple(range(8)), 64, Costs(forward=[1, 2, 1, 1, 1, 1, 1, 1]), memory_cap=15))
    assert 0 <= found.gap < 0.1 and found.makespan == simulate(found.schedule, Costs(forward=[1, 2, 1, 1, 1, 1, 1, 1])).makespan


def test_costs_that_are_not_whole_keep_the_bound_a_bound() -> None:
    costs = Costs(forward=0.12345678, backward=0.98765432)
    problem = Problem((0, 1), 2, costs, split=False)
    proof = solve(problem, known=10.0, seconds=10)
    assert proof.schedule is not None
    assert proof.bound <= simulate(proof.schedule, costs).makespan == pytest.approx(proof.bound, rel=1e-4)


def test_what_nothing_fits_in_is_refused() -> None:
    with pytest.raises(ValueError, match="one micro-batch alone keeps up to 2 on a rank"):
        Problem((0, 1, 1, 0), 4, memory_cap=1)
    with pytest.raises(ValueError, match="every rank from 0 on holds a stage"):
        Problem((0, 2), 4)


def test_names_of_what_somebody_has_built() -> None:
    assert recognize(make("one_f_one_b", 4, 8)) == "1F1B" and recognize(make("interleaved", 2, 4, 3)) == "interleaved 1F1B"
    assert recognize(make("chimera", 4, 8)) == "Chimera"
    swapped = make("gpipe", 2, 2).with_ranks([[Action(0, "F", 1), *make("gpipe", 2, 2).ranks[0][::2]], make("gpipe", 2, 2).ranks[1]])
    assert recognize(swapped) is None
