"""Cases that concern all collectives alike: unequal and empty pieces, dtypes, and who owns which piece."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import partkit as pk
from partkit.cluster import COSTS
from partkit.collectives.reducing import OPS
from partkit.communicator import Communicator
from partkit.partition import block_range, block_sizes
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.inputs import dtypes, moved, same, summand

Live = Callable[[int], World]
MOVING = ("broadcast", "scatter", "gather", "all_gather", "all_to_all")
COMBINING = ("reduce", "all_reduce", "reduce_scatter", "scan", "exscan")
EVERY = [(operation, algorithm) for operation in (*MOVING, *COMBINING) for algorithm in (*COSTS[operation], "auto")]
NATIVE = [(operation, algorithm) for operation, algorithm in EVERY if algorithm != "auto"] + [
    (operation, "native") for operation in (*MOVING, *COMBINING) if not operation.endswith("scan")
]
JOINING = [(operation, algorithm) for operation in ("gather", "all_gather") for algorithm in (*COSTS[operation], "native")]


def call(operation: str, x: Tensor, comm: Communicator, **arguments: Any) -> Any:
    return getattr(pk, operation)(x, comm, **arguments)


def expected(operation: str, parts: list[Tensor], rank: int) -> Tensor | None:
    """The serial answer on ``rank``, along dim 0, for sums."""
    size = len(parts)
    cut = [torch.split(part, list(block_sizes(len(part), size)))[rank] for part in parts]
    so_far = sum(parts[1 : rank + 1], start=parts[0]) if parts[0].dtype != torch.bool else torch.stack(parts[: rank + 1]).any(0)
    total = sum(parts[1:], start=parts[0]) if parts[0].dtype != torch.bool else torch.stack(parts).any(0)
    before = torch.zeros_like(total) if rank == 0 else expected("scan", parts, rank - 1)
    answers: dict[str, Tensor | None] = {
        "broadcast": parts[0],
        "scatter": cut[0],
        "gather": torch.cat(parts) if rank == 0 else None,
        "all_gather": torch.cat(parts),
        "all_to_all": torch.cat(cut),
        "reduce": total if rank == 0 else None,
        "all_reduce": total,
        "reduce_scatter": torch.split(total, list(block_sizes(len(total), size)))[rank],
        "scan": so_far,
        "exscan": before,
    }
    return answers[operation]


# -- H07: unequal pieces ---------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize(("operation", "algorithm"), JOINING)
def test_case_H07_unequal_pieces_are_joined_if_their_sizes_are_known_or_asked_for(live_world: Live, operation: str, algorithm: str) -> None:
    def join(comm: Communicator) -> list[list[int] | None]:
        x = torch.arange(3 - comm.rank)
        results = [call(operation, x, comm, sizes=sizes, algorithm=algorithm) for sizes in ([3, 2], "ask")]
        return [None if result is None else result.tolist() for result in results]

    whole = [[0, 1, 2, 0, 1]] * 2
    assert list(live_world(2).run(join)) == [whole, [None, None] if operation == "gather" else whole]


@pytest.mark.live
@pytest.mark.parametrize(("operation", "algorithm"), JOINING)
def test_case_H07_unequal_pieces_that_nobody_told_of_are_refused_with_the_way_out(live_world: Live, operation: str, algorithm: str) -> None:
    world = live_world(2)
    with pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: call(operation, torch.arange(3 - comm.rank), comm, algorithm=algorithm))
    for rank in range(2):
        words = rf"rank {rank}: {operation} #1 of int64\[{3 - rank}\] \(pieces of one size; for others pass sizes=\[\.\.\.\] or sizes='ask'\)"
        assert re.search(words, str(caught.value)), str(caught.value)
    assert list(world.run(lambda comm: comm.rank)) == [0, 1]


# -- H08: empty pieces -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "algorithm"), EVERY)
def test_case_H08_empty_tensors_and_more_ranks_than_rows(operation: str, algorithm: str) -> None:
    def run(comm: Communicator) -> list[bool]:
        good = []
        for shape in ((0,), (1, 0, 2), (0, 3), (2, 3), (1,)):
            parts = [torch.arange(torch.Size(shape).numel()).view(shape) + rank for rank in range(comm.size)]
            result, right = call(operation, parts[comm.rank], comm, algorithm=algorithm), expected(operation, parts, comm.rank)
            good.append(result is None if right is None else same(result, right))
        return good

    with SimulatedWorld(3) as world:
        assert list(world.run(run)) == [[True] * 5] * 3


@pytest.mark.live
def test_case_H08_the_same_on_the_wire(live_world: Live) -> None:
    def run(comm: Communicator) -> list[str]:
        wrong = []
        for operation in (*MOVING, *COMBINING):
            for algorithm in (*COSTS[operation], "native") if operation not in ("scan", "exscan") else COSTS[operation]:
                for shape in ((1, 0, 2), (2, 3)):
                    parts = [torch.arange(torch.Size(shape).numel()).view(shape) + rank for rank in range(comm.size)]
                    result, right = call(operation, parts[comm.rank], comm, algorithm=algorithm), expected(operation, parts, comm.rank)
                    wrong += [] if (result is None and right is None) or (right is not None and same(result, right)) else [f"{operation} {algorithm} {shape}"]
        return wrong

    assert list(live_world(3).run(run)) == [[]] * 3


@pytest.mark.live
def test_case_H08_two_rows_over_three_ranks_come_back_exactly(live_world: Live) -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def there_and_back(comm: Communicator) -> tuple[list[int], list[list[float]]]:
        mine = pk.scatter(rows, comm)
        return list(mine.shape), pk.all_gather(mine, comm, sizes=block_sizes(2, comm.size)).tolist()

    assert list(live_world(3).run(there_and_back)) == [([n, 2], rows.tolist()) for n in (1, 1, 0)]


# -- H09: dtypes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "algorithm"), [(o, a) for o, a in EVERY if o in MOVING])
def test_case_H09_whatever_torch_can_hold_is_moved(operation: str, algorithm: str) -> None:
    def run(comm: Communicator) -> list[torch.dtype]:
        wrong = []
        for dtype in dtypes():
            parts = [moved(rank, (4, 2), dtype) for rank in range(comm.size)]
            result = call(operation, parts[comm.rank], comm, algorithm=algorithm)
            right = by_bytes(operation, parts, comm.rank)
            wrong += [] if (result is None and right is None) or (right is not None and raw(result) == right) else [dtype]
        return wrong

    with SimulatedWorld(2) as world:
        assert list(world.run(run)) == [[], []]


def raw(x: Tensor) -> list[list[int]]:
    """The bytes of each row: some dtypes can't even be joined by torch."""
    rows: list[list[int]] = x.view(torch.uint8).reshape(len(x), -1).tolist()
    return rows


