"""scatter and reduce_scatter cut by sizes that the caller states: the inverses of gather and all_gather of unequal pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import partkit as pk
from partkit.communicator import Communicator
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld

SIZES = [0, 3, 1, 2]
ALGORITHMS = {"scatter": ("flat", "tree"), "reduce_scatter": ("ring", "recursive_halving")}
CASES = [(name, algorithm) for name, algorithms in ALGORITHMS.items() for algorithm in algorithms]


def whole(rank: int) -> torch.Tensor:
    """A tensor of each rank. Shape (2, 6)."""
    return torch.arange(12).view(2, 6) + 100 * rank


@pytest.mark.parametrize(("name", "algorithm"), CASES)
def test_each_rank_gets_as_much_as_was_said(name: str, algorithm: str) -> None:
    def run(comm: Communicator) -> torch.Tensor:
        result: torch.Tensor = getattr(pk, name)(whole(comm.rank), comm, dim=1, sizes=SIZES, algorithm=algorithm)
        return result

    expected = whole(0) if name == "scatter" else sum(map(whole, range(4)))
    with SimulatedWorld(4) as world:
        for found, block in zip(world.run(run), torch.split(torch.as_tensor(expected), SIZES, dim=1), strict=True):
            assert torch.equal(found, block) and found.is_contiguous()


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([2, 2, 2], r"\(sizes=\[2, 2, 2\]\): give the extent along dim 1 of each of the 4 ranks, at least 0"),
        ([7, 1, -1, -1], r"\(sizes=\[7, 1, -1, -1\]\): give the extent along dim 1 of each of the 4 ranks, at least 0"),
        ([1, 1, 1, 1], r"\(sizes=\[1, 1, 1, 1\]\) of int64\[2, 6\]: they add up to 4, but x has 6 along dim 1"),
    ],
)
def test_sizes_that_cannot_be_are_refused(name: str, sizes: list[int], words: str) -> None:
    operation: Callable[..., Any] = getattr(pk, name)
    with SimulatedWorld(4) as world, pytest.raises(RankError, match=words):
        world.run(lambda comm: operation(whole(0), comm, dim=1, sizes=sizes))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_ranks_that_state_different_sizes_never_exchange_a_byte(name: str) -> None:
    operation: Callable[..., Any] = getattr(pk, name)
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck, match=r"dim 0 in \[2, 4\][^$]*dim 0 in \[4, 2\]"):
        world.run(lambda comm: operation(torch.ones(6), comm, sizes=[[2, 4], [4, 2]][comm.rank]))
