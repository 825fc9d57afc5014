"""Reduce-scatter: each rank's block of the serial answer, by exactly the messages, bytes and seconds of the closed form."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partkit.cluster import COSTS, Link
from partkit.collectives import reduce_scatter as module
from partkit.collectives.reduce_scatter import ALGORITHMS, reduce_scatter
from partkit.collectives.reducing import OPS, Op
from partkit.communicator import Communicator
from partkit.partition import block_sizes
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, close, combinable, groups, new, same, serial, some_dim, summand
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
REDUCE_SCATTER = COSTS["reduce_scatter"]
EXPLICIT = list(REDUCE_SCATTER)


def reduce_one(comm: Communicator, ranks: list[int], dim: int, case: tuple[Any, ...], op: Op, algorithm: str) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is."""
    group = comm.subgroup(ranks)
    if comm.rank not in group:
        return ""
    x = summand(group.rank, *case)
    result = reduce_scatter(x, group, op, dim, algorithm=algorithm)
    whole = serial([summand(rank, *case) for rank in range(group.size)], op)
    mine = torch.split(whole, list(block_sizes(whole.shape[dim], group.size)), dim)[group.rank]
    right = close(result, mine) and new(result, x) and same(x, summand(group.rank, *case))
    return "" if right else f"rank {group.rank} of {group}: {result}, not {mine}"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(groups(), st.data(), some_dim, combinable(), st.sampled_from(LAYOUTS))
def test_any_shape_dtype_layout_op_and_dim_in_any_group(
    group: tuple[int, list[int]], data: st.DataObject, shape: tuple[int, ...], how: tuple[torch.dtype, Op], layout: str
) -> None:
    (size, ranks), (dtype, op) = group, how
    dim, algorithm = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.sampled_from([*EXPLICIT, "auto"]))
    with SimulatedWorld(size) as world:
        assert set(world.run(reduce_one, ranks, dim, (shape, dtype, layout), op, algorithm)) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    def all_of_them(comm: Communicator) -> list[str]:
        wrong = [
            reduce_one(comm, ranks, dim, (shape, torch.float32, layout), OPS[torch.float32][number % 5], algorithm)
            for number, (shape, dim) in enumerate((((0, 3), 0), ((2, 3), 0), ((8, 3), 0), ((2, 3), 1), ((50, 70), 1)))
            for layout in LAYOUTS
            for algorithm in (*ALGORITHMS, "auto")
            for ranks in (list(range(comm.size)), list(range(comm.size))[::-1][:2])
        ]
        return [words for words in wrong if words]

    assert list(live_world(size).run(all_of_them)) == [[]] * size


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize("size", range(1, 18))
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(size: int, algorithm: str) -> None:
    for numel in (size % 3, 20_011):
        trace = simulated(size, lambda comm, n=numel: reduce_scatter(torch.ones(n), comm, algorithm=algorithm))
        assert_costs(trace, REDUCE_SCATTER[algorithm](numel, 4, size, LINK))


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_a_row_counts_as_one_element_along_any_dim(algorithm: str) -> None:
    trace = simulated(6, lambda comm: reduce_scatter(torch.ones(3, 10, 5), comm, dim=1, algorithm=algorithm))
    assert_costs(trace, REDUCE_SCATTER[algorithm](10, 15 * 4, 6, LINK))


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return reduce_scatter(x, comm, algorithm=algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, REDUCE_SCATTER[algorithm], f"reduce_scatter[sum, dim 0, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.reduce_scatter"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    link, rows = Link(latency=1e-4, bandwidth=1e8), cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    for size, numel in ((2, 8), (4, 1000), (8, 32), (16, 160)):
        names = {"p": size, "n": 4 * numel, "alpha": link.latency, "beta": link.bandwidth}
        for algorithm, row in rows.items():
            cost = REDUCE_SCATTER[algorithm](numel, 4, size, link)
            assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[0], cost.bytes_sent[0], cost.seconds], rel=1e-12)


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": 3}, "TypeError: reduce_scatter(x=3): x is a int, it must be a torch.Tensor"),
        ({"x": torch.tensor(1.0)}, "ValueError: reduce_scatter of a tensor without dims: there is nothing to cut or join; pass x.reshape(1)"),
        ({"dim": -2}, "ValueError: reduce_scatter(dim=-2): x has 1 dims, so dim is from -1 to 0"),
        ({"op": "avg"}, "ValueError: reduce_scatter(op='avg'): op is one of 'sum', 'mean', 'product', 'min', 'max'"),
        (
            {"x": torch.ones(2, dtype=torch.complex64), "op": "max"},
            "ValueError: reduce_scatter(op='max') of complex64[2]: complex64 can't be combined that way, only by sum, mean, product",
        ),
        (
            {"algorithm": "halving"},
            "ValueError: reduce_scatter(algorithm='halving'): algorithm is one of 'auto', 'ring', 'recursive_halving', 'native'",
        ),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: reduce_scatter(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"x": torch.ones(2, 3)}, {"x": torch.ones(3, 2)}], ["float32[2, 3], sum, dim 0", "float32[3, 2], sum, dim 0"]),
        ([{"op": "sum"}, {"op": "max"}], ["float32[2, 2], sum, dim 0", "float32[2, 2], max, dim 0"]),
        ([{"dim": 0}, {"dim": 1}], ["float32[2, 2], sum, dim 0", "float32[2, 2], sum, dim 1"]),
    ],
)
def test_ranks_that_disagree_are_laid_side_by_side(calls: list[dict[str, Any]], words: list[str], algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: reduce_scatter(**{"x": torch.ones(2, 2), "comm": comm, "algorithm": algorithm, **calls[comm.rank]}))
    assert all(f"rank {rank}: reduce_scatter #1 of {word}, {algorithm}" in str(caught.value) for rank, word in enumerate(words)), str(caught.value)


def test_a_result_has_no_history_and_keeps_no_more_than_its_block() -> None:
    def reduce(comm: Communicator, algorithm: str) -> tuple[bool, int]:
        result = reduce_scatter(torch.ones(4003, requires_grad=True), comm, algorithm=algorithm)
        return result.requires_grad, result.untyped_storage().nbytes() - result.nbytes

    with SimulatedWorld(4) as world:
        for algorithm in EXPLICIT:
            assert all(not history and extra <= 4 for history, extra in world.run(reduce, algorithm)), algorithm