def by_bytes(operation: str, parts: list[Tensor], rank: int) -> list[list[int]] | None:
    right = expected(operation, [torch.tensor(raw(part)) for part in parts], rank)
    return None if right is None else right.tolist()


@pytest.mark.parametrize(("operation", "algorithm"), [(o, a) for o, a in EVERY if o in COMBINING])
def test_case_H09_the_table_of_dtypes_holds_for_everything_that_combines(operation: str, algorithm: str) -> None:
    """`partkit.collectives.reducing` states what can be summed; the table itself is held to its text in test_all_reduce.py."""

    def run(comm: Communicator) -> dict[torch.dtype, str]:
        found = {}
        for dtype in dtypes():
            parts = [summand(rank, (3, 2), dtype) if dtype in OPS else moved(rank, (3, 2), dtype) for rank in range(comm.size)]
            try:
                result = call(operation, parts[comm.rank], comm, algorithm=algorithm)
            except ValueError as refusal:
                found[dtype] = str(refusal)
                continue
            right = expected(operation, parts, comm.rank)
            found[dtype] = "right" if (result is None and right is None) or (right is not None and same(result, right)) else "wrong"
        return found

    with SimulatedWorld(2) as world:
        for found in world.run(run):
            for dtype, answer in found.items():
                name = str(dtype).removeprefix("torch.")
                assert answer == "right" if dtype in OPS else f"{operation} of {name}[3, 2]: {name} can't be combined" in answer, (dtype, answer)


# -- N12, N14: uneven shards -----------------------------------------------------------------------------------------


def mean_of_shards(shard: Tensor, comm: Communicator) -> Tensor:
    """Right for any shards, empty ones too: add up sums and counts, divide once."""
    both = pk.all_reduce(torch.stack([shard.sum(), torch.tensor(float(shard.numel()))]), comm)
    return both[0] / both[1]


