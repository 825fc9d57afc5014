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


def counted(size: int) -> dict[tuple[str, str], tuple[int, ...]]:
    """Each algorithm -> what each of so many ranks adds and copies."""
    ranks = SimulatedWorld(size).run(lambda comm: [touched(comm, *case) for case in CASES])
    return dict(zip(CASES, zip(*ranks, strict=True), strict=True))


@pytest.mark.parametrize("size", [2, 4, 8])
def test_ranks_add_and_copy_what_the_table_says(size: int) -> None:
    for case, by_rank in counted(size).items():
        busiest, together = local_bytes(*case, 8 * NUMEL, size)
        if size == 2 and case == ("all_reduce", "double_tree"):
            busiest *= 3 / 4  # nobody has two children
        assert (max(by_rank), sum(by_rank)) == (busiest, together), case


@pytest.mark.parametrize("size", [3, 6, 7])
def test_other_numbers_of_ranks_are_near(size: int) -> None:
    for case, by_rank in counted(size).items():
        busiest, together = local_bytes(*case, 8 * NUMEL, size)
        assert abs(max(by_rank) - busiest) <= 1.1 * 8 * NUMEL, case
        assert sum(by_rank) == pytest.approx(together, abs=8 * size), case  # blocks differ by an element where p does not divide n


def test_every_algorithm_of_an_operation_is_in_the_table() -> None:
    assert all(set(LOCAL[operation]) == set(COSTS[operation]) for operation in LOCAL)
    assert local_bytes("broadcast", "tree", 100, 4) == (0, 0)
    assert local_bytes("all_reduce", "ring", 100, 1) == (0, 0)


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


def test_on_shared_cores_what_all_ranks_pack_counts() -> None:
    """Measured with 8 ranks on two cores: all-to-all of 1 MB 10.0 ms pairwise, 12.5 ms by Bruck's way; reduce-scatter of 64 MB by the ring 0.87 of halving."""
    for operation, nbytes, best in (("all_to_all", 1_000_000, "pairwise"), ("reduce_scatter", 64_000_000, "ring")):
        assert choose(operation, nbytes, 8).best == best
        assert choose(operation, nbytes, 8, memory_bandwidth=1e15).best != best
