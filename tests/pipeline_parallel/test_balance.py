"""The cut that dynamic programming finds is as good as the best of all cuts."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.pipeline_parallel.balance import balance
from tests.pipeline_parallel.sizes import quickly


def slowest(costs: list[int], starts: list[int], memory: list[int], cap: float) -> float:
    bounds = [0, *starts, len(costs)]
    parts = list(pairwise(bounds))
    return inf if any(sum(memory[a:b]) > cap for a, b in parts) else max(sum(costs[a:b]) for a, b in parts)


@quickly
@given(st.data())
def test_equal_to_brute_force(data: st.DataObject) -> None:
    costs = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=8))
    memory = data.draw(st.lists(st.integers(0, 9), min_size=len(costs), max_size=len(costs)))
    num_stages, cap = data.draw(st.integers(1, len(costs))), data.draw(st.integers(1, 30))
    best = min(slowest(costs, list(cut), memory, cap) for cut in combinations(range(1, len(costs)), num_stages - 1))
    if best == inf:
        with pytest.raises(ValueError, match=f"no cut in {num_stages} stages keeps to cap={cap}"):
            balance(costs, num_stages, memory=memory, cap=cap)
    else:
        found = balance(costs, num_stages, memory=memory, cap=cap)
        assert len(found) == num_stages - 1 and found == sorted(set(found))
        assert slowest(costs, found, memory, cap) == best


@quickly
@given(st.data())
def test_equal_to_brute_force_with_microbatches_in_flight(data: st.DataObject) -> None:
    costs = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=7))
    memory, kept = (data.draw(st.lists(st.integers(0, 9), min_size=len(costs), max_size=len(costs))) for _ in range(2))
    num_stages, cap = data.draw(st.integers(1, len(costs))), data.draw(st.integers(1, 60))
    alive = data.draw(st.lists(st.integers(1, 4), min_size=num_stages, max_size=num_stages))

    def slowest_of(cut: tuple[int, ...]) -> float:
        parts = list(pairwise([0, *cut, len(costs)]))
        too_much = any(sum(memory[a:b]) + times * sum(kept[a:b]) > cap for times, (a, b) in zip(alive, parts, strict=True))
        return inf if too_much else max(sum(costs[a:b]) for a, b in parts)

    best = min(slowest_of(cut) for cut in combinations(range(1, len(costs)), num_stages - 1))
    if best == inf:
        with pytest.raises(ValueError, match="no cut in"):
            balance(costs, num_stages, memory=memory, kept=kept, alive=alive, cap=cap)
    else:
        assert slowest_of(tuple(balance(costs, num_stages, memory=memory, kept=kept, alive=alive, cap=cap))) == best


@quickly
@given(st.data())
def test_equal_to_brute_force_where_stages_count_differently(data: st.DataObject) -> None:
    costs = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=7))
    num_stages = data.draw(st.integers(1, len(costs)))
    scale = data.draw(st.lists(st.integers(1, 4), min_size=num_stages, max_size=num_stages))

    def largest(cut: tuple[int, ...]) -> int:
        return max(times * sum(costs[a:b]) for times, (a, b) in zip(scale, pairwise([0, *cut, len(costs)]), strict=True))

    best = min(map(largest, combinations(range(1, len(costs)), num_stages - 1)))
    assert largest(tuple(balance(costs, num_stages, scale=scale))) == best


def test_a_cap_for_each_stage() -> None:
    assert balance([1, 1, 1, 1], 2, memory=[1, 1, 1, 1], cap=[1, 3]) == [1]
    with pytest.raises(ValueError, match="one for each of the 2 stages"):
        balance([1, 1], 2, cap=[1, 2, 3])


def test_too_few_layers() -> None:
    with pytest.raises(ValueError, match="2 layers can't be cut in 3 stages"):
        balance([1, 1], 3)