@pytest.mark.live
def test_case_N12_the_mean_of_uneven_shards_is_sum_over_count(live_world: Live) -> None:
    def means(comm: Communicator) -> tuple[float, float, float, float, float]:
        shards = [whole[block_range(len(whole), comm.size, comm.rank)] for whole in (torch.arange(12.0).view(3, 4), torch.arange(4.0).view(1, 4))]
        first, second = shards
        of_means = pk.all_reduce(first.mean(), comm, "mean").item()
        deviations = mean_of_shards((first - mean_of_shards(first, comm)) ** 2, comm).item()
        largest = pk.all_reduce(second.max() if len(second) else torch.tensor(float("-inf")), comm, "max").item()
        return mean_of_shards(first, comm).item(), of_means, mean_of_shards(second, comm).item(), deviations, largest

    variance = torch.arange(12.0).var(correction=0).item()
    for found in live_world(2).run(means):
        assert found == pytest.approx((5.5, 6.5, 1.5, variance, 3.0))


@pytest.mark.parametrize("size", range(1, 5))
def test_case_N14_one_rule_says_who_owns_which_piece_everywhere(size: int) -> None:
    """Offsets are the running sum of the sizes, pieces join to the original, ranks with nothing take part."""

    def check(comm: Communicator) -> list[str]:
        wrong = []
        for n in range(1, 10):
            whole = torch.arange(n)
            mine = whole[block_range(n, comm.size, comm.rank)]
            owned = {
                "scatter": pk.scatter(whole, comm),
                "reduce_scatter": pk.reduce_scatter(whole, comm, "max"),
                "all_to_all": pk.all_to_all(whole, comm).view(comm.size, -1)[0],
            }
            wrong += [f"{n} rows, {name}: {got}" for name, got in owned.items() if not torch.equal(got, mine)]
            wrong += [f"{n} rows joined"] if not torch.equal(pk.all_gather(mine, comm, sizes=block_sizes(n, comm.size)), whole) else []
            starts = pk.exscan(torch.tensor([len(mine)]), comm)
            wrong += [f"{n} rows: starts at {starts}"] if len(mine) and starts.item() != mine[0] else []
        return wrong

    with SimulatedWorld(size) as world:
        assert list(world.run(check)) == [[]] * size


def test_case_N14_the_rule_is_the_documented_one() -> None:
    assert (block_sizes(5, 4), block_sizes(9, 4)) == ((2, 1, 1, 1), (3, 2, 2, 2))


def test_case_H07_sizes_that_do_not_fit_the_piece_are_refused_before_anything_is_sent() -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=r"rank 0: ValueError: gather\(sizes=\[3, 3\]\): rank 0 passes int64\[2\], .* is 2, not 3"):
            world.run(lambda comm: pk.gather(torch.arange(2), comm, sizes=[3, 3]))
        assert world.trace.num_messages() == 0


@pytest.mark.parametrize("sizes", [[2.5, 2.5], [2.0, 3.0], 5, ["2", "3"], torch.tensor([2.0, 3.0])], ids=str)
@pytest.mark.parametrize("operation", ["gather", "all_gather", "scatter", "reduce_scatter", "all_to_all_v"])
def test_case_H07_sizes_that_are_no_whole_numbers_are_refused_and_never_cut_off(operation: str, sizes: Any) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RankError, match=rf"TypeError: {operation}\(.*of the 2 ranks, in a list of whole numbers"):
        world.run(lambda comm: getattr(pk, operation)(torch.arange(5), comm, **{"send_sizes" if operation == "all_to_all_v" else "sizes": sizes}))
    assert world.trace.num_messages() == 0


# -- H10: strides ----------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize(("operation", "algorithm"), NATIVE)
def test_case_H10_one_element_may_have_any_stride(operation: str, algorithm: str, live_world: Live) -> None:
    """torch calls it contiguous whatever its stride, and then refuses to see it as bytes."""
    parts = [torch.arange(4.0)[rank::2][:1] for rank in range(2)]
    assert parts[0].stride() == (2,) and parts[0].is_contiguous()
    for rank, result in enumerate(live_world(2).run(lambda comm: call(operation, parts[comm.rank], comm, algorithm=algorithm))):
        right = expected(operation, parts, rank)
        assert (result is None and right is None) or (right is not None and torch.equal(result, right))


# -- tensors without numbers -----------------------------------------------------------------------------------------


@pytest.mark.live
def test_tensors_without_numbers_are_refused_where_they_would_travel(live_world: Live) -> None:
    """gloo ends the process that hands it such a tensor."""

    def each(comm: Communicator) -> list[tuple[str, str]]:
        accepted = []
        for operation, algorithm in [*EVERY, *NATIVE]:
            try:
                call(operation, torch.ones(4, device="meta"), comm, algorithm=algorithm)
                accepted.append((operation, algorithm))
            except ValueError as refusal:
                assert "on the meta device: it has a shape but no numbers" in str(refusal)
        return accepted

    world = live_world(2)
    before = world.pids
    assert list(world.run(each)) == [[], []]
    assert world.pids == before
