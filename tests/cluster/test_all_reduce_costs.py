"""The closed forms of all-reduce. That runs show the same messages and bytes is tested with the collectives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, Link
from partkit.partition import block_range

LINK = Link(latency=1e-6, bandwidth=1e9)
ALL_REDUCE = COSTS["all_reduce"]
naive_all_reduce, ring_all_reduce = ALL_REDUCE["naive"], ALL_REDUCE["ring"]


@given(st.integers(1, 50), st.integers(2, 16), st.sampled_from([1, 2, 4, 8]))
def test_the_ring_moves_what_no_algorithm_can_undercut(multiple: int, size: int, itemsize: int) -> None:
    nbytes = multiple * size * itemsize
    cost = ring_all_reduce(multiple * size, itemsize, size, LINK)
    assert cost.bytes_sent == (2 * (size - 1) * nbytes // size,) * size
    assert cost.steps == 2 * (size - 1) and cost.messages == (cost.steps,) * size
    assert cost.seconds == pytest.approx(2 * (size - 1) * (LINK.latency + nbytes / (size * LINK.bandwidth)))


@given(st.integers(0, 50), st.integers(1, 16))
def test_uneven_chunks_change_who_sends_not_how_much_is_sent(numel: int, size: int) -> None:
    assert sum(ring_all_reduce(numel, 4, size).bytes_sent) == 2 * (size - 1) * numel * 4
    assert sum(naive_all_reduce(numel, 4, size).bytes_sent) == size * (size - 1) * numel * 4


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
def test_one_rank_sends_nothing(algorithm: str) -> None:
    assert ALL_REDUCE[algorithm](10, 4, 1, LINK) == ((0,), (0,), 0, 0.0)


def test_naive_wins_where_latency_counts_and_ring_where_bandwidth_counts() -> None:
    small, large = 16, 1_000_000
    assert naive_all_reduce(small, 4, 8, LINK).seconds < ring_all_reduce(small, 4, 8, LINK).seconds
    assert naive_all_reduce(large, 4, 8, LINK).seconds > ring_all_reduce(large, 4, 8, LINK).seconds


@pytest.mark.parametrize("size", range(2, 8))
@pytest.mark.parametrize("numel", [0, 1, 5, 7, 12, 100])
def test_each_rank_of_the_ring_sends_the_chunks_that_the_picture_says(numel: int, size: int) -> None:
    """The table in collectives/all_reduce.py, walked step by step: uneven chunks tell the ranks apart."""
    chunks = [4 * len(block_range(numel, size, rank)) for rank in range(size)]
    steps = range(1, size)
    walked = [sum(chunks[(r - s) % size] + chunks[(r - s + 1) % size] for s in steps) for r in range(size)]
    assert ring_all_reduce(numel, 4, size).bytes_sent == tuple(walked)
