"""Scatter: each rank's block of the root's tensor, by exactly the messages, bytes and seconds of the closed form."""

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
from partkit.collectives import scatter as module
from partkit.collectives.scatter import ALGORITHMS, scatter
from partkit.communicator import Communicator, NotInGroup
from partkit.partition import block_range, block_sizes
from partkit.trees import binomial_span
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, dtypes, groups, moved, new, same, some_dim
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
SCATTER = COSTS["scatter"]
EXPLICIT = list(SCATTER)


def scatter_one(comm: Communicator, ranks: list[int], root: int, dim: int, case: tuple[Any, ...], algorithm: str) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is."""
    group = comm.subgroup(ranks)
    if comm.rank not in group:
        return ""
    x, whole = moved(group.rank, *case), moved(root, *case)
    result = scatter(x, group, root, dim, algorithm=algorithm)
    block = block_range(whole.shape[dim], group.size, group.rank)
    right = same(result, whole.narrow(dim, block.start, len(block))) and new(result, x) and same(x, moved(group.rank, *case))
    return "" if right else f"rank {group.rank} of {group}: {result}"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(groups(), st.data(), some_dim, st.sampled_from(dtypes()), st.sampled_from(LAYOUTS), st.sampled_from([*EXPLICIT, "auto"]))
def test_any_shape_dtype_layout_and_dim_from_any_root_in_any_group(
    group: tuple[int, list[int]], data: st.DataObject, shape: tuple[int, ...], dtype: torch.dtype, layout: str, algorithm: str
) -> None:
    size, ranks = group
    root, dim = data.draw(st.integers(0, len(ranks) - 1)), data.draw(st.integers(-len(shape), len(shape) - 1))
    with SimulatedWorld(size) as world:
        assert set(world.run(scatter_one, ranks, root, dim, (shape, dtype, layout), algorithm)) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    cases = [(dim, (shape, torch.float32, layout)) for dim, shape in ((0, (0, 3)), (0, (2, 3)), (1, (50, 70)), (-1, (4, 2, 3))) for layout in LAYOUTS]

    def all_of_them(comm: Communicator) -> set[str]:
        return {
            scatter_one(comm, ranks, root, *case, algorithm)
            for ranks in (list(range(comm.size)), list(range(comm.size))[::-1][:2])
            for root in range(len(ranks))
            for case in cases[root :: comm.size]
            for algorithm in (*ALGORITHMS, "auto")
        }

    assert list(live_world(size).run(all_of_them)) == [{""}] * size


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_dtype_travels(live_world: Live, algorithm: str) -> None:
    def each(comm: Communicator, dtypes: tuple[torch.dtype, ...]) -> list[torch.dtype]:
        return [dtype for dtype in dtypes if scatter_one(comm, [0, 1], 1, 0, ((3, 2), dtype), algorithm)]

    assert list(live_world(2).run(each, dtypes())) == [[], []]


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_blocks_of_any_sizes(live_world: Live, algorithm: str) -> None:
    cut = live_world(3).run(lambda comm: scatter(torch.arange(7), comm, root=1, sizes=[4, 0, 3], algorithm=algorithm).tolist())
    assert list(cut) == [[0, 1, 2, 3], [], [4, 5, 6]]


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(algorithm: str) -> None:
    for size, numel in [(p, 0 if p % 3 == 2 else 7) for p in range(1, 18)] + [(p, 1000) for p in range(1, 18)]:
        trace = simulated(size, lambda comm, n=numel: scatter(torch.ones(n), comm, algorithm=algorithm))
        assert_costs(trace, SCATTER[algorithm](numel, 4, size, LINK))


@pytest.mark.parametrize(("size", "root"), [(2, 1), (5, 3), (6, 2), (8, 7)])
def test_from_another_root_each_rank_sends_the_blocks_of_the_ranks_below_it(size: int, root: int) -> None:
    numel = 4 * size - 1
    flat = simulated(size, lambda comm: scatter(torch.ones(numel), comm, root, algorithm="flat"))
    tree = simulated(size, lambda comm: scatter(torch.ones(numel), comm, root, algorithm="tree"))
    sizes = block_sizes(numel, size)
    turned = sizes[root:] + sizes[:root]
    below = [4 * sum(turned[place + 1 : place + binomial_span(place, size)]) for place in range(size)]
    assert [flat.bytes_sent((root + place) % size) for place in range(size)] == [below[0]] + [0] * (size - 1)
    assert [tree.bytes_sent((root + place) % size) for place in range(size)] == below


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return scatter(x, comm, algorithm=algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, SCATTER[algorithm], f"scatter[from rank 0, dim 0, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.scatter"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    rows = cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    for size, numel in ((2, 8000), (5, 9000), (8, 80)):
        names = {"p": size, "n": 4 * numel, "alpha": LINK.latency, "beta": LINK.bandwidth}
        for algorithm, row in rows.items():
            cost = SCATTER[algorithm](numel, 4, size, LINK)
            assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[0], cost.bytes_sent[0], cost.seconds], rel=1e-12)


def test_auto_takes_the_tree() -> None:
    trace = simulated(5, lambda comm: scatter(torch.ones(1000), comm))
    assert {e.tag for e in trace.events if e.kind == "collective"} == {"scatter[from rank 0, dim 0, tree]"}


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": None}, "TypeError: scatter(x=None): pass a tensor of the root's dtype and shape, to say what will come"),
        ({"x": torch.tensor(1.0)}, "ValueError: scatter of a tensor without dims: there is nothing to cut or join; pass x.reshape(1)"),
        ({"root": 2}, "ValueError: scatter(root=2): root is a rank of this group, from 0 to 1"),
        ({"dim": 1}, "ValueError: scatter(dim=1): x has 1 dims, so dim is from -1 to 0"),
        ({"sizes": [2]}, "ValueError: scatter(sizes=[2]): give the extent along dim 0 of each of the 2 ranks, at least 0"),
        ({"sizes": [2, 1]}, "ValueError: scatter(sizes=[2, 1]) of float32[2]: they add up to 3, but x has 2 along dim 0"),
        ({"algorithm": "ring"}, "ValueError: scatter(algorithm='ring'): algorithm is one of 'auto', 'flat', 'tree', 'native'"),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: scatter(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"x": torch.ones(3, 2)}, {"x": torch.ones(2, 3)}], ["float32[3, 2], from rank 0, dim 0", "float32[2, 3], from rank 0, dim 0"]),
        ([{"dim": 0}, {"dim": 1}], ["float32[2, 2], from rank 0, dim 0", "float32[2, 2], from rank 0, dim 1"]),
        ([{"root": 0}, {"root": 1}], ["float32[2, 2], from rank 0, dim 0", "float32[2, 2], from rank 1, dim 0"]),
    ],
)
def test_ranks_that_disagree_are_laid_side_by_side(calls: list[dict[str, Any]], words: list[str], algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: scatter(**{"x": torch.ones(2, 2), "comm": comm, "algorithm": algorithm, **calls[comm.rank]}))
    assert all(f"rank {rank}: scatter #1 of {word}, {algorithm} at" in str(caught.value) for rank, word in enumerate(words)), str(caught.value)


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H10_every_second_element_is_cut_as_it_looks(live_world: Live, algorithm: str) -> None:
    cut = live_world(3).run(lambda comm: scatter(torch.arange(6)[::2], comm, algorithm=algorithm).tolist())
    assert list(cut) == [[0], [2], [4]]


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H10_a_column_is_cut_as_it_looks_and_its_neighbour_stays(live_world: Live, algorithm: str) -> None:
    def column(comm: Communicator) -> tuple[list[float], list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]])
        return scatter(table[:, 0], comm, algorithm=algorithm).tolist(), table[:, 1].tolist()

    assert list(live_world(2).run(column)) == [([1.0, 2.0], [100.0] * 3), ([3.0], [100.0] * 3)]


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H15_the_root_is_counted_in_the_group(live_world: Live, algorithm: str) -> None:
    def from_the_second(comm: Communicator) -> list[int] | str:
        try:
            return scatter(torch.arange(3) + 10 * comm.rank, comm.subgroup([2, 1]), root=1, algorithm=algorithm).tolist()
        except NotInGroup as refusal:
            return str(refusal)

    outside, *inside = live_world(3).run(from_the_second)
    assert inside == [[12], [10, 11]]
    assert "rank 0 is not in group" in outside
