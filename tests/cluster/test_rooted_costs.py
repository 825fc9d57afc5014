"""The closed forms of reduce, scatter, gather and scan, against the rounds of messages that their pictures show."""

from __future__ import annotations

from itertools import product

import pytest

from partkit.cluster import COSTS, Link
from partkit.cluster.cost import Cost
from partkit.partition import block_sizes

LINK = Link(latency=1e-6, bandwidth=1e9)
OPERATIONS = ("reduce", "scatter", "gather", "scan", "exscan")
Rounds = list[list[tuple[int, int, int]]]


def doubling(size: int) -> list[int]:
    """1, 2, 4, ...: all powers of two below ``size``."""
    return [2**k for k in range(10) if 2**k < size]


def up(size: int, held: dict[int, int]) -> Rounds:
    """The tree from the leaves to the root; ``held[rank]``: bytes that a rank hands to its parent."""
    return [[(dst + far, dst, held[dst + far]) for dst in range(0, size, 2 * far) if dst + far < size] for far in doubling(size)]


def walked(operation: str, algorithm: str, numel: int, size: int) -> Rounds:
    nbytes, ranks = 4 * numel, range(1, size)
    blocks = [4 * n for n in block_sizes(numel, size)] if operation == "scatter" else [nbytes] * size
    if operation in ("scan", "exscan"):
        if algorithm == "linear":
            return [[(rank - 1, rank, nbytes)] for rank in ranks]
        return [[(rank - far, rank, nbytes) for rank in range(far, size)] for far in doubling(size)]
    if algorithm == "flat":
        return [[(0, rank, blocks[rank]) if operation == "scatter" else (rank, 0, blocks[rank])] for rank in ranks]
    held = {rank: nbytes if operation == "reduce" else sum(blocks[rank : rank + (rank & -rank)]) for rank in ranks}
    rounds = up(size, held)
    return [[(dst, src, sent) for src, dst, sent in round_] for round_ in reversed(rounds)] if operation == "scatter" else rounds


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_messages_of_the_pictures_walked_round_by_round(operation: str) -> None:
    for algorithm, form in COSTS[operation].items():
        for size, numel in product(range(2, 18), (0, 1, 7, 64, 1001)):
            cost, right = form(numel, 4, size, LINK), Cost.of_rounds(walked(operation, algorithm, numel, size), size, LINK)
            assert cost[:3] == right[:3], (algorithm, numel, size)
            assert cost.seconds == pytest.approx(right.seconds, rel=1e-12), (algorithm, numel, size)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_rank_sends_nothing(operation: str) -> None:
    assert {form(10, 4, 1, LINK) for form in COSTS[operation].values()} == {Cost((0,), (0,), 0, 0.0)}
