"""The closed forms of broadcast, against the rounds of messages that the pictures show."""

from __future__ import annotations

import pytest

from partkit.cluster import COSTS, Link
from partkit.cluster.cost import Cost
from partkit.cluster.segments import num_segments
from partkit.partition import block_sizes

LINK = Link(latency=1e-6, bandwidth=1e9)
BROADCAST = COSTS["broadcast"]
Rounds = list[list[tuple[int, int, int]]]


def halving(size: int) -> list[int]:
    """..., 4, 2, 1: all powers of two below ``size``."""
    return [2**k for k in reversed(range(10)) if 2**k < size]


def tree(size: int, nbytes: int) -> Rounds:
    return [[(src, src + far, nbytes) for src in range(0, size, 2 * far) if src + far < size] for far in halving(size)]


def chain(size: int, segments: list[int]) -> Rounds:
    steps = range(size - 2 + len(segments))
    return [[(hop, hop + 1, segments[step - hop]) for hop in range(size - 1) if 0 <= step - hop < len(segments)] for step in steps]


def scatter_all_gather(size: int, chunks: list[int]) -> Rounds:
    down = [[(src, src + far, sum(chunks[src + far : src + 2 * far])) for src in range(0, size, 2 * far) if src + far < size] for far in halving(size)]
    return down + [[(rank, (rank + 1) % size, chunks[(rank - step) % size]) for rank in range(size)] for step in range(size - 1)]


@pytest.mark.parametrize("numel", [0, 1, 7, 64, 10_001])
def test_the_messages_of_the_pictures_walked_round_by_round(numel: int) -> None:
    for size in range(2, 18):
        compare(numel, size)


def compare(numel: int, size: int) -> None:
    segments = [4 * n for n in block_sizes(numel, num_segments(numel, 4, size - 2, LINK))]
    walked = {
        "flat": [[(0, dst, 4 * numel)] for dst in range(1, size)],
        "tree": tree(size, 4 * numel),
        "chain": chain(size, segments),
        "scatter_all_gather": scatter_all_gather(size, [4 * n for n in block_sizes(numel, size)]),
    }
    for algorithm, rounds in walked.items():
        cost, right = BROADCAST[algorithm](numel, 4, size, LINK), Cost.of_rounds(rounds, size, LINK)
        assert cost[:3] == right[:3], (algorithm, size)
        assert cost.seconds == pytest.approx(right.seconds, rel=1e-12), (algorithm, size)


@pytest.mark.parametrize("algorithm", BROADCAST)
def test_one_rank_sends_nothing(algorithm: str) -> None:
    assert BROADCAST[algorithm](10, 4, 1, LINK) == ((0,), (0,), 0, 0.0)


@pytest.mark.parametrize("size", [3, 8, 17])
def test_a_long_tensor_takes_little_longer_than_once_over_the_link(size: int) -> None:
    numel = 100_000_000
    assert 1 < BROADCAST["chain"](numel, 4, size, LINK).seconds / LINK.seconds(4 * numel) < 1.02


@pytest.mark.parametrize("size", [3, 8, 17])
def test_nothing_is_faster_than_the_tree_for_a_short_one(size: int) -> None:
    seconds = {algorithm: cost(1, 4, size, LINK).seconds for algorithm, cost in BROADCAST.items()}
    assert seconds["tree"] == pytest.approx(min(seconds.values()), rel=1e-12)
