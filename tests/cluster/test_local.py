"""What ranks add and copy is counted on simulated ranks, byte by byte; and it decides where messages take equally long."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import partkit as pk
from partkit.cluster import COSTS, Link
from partkit.cluster.costs.local import LOCAL, local_bytes
from partkit.collectives.choosing import choose
from partkit.communicator import Communicator
from partkit.worlds.simulated import SimulatedWorld

NUMEL = 64
CASES = [(operation, algorithm) for operation in LOCAL for algorithm in LOCAL[operation]]


class Touched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of what is added or copied."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nbytes: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("add", "add_", "clone", "copy_", "cat"):
            self.nbytes += result.nbytes
        return result


def touched(comm: Communicator, operation: str, algorithm: str) -> int:
    x, extra = torch.ones(NUMEL, dtype=torch.float64), {"root": 0} if operation == "reduce" else {}
    with Touched() as count:
        getattr(pk, operation)(x, comm, algorithm=algorithm, **extra)
    return int(count.nbytes)


def by_busiest(size: int) -> dict[tuple[str, str], int]:
    """Each algorithm -> what it lets the busiest of so many ranks add and copy."""
    ranks = SimulatedWorld(size).run(lambda comm: [touched(comm, *case) for case in CASES])
    return {case: max(counts) for case, counts in zip(CASES, zip(*ranks, strict=True), strict=True)}


@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_busiest_rank_adds_and_copies_what_the_table_says(size: int) -> None:
    predicted = {case: local_bytes(*case, 8 * NUMEL, size) for case in CASES}
    if size == 2:
        predicted["all_reduce", "double_tree"] *= 3 / 4  # nobody has two children
    assert by_busiest(size) == predicted


@pytest.mark.parametrize("size", [3, 6, 7])
def test_other_numbers_of_ranks_are_near(size: int) -> None:
    for case, counted in by_busiest(size).items():
        assert abs(counted - local_bytes(*case, 8 * NUMEL, size)) <= 1.1 * 8 * NUMEL, case


def test_every_algorithm_of_an_operation_is_in_the_table() -> None:
    assert all(set(LOCAL[operation]) == set(COSTS[operation]) for operation in LOCAL)
    assert local_bytes("broadcast", "tree", 100, 4) == 0
    assert local_bytes("all_reduce", "ring", 100, 1) == 0


@pytest.mark.parametrize("nbytes", [1_000_000, 64_000_000])
def test_two_ranks_do_not_send_everything_at_once_to_add_it_twice(nbytes: int) -> None:
    """Sending all in one message takes as long as two halves, but for a latency that is nothing here; it adds and copies more."""
    choice = choose("all_reduce", nbytes, 2)
    assert choice.best == "ring"
    assert choice.local["recursive_doubling"] == 4 * choice.local["ring"]
    assert choose("all_reduce", nbytes, 2, memory_bandwidth=1e15).best != "ring"  # memory that costs nothing: the latency decides


def test_blocks_that_are_packed_pay_for_it() -> None:
    link = Link(2e-4, 1e9)
    assert choose("all_to_all", 1_000_000, 8, link).best == "pairwise"
    assert choose("all_to_all", 64_000, 8, link).best == "bruck"
    assert choose("all_to_all", 1_000_000, 8, link, memory_bandwidth=1e15).best == "bruck"
