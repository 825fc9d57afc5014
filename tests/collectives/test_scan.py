"""Scan and exscan: the serial prefixes, by exactly the messages, bytes and seconds of the closed form."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partkit.cluster import COSTS
from partkit.collectives import scan as module
from partkit.collectives.reducing import OPS
from partkit.collectives.scan import ALGORITHMS, exscan, scan
from partkit.communicator import Communicator, NotInGroup
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, close, combinable, groups, new, same, serial, shapes, summand
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
SCAN = COSTS["scan"]
OPERATIONS: dict[str, Any] = {"scan": scan, "exscan": exscan}


def scan_one(comm: Communicator, ranks: list[int], operation: str, case: tuple[Any, ...], op: Any, algorithm: str) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is."""
    group = comm.subgroup(ranks)
    if comm.rank not in group:
        return ""
    x = summand(group.rank, *case)
    result = OPERATIONS[operation](x, group, op, algorithm)
    parts = [summand(rank, *case) for rank in range(group.rank + (operation == "scan"))]
    right = serial(parts, op) if parts else torch.full(x.shape, neutral(x.dtype, op), dtype=x.dtype)
    good = close(result, right) and new(result, x) and same(x, summand(group.rank, *case))
    return "" if good else f"rank {group.rank} of {group}: {result}, right is {right}"


def neutral(dtype: torch.dtype, op: str) -> Any:
    """What changes nothing, written down for each kind of number."""
    if op in ("sum", "product"):
        return 0 if op == "sum" else 1
    if dtype == torch.bool:
        return op == "min"
    lowest, highest = (-torch.inf, torch.inf) if dtype.is_floating_point else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return highest if op == "min" else lowest


