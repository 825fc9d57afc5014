"""The closed forms of all-reduce. That runs show the same messages, bytes and seconds is tested with the collectives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, Link
from partkit.cluster.costs.all_reduce import ranks_per_node_by_default, two_level_all_reduce
from partkit.cluster.costs.double_tree import MOST_SEGMENTS, _walked, segments_of_tree
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


@given(st.sampled_from(sorted(ALL_REDUCE)), st.integers(0, 50), st.integers(1, 17))
def test_every_rank_must_send_and_receive_what_it_takes(algorithm: str, numel: int, size: int) -> None:
    """Nobody can have everyone's part before log2(p) steps; the parts of all but one of p ranks must move, and results go back."""
    cost = ALL_REDUCE[algorithm](numel, 4, size, LINK)
    assert cost.steps >= (size - 1).bit_length()
    assert sum(cost.bytes_sent) >= 2 * (size - 1) * numel * 4
    assert cost.seconds * (1 + 1e-9) >= max(cost.bytes_sent) / LINK.bandwidth + max(cost.messages) * LINK.latency


@given(st.integers(0, 50), st.integers(1, 16))
def test_uneven_chunks_change_who_sends_not_how_much_is_sent(numel: int, size: int) -> None:
    for algorithm in ("ring", "reduce_broadcast", "hierarchical", "double_tree"):
        assert sum(ALL_REDUCE[algorithm](numel, 4, size).bytes_sent) == 2 * (size - 1) * numel * 4, algorithm
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


@pytest.mark.parametrize("size", [3, 4, 8, 16])
def test_two_trees_need_little_more_than_the_time_of_twice_the_tensor(size: int) -> None:
    cost = ALL_REDUCE["double_tree"](102_400_000, 1, size, LINK)
    assert 0.2048 < cost.seconds < 0.21
    assert max(cost.bytes_sent) <= 204_800_000 * (1 + 1e-5)


def test_segments_of_two_trees_are_the_best_number_there_is() -> None:
    for size, numel in ((4, 10_000), (8, 1_000_000), (17, 300_000)):
        chosen = segments_of_tree(numel, 4, size, LINK)
        seconds = {s: _walked(numel, 4, size, s, LINK).seconds for s in range(max(1, chosen - 2), chosen + 3)}
        assert seconds[chosen] <= min(seconds.values()) * 1.01
    assert segments_of_tree(1, 4, 8, LINK) == 1
    assert segments_of_tree(10**9, 4, 8, Link(latency=0.0, bandwidth=1e9)) == MOST_SEGMENTS


@pytest.mark.parametrize(("size", "node"), [(8, 4), (12, 3), (6, 6), (6, 1)])
def test_two_levels_take_the_time_of_their_three_parts(size: int, node: int) -> None:
    """Sizes that divide: ring times with the link of each part, one after the other."""
    inside, between, numel = Link(1e-6, 1e10), Link(1e-4, 1e9), 12_000
    chunk = 4 * numel / node
    parts = 2 * (node - 1) * inside.seconds(chunk), 2 * (size // node - 1) * between.seconds(chunk / (size // node))
    assert two_level_all_reduce(numel, 4, size, node, inside, between).seconds == pytest.approx(sum(parts), rel=1e-12)


def test_nodes_by_default_divide_the_ranks() -> None:
    assert all(size % ranks_per_node_by_default(size) == 0 and ranks_per_node_by_default(size) ** 2 <= size for size in range(1, 50))
