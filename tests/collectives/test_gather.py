"""Gather: the ranks' pieces joined on the root, by exactly the messages, bytes and seconds of the closed form."""

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
from partkit.collectives import gather as module
from partkit.collectives.gather import ALGORITHMS, gather
from partkit.collectives.pieces import with_extent
from partkit.communicator import Communicator, NotInGroup
from partkit.partition import block_sizes
from partkit.trees import binomial_span
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, dtypes, groups, moved, new, same, some_dim
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
GATHER = COSTS["gather"]
EXPLICIT = list(GATHER)


def gather_one(comm: Communicator, ranks: list[int], root: int, dim: int, case: tuple[Any, ...], how: tuple[Any, str]) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is. ``how``: sizes or "ask" or None, and the algorithm."""
    (shape, *rest), (sizes, algorithm), group = case, how, comm.subgroup(ranks)
    if comm.rank not in group:
        return ""
    extents = [rank % 3 for rank in range(group.size)] if sizes is not None else [shape[dim]] * group.size
    pieces = [moved(rank, with_extent(shape, dim % len(shape), extent), *rest) for rank, extent in enumerate(extents)]
    x = moved(group.rank, tuple(pieces[group.rank].shape), *rest)
    result = gather(x, group, root, dim, "ask" if sizes == "ask" else None if sizes is None else extents, algorithm)
    right = torch.cat([piece.resolve_conj() for piece in pieces], dim)
    good = (same(result, right) if group.rank == root else result is None) and new(result, x) and same(x, pieces[group.rank])
    return "" if good else f"rank {group.rank} of {group}: {result}, right is {right}"


HOW = st.tuples(st.sampled_from([None, "given", "ask"]), st.sampled_from([*EXPLICIT, "auto"]))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(groups(), st.data(), some_dim, st.sampled_from(dtypes()), st.sampled_from(LAYOUTS), HOW)
def test_any_shape_dtype_layout_dim_and_sizes_to_any_root_of_any_group(
    group: tuple[int, list[int]], data: st.DataObject, shape: tuple[int, ...], dtype: torch.dtype, layout: str, how: tuple[Any, str]
) -> None:
    size, ranks = group
    root, dim = data.draw(st.integers(0, len(ranks) - 1)), data.draw(st.integers(-len(shape), len(shape) - 1))
    with SimulatedWorld(size) as world:
        assert set(world.run(gather_one, ranks, root, dim, (shape, dtype, layout), how)) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    cases = [(dim, (shape, torch.float32, layout)) for dim, shape in ((0, (0, 3)), (0, (2, 3)), (1, (50, 70)), (-1, (4, 2, 3))) for layout in LAYOUTS]

    def all_of_them(comm: Communicator) -> set[str]:
        return {
            gather_one(comm, ranks, number % len(ranks), *case, (sizes, algorithm))
            for ranks in (list(range(comm.size)), list(range(comm.size))[::-1][:2])
            for number, case in enumerate(cases)
            for sizes in (None, "given", "ask")[number % 3 : number % 3 + 1]
            for algorithm in (*ALGORITHMS, "auto")
        }

    assert list(live_world(size).run(all_of_them)) == [{""}] * size


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_dtype_travels(live_world: Live, algorithm: str) -> None:
    def each(comm: Communicator, dtypes: tuple[torch.dtype, ...]) -> list[torch.dtype]:
        return [dtype for dtype in dtypes if gather_one(comm, [0, 1], 1, 0, ((3, 2), dtype), ("given", algorithm))]

    assert list(live_world(2).run(each, dtypes())) == [[], []]


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(algorithm: str) -> None:
    for size, numel, root in [(p, 0 if p % 3 == 2 else 7, p // 2) for p in range(1, 18)] + [(p, 1000, p // 3) for p in range(1, 18)]:
        cost = GATHER[algorithm](numel, 4, size, LINK)
        turned = cost._replace(messages=cost.messages[-root:] + cost.messages[:-root], bytes_sent=cost.bytes_sent[-root:] + cost.bytes_sent[:-root])
        assert_costs(simulated(size, lambda comm, n=numel, root=root: gather(torch.ones(n), comm, root, algorithm=algorithm)), turned)


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_asking_costs_a_gather_of_one_number_each(size: int, algorithm: str) -> None:
    extents = block_sizes(4 * size - 1, size)
    trace = simulated(size, lambda comm: gather(torch.ones(extents[comm.rank]), comm, sizes="ask", algorithm=algorithm))
    asked = GATHER[algorithm](1, 8, size, LINK)
    held = [extents[rank : rank + (binomial_span(rank, size) if algorithm == "tree" else 1)] for rank in range(size)]
    for rank in range(size):
        assert trace.num_messages(rank) == 2 * asked.messages[rank]
        assert trace.bytes_sent(rank) == asked.bytes_sent[rank] + (4 * sum(held[rank]) if rank else 0)
    questions = [e for e in trace.events if e.kind == "send" and e.span == "gather/sizes"]
    assert sum(e.nbytes for e in questions) == sum(asked.bytes_sent)


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return gather(x, comm, algorithm=algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, GATHER[algorithm], f"gather[to rank 0, dim 0, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.gather"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    rows = cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    for size, numel in ((2, 8000), (5, 9000), (8, 80)):
        names = {"p": size, "n": 4 * numel, "alpha": LINK.latency, "beta": LINK.bandwidth}
        for algorithm, row in rows.items():
            cost = GATHER[algorithm](numel, 4, size, LINK)
            assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[1], cost.bytes_sent[1], cost.seconds], rel=1e-12)


def test_auto_takes_the_tree_whatever_the_pieces() -> None:
    trace = simulated(5, lambda comm: gather(torch.ones(1000 * comm.rank), comm, sizes=[0, 1000, 2000, 3000, 4000]))
    assert {e.tag for e in trace.events if e.kind == "collective"} == {"gather[to rank 0, dim 0, tree]"}


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": None}, "TypeError: gather(x=None): x is a NoneType, it must be a torch.Tensor"),
        ({"x": torch.tensor(1.0)}, "ValueError: gather of a tensor without dims: there is nothing to cut or join; pass x.reshape(1)"),
        ({"root": 2}, "ValueError: gather(root=2): root is a rank of this group, from 0 to 1"),
        ({"dim": 1}, "ValueError: gather(dim=1): x has 1 dims, so dim is from -1 to 0"),
        ({"sizes": "all"}, "ValueError: gather(sizes='all'): sizes is each rank's extent along dim 0, or 'ask', or None for equal pieces"),
        ({"sizes": [2]}, "ValueError: gather(sizes=[2]): give the extent along dim 0 of each of the 2 ranks, at least 0"),
        ({"sizes": [2, -1]}, "ValueError: gather(sizes=[2, -1]): give the extent along dim 0 of each of the 2 ranks, at least 0"),
        ({"algorithm": "ring"}, "ValueError: gather(algorithm='ring'): algorithm is one of 'auto', 'flat', 'tree', 'native'"),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: gather(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


def test_a_piece_that_is_not_of_its_size_is_refused_where_it_is() -> None:
    words = "rank 1: ValueError: gather(sizes=[2, 3]): rank 1 passes float32[2], its size along dim 0 is 2, not 3"
    with SimulatedWorld(2) as world, pytest.raises(RankError, match=re.escape(words)):
        world.run(lambda comm: gather(torch.ones(2), comm, sizes=[2, 3]))


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"x": torch.ones(2).int()}, {"x": torch.ones(2)}], ["int32[2] (pieces", "float32[2] (pieces"]),
        ([{"root": 0}, {"root": 1}], ["to rank 0, dim 0", "to rank 1, dim 0"]),
        ([{"sizes": "ask"}, {"sizes": [2, 2]}], ["float32[?] of sizes ask", "float32[?] of sizes [2, 2]"]),
    ],
)
def test_ranks_that_disagree_are_laid_side_by_side(calls: list[dict[str, Any]], words: list[str], algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: gather(**{"x": torch.ones(2), "comm": comm, "algorithm": algorithm, **calls[comm.rank]}))
    _, *lines = str(caught.value).splitlines()
    assert all(word in line and f", {algorithm} at" in line for word, line in zip(words, lines, strict=True)), str(caught.value)


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_case_H07_unequal_pieces_end_in_a_report_that_says_what_to_pass(algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: gather(torch.arange(3 - comm.rank), comm, algorithm=algorithm))
    hint = "(pieces of one size; for others pass sizes=[...] or sizes='ask'), to rank 0, dim 0"
    assert all(f"rank {rank}: gather #1 of int64[{3 - rank}] {hint}" in str(caught.value) for rank in range(2)), str(caught.value)


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("sizes", [[3, 2], "ask"])
def test_case_H07_unequal_pieces_are_joined(live_world: Live, sizes: Any, algorithm: str) -> None:
    joined = live_world(2).run(lambda comm: gather(torch.arange(3 - comm.rank), comm, sizes=sizes, algorithm=algorithm))
    assert joined[0].tolist() == [0, 1, 2, 0, 1] and joined[1] is None


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H10_columns_are_joined_as_they_look_and_their_neighbours_stay(live_world: Live, algorithm: str) -> None:
    def column(comm: Communicator) -> tuple[list[float] | None, list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]])
        joined = gather(table[:, 0], comm, root=1, algorithm=algorithm)
        return None if joined is None else joined.tolist(), table[:, 1].tolist()

    assert list(live_world(2).run(column)) == [(None, [100.0] * 3), ([1.0, 2.0, 3.0] * 2, [100.0] * 3)]


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H15_the_root_is_counted_in_the_group(live_world: Live, algorithm: str) -> None:
    def to_the_second(comm: Communicator) -> Any:
        try:
            joined = gather(torch.tensor([comm.rank]), comm.subgroup([2, 1]), root=1, algorithm=algorithm)
        except NotInGroup as refusal:
            return str(refusal)
        return None if joined is None else joined.tolist()

    outside, *inside = live_world(3).run(to_the_second)
    assert inside == [[2, 1], None]
    assert "rank 0 is not in group" in outside
