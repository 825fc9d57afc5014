"""Reduce: the serial answer on the root, nothing elsewhere, by exactly the messages, bytes and seconds of the closed form."""

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
from partkit.collectives import reduce as module
from partkit.collectives.reduce import ALGORITHMS, reduce
from partkit.collectives.reducing import NOT_BY_GLOO, OPS
from partkit.communicator import Communicator, NotInGroup
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, close, combinable, groups, new, same, serial, shapes, summand
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
REDUCE = COSTS["reduce"]
EXPLICIT = list(REDUCE)


def reduce_one(comm: Communicator, ranks: list[int], root: int, case: tuple[Any, ...], op: Any, algorithm: str) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is."""
    group = comm.subgroup(ranks)
    if comm.rank not in group:
        return ""
    x = summand(group.rank, *case)
    result = reduce(x, group, root, op, algorithm)
    right = serial([summand(rank, *case) for rank in range(group.size)], op)
    good = (close(result, right) if group.rank == root else result is None) and new(result, x) and same(x, summand(group.rank, *case))
    return "" if good else f"rank {group.rank} of {group}: {result}, right is {right}"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(groups(), st.data(), shapes, combinable(), st.sampled_from(LAYOUTS), st.sampled_from([*EXPLICIT, "auto"]))
def test_any_shape_dtype_layout_and_op_to_any_root_of_any_group(
    group: tuple[int, list[int]], data: st.DataObject, shape: tuple[int, ...], combined: tuple[torch.dtype, str], layout: str, algorithm: str
) -> None:
    (size, ranks), (dtype, op) = group, combined
    root = data.draw(st.integers(0, len(ranks) - 1))
    with SimulatedWorld(size) as world:
        assert set(world.run(reduce_one, ranks, root, (shape, dtype, layout), op, algorithm)) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    cases = [(shape, dtype, layout) for shape in ((), (0, 3), (5, 7)) for dtype in OPS for layout in LAYOUTS]

    def all_of_them(comm: Communicator) -> set[str]:
        found = set()
        for number, case in enumerate(cases):
            ranks = list(range(comm.size)) if number % 2 else list(range(comm.size))[::-1][:2]
            op = OPS[case[1]][number % len(OPS[case[1]])]
            algorithms = [*EXPLICIT, "auto"] if (case[1], op) in NOT_BY_GLOO else [*ALGORITHMS, "auto"]
            found.add(reduce_one(comm, ranks, number % len(ranks), case, op, algorithms[number % len(algorithms)]))
        return found

    assert list(live_world(size).run(all_of_them)) == [{""}] * size


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_not_a_number_is_not_lost(algorithm: str) -> None:
    def lose(comm: Communicator, op: Any) -> list[bool] | None:
        x = torch.ones(4)
        x[comm.rank] = torch.nan
        result = reduce(x, comm, op=op, algorithm=algorithm)
        return None if result is None else result.isnan().tolist()

    for op in OPS[torch.float32]:
        with SimulatedWorld(3) as world:
            assert world.run(lose, op)[0] == [True, True, True, False]


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(algorithm: str) -> None:
    for size, numel, root in [(p, 0 if p % 3 == 2 else 7, p // 2) for p in range(1, 18)] + [(p, 1000, p // 3) for p in range(1, 18)]:
        cost = REDUCE[algorithm](numel, 4, size, LINK)
        turned = cost._replace(messages=cost.messages[-root:] + cost.messages[:-root], bytes_sent=cost.bytes_sent[-root:] + cost.bytes_sent[:-root])
        assert_costs(simulated(size, lambda comm, n=numel, root=root: reduce(torch.ones(n), comm, root, "sum", algorithm)), turned)


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return reduce(x, comm, op="max", algorithm=algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, REDUCE[algorithm], f"reduce[max, to rank 0, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.reduce"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    rows = cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    for size, numel in ((2, 8000), (5, 9000), (8, 10)):
        names = {"p": size, "n": 4 * numel, "alpha": LINK.latency, "beta": LINK.bandwidth}
        for algorithm, row in rows.items():
            cost = REDUCE[algorithm](numel, 4, size, LINK)
            assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[1], cost.bytes_sent[1], cost.seconds], rel=1e-12)


def test_auto_takes_the_tree() -> None:
    trace = simulated(5, lambda comm: reduce(torch.ones(1000), comm))
    assert {e.tag for e in trace.events if e.kind == "collective"} == {"reduce[sum, to rank 0, tree]"}


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": None}, "TypeError: reduce(x=None): x is a NoneType, it must be a torch.Tensor"),
        ({"root": 2}, "ValueError: reduce(root=2): root is a rank of this group, from 0 to 1"),
        ({"op": "avg"}, "ValueError: reduce(op='avg'): op is one of 'sum', 'mean', 'product', 'min', 'max'"),
        ({"x": torch.ones(2).int(), "op": "mean"}, "ValueError: reduce(op='mean') of int32[2]: int32 can't be combined that way"),
        ({"algorithm": "ring"}, "ValueError: reduce(algorithm='ring'): algorithm is one of 'auto', 'flat', 'tree', 'native'"),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: reduce(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"x": torch.ones(3)}, {"x": torch.ones(4)}], ["float32[3], sum, to rank 0", "float32[4], sum, to rank 0"]),
        ([{"op": "sum"}, {"op": "max"}], ["float32[2], sum, to rank 0", "float32[2], max, to rank 0"]),
        ([{"root": 0}, {"root": 1}], ["float32[2], sum, to rank 0", "float32[2], sum, to rank 1"]),
    ],
)
def test_ranks_that_disagree_are_laid_side_by_side(calls: list[dict[str, Any]], words: list[str], algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: reduce(**{"x": torch.ones(2), "comm": comm, "algorithm": algorithm, **calls[comm.rank]}))
    assert all(f"rank {rank}: reduce #1 of {word}, {algorithm} at" in str(caught.value) for rank, word in enumerate(words)), str(caught.value)


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H10_a_column_is_summed_as_it_looks_and_its_neighbour_stays(live_world: Live, algorithm: str) -> None:
    def column(comm: Communicator) -> tuple[list[float] | None, list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]]) * torch.tensor([comm.rank + 1.0, 1.0])
        total = reduce(table[:, 0], comm, algorithm=algorithm)
        return None if total is None else total.tolist(), table[:, 1].tolist()

    assert list(live_world(2).run(column)) == [([3.0, 6.0, 9.0], [100.0] * 3), (None, [100.0] * 3)]


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H15_the_root_is_counted_in_the_group(live_world: Live, algorithm: str) -> None:
    def to_the_second(comm: Communicator) -> Any:
        try:
            total = reduce(torch.tensor(float(comm.rank)), comm.subgroup([2, 1]), root=1, algorithm=algorithm)
        except NotInGroup as refusal:
            return str(refusal)
        return None if total is None else total.item()

    outside, *inside = live_world(3).run(to_the_second)
    assert inside == [3.0, None]
    assert "rank 0 is not in group" in outside