@settings(max_examples=30, deadline=None, derandomize=True)
@given(groups(), st.sampled_from(["scan", "exscan"]), shapes, combinable(), st.sampled_from(LAYOUTS), st.sampled_from([*ALGORITHMS, "auto"]))
def test_any_shape_dtype_layout_and_op_in_any_group(
    group: tuple[int, list[int]], operation: str, shape: tuple[int, ...], combined: tuple[torch.dtype, str], layout: str, algorithm: str
) -> None:
    (size, ranks), (dtype, op) = group, combined
    if (operation, op) == ("exscan", "mean"):
        op = "max" if dtype.is_floating_point else "sum"
    with SimulatedWorld(size) as world:
        assert set(world.run(scan_one, ranks, operation, (shape, dtype, layout), op, algorithm)) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    cases = [(shape, dtype, layout) for shape in ((), (0, 3), (5, 7)) for dtype in OPS for layout in LAYOUTS]

    def all_of_them(comm: Communicator) -> set[str]:
        found = set()
        for number, case in enumerate(cases):
            ranks = list(range(comm.size)) if number % 2 else list(range(comm.size))[::-1][:2]
            op = [op for op in OPS[case[1]] if op != "mean"][number % (len(OPS[case[1]]) - 1) if len(OPS[case[1]]) > 4 else 0]
            found.add(scan_one(comm, ranks, ("scan", "exscan")[number // 2 % 2], case, op, [*ALGORITHMS, "auto"][number % 3]))
        return found

    assert list(live_world(size).run(all_of_them)) == [{""}] * size


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(algorithm: str) -> None:
    for size, numel, operation in [(p, 0 if p % 3 == 2 else 7, exscan) for p in range(1, 18)] + [(p, 1000, scan) for p in range(1, 18)]:
        trace = simulated(size, lambda comm, n=numel, operation=operation: operation(torch.ones(n), comm, "sum", algorithm))
        assert_costs(trace, COSTS[operation.__name__][algorithm](numel, 4, size, LINK))


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return exscan(x, comm, "max", algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, COSTS["exscan"][algorithm], f"exscan[max, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.scan"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    rows = cost_rows(text, list(SCAN))
    assert list(rows) == list(SCAN) == list(ALGORITHMS)
    for size, numel in ((2, 8000), (5, 9000), (8, 80)):
        names = {"p": size, "n": 4 * numel, "alpha": LINK.latency, "beta": LINK.bandwidth}
        for algorithm, row in rows.items():
            cost = SCAN[algorithm](numel, 4, size, LINK)
            assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[0], cost.bytes_sent[0], cost.seconds], rel=1e-12)


def test_the_picture_of_recursive_doubling_is_what_happens() -> None:
    """Who has which ranks' parts after each step: a set of ranks as a whole number, one bit each, added up."""
    picture = re.findall(r"^ +(?:\d +(\d) +)?((?:\d(?:-\d)? +){5}|(?:\d(?:-\d)? +){4}\d(?:-\d)?)(?: +rank.*| +and.*)?$", module.__doc__ or "", re.MULTILINE)
    drawn = {int(distance or 0): cells.split() for distance, cells in picture}
    has = [{rank} for rank in range(5)]
    for distance in (0, 1, 2, 4):
        if distance:
            has = [mine | (has[rank - distance] if rank >= distance else set()) for rank, mine in enumerate(has)]
        assert [f"{min(mine)}-{max(mine)}" if len(mine) > 1 else str(*mine) for mine in has] == drawn[distance]


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["scan", "exscan"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": None}, "TypeError: {}(x=None): x is a NoneType, it must be a torch.Tensor"),
        ({"op": "avg"}, "ValueError: {}(op='avg'): op is one of 'sum', 'mean', 'product', 'min', 'max'"),
        ({"x": torch.ones(2).int(), "op": "mean"}, "ValueError: {}(op='mean') of int32[2]: int32 can't be combined that way"),
        ({"algorithm": "native"}, "ValueError: {}(algorithm='native'): algorithm is one of 'auto', 'linear', 'recursive_doubling'"),
    ],
)
def test_refusals(operation: str, arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words.format(operation)}")):
            world.run(lambda comm: OPERATIONS[operation](**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


def test_a_mean_is_that_of_the_ranks_so_far() -> None:
    with SimulatedWorld(4) as world:
        assert list(world.run(lambda comm: scan(torch.tensor(2.0 * comm.rank), comm, "mean").item())) == [0.0, 1.0, 2.0, 3.0]


def test_before_rank_0_there_is_what_changes_nothing() -> None:
    cases = [(dtype, op) for dtype in OPS for op in OPS[dtype] if op != "mean"]
    with SimulatedWorld(1) as world:
        found = world.run(lambda comm, cases: [exscan(torch.ones(2, dtype=dtype), comm, op).tolist() for dtype, op in cases], cases)[0]
    assert found == [[neutral(dtype, op)] * 2 for dtype, op in cases]


def test_nothing_has_no_mean() -> None:
    words = "exscan(op='mean'): before rank 0 there is no rank, and nothing has no mean; take the sum, divide it by the rank"
    with SimulatedWorld(2) as world, pytest.raises(RankError, match=re.escape(words)):
        world.run(lambda comm: exscan(torch.ones(2), comm, "mean"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ranks_that_disagree_are_laid_side_by_side(algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: OPERATIONS[["scan", "exscan"][comm.rank]](torch.ones(2), comm, "sum", algorithm))
    assert f"rank 0: scan #1 of float32[2], sum, {algorithm} at" in str(caught.value)
    assert f"rank 1: exscan #1 of float32[2], sum, {algorithm} at" in str(caught.value)


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H10_a_column_is_summed_as_it_looks_and_its_neighbour_stays(live_world: Live, algorithm: str) -> None:
    def column(comm: Communicator) -> tuple[list[float], list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]]) * torch.tensor([comm.rank + 1.0, 1.0])
        return scan(table[:, 0], comm, "sum", algorithm).tolist(), table[:, 1].tolist()

    assert list(live_world(2).run(column)) == [([1.0, 2.0, 3.0], [100.0] * 3), ([3.0, 6.0, 9.0], [100.0] * 3)]


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H15_a_group_counts_from_its_first(live_world: Live, algorithm: str) -> None:
    def in_turn(comm: Communicator) -> Any:
        try:
            return scan(torch.tensor(comm.rank), comm.subgroup([2, 1]), algorithm=algorithm).item()
        except NotInGroup as refusal:
            return str(refusal)

    outside, *inside = live_world(3).run(in_turn)
    assert inside == [3, 2]
    assert "rank 0 is not in group" in outside
