"""All-to-all: the transpose of blocks, by exactly the messages, bytes and seconds of the closed form."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partkit.cluster import COSTS, Cluster, Link
from partkit.cluster.costs.all_to_all import all_to_all_v as cost_of_v
from partkit.collectives import all_to_all as module
from partkit.collectives.all_to_all import ALGORITHMS, all_to_all, all_to_all_v
from partkit.communicator import Communicator
from partkit.partition import block_sizes
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, dtypes, groups, moved, new, same, some_dim
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
ALL_TO_ALL = COSTS["all_to_all"]
EXPLICIT = list(ALL_TO_ALL)


def block(x: torch.Tensor, sizes: list[int], dim: int, place: int) -> torch.Tensor:
    return torch.split(x, sizes, dim)[place]


def exchange_one(comm: Communicator, ranks: list[int], dim: int, case: tuple[Any, ...], algorithm: str) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is."""
    group = comm.subgroup(ranks)
    if comm.rank not in group:
        return ""
    x, sizes = moved(group.rank, *case), list(block_sizes(case[0][dim], group.size))
    result = all_to_all(x, group, dim, algorithm)
    whole = torch.cat([block(moved(rank, *case), sizes, dim, group.rank) for rank in range(group.size)], dim)
    right = same(result, whole) and new(result, x) and same(x, moved(group.rank, *case))
    return "" if right else f"rank {group.rank} of {group}: {result}, not {whole}"


def exchange_v(comm: Communicator, dim: int, shape: tuple[int, ...], counts: list[list[int]], ask: bool) -> str:
    """The same with sizes of the caller's own."""

    def of(rank: int) -> torch.Tensor:
        return moved(rank, (*shape[:dim], sum(counts[rank]), *shape[dim + 1 :]), torch.float32, "strided")

    received = [row[comm.rank] for row in counts]
    result = all_to_all_v(of(comm.rank), comm, counts[comm.rank], None if ask else received, dim)
    whole = torch.cat([block(of(rank), counts[rank], dim, comm.rank) for rank in range(comm.size)], dim)
    return "" if same(result, whole) and new(result, of(comm.rank)) else f"rank {comm.rank}: {result}, not {whole}"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(groups(), st.data(), some_dim, st.sampled_from([torch.float32, torch.int64, torch.bool, torch.complex64]), st.sampled_from(LAYOUTS))
def test_any_shape_layout_and_dim_in_any_group(
    group: tuple[int, list[int]], data: st.DataObject, shape: tuple[int, ...], dtype: torch.dtype, layout: str
) -> None:
    size, ranks = group
    dim, algorithm = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.sampled_from([*EXPLICIT, "auto"]))
    with SimulatedWorld(size) as world:
        assert set(world.run(exchange_one, ranks, dim, (shape, dtype, layout), algorithm)) == {""}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 9), st.data(), some_dim, st.booleans())
def test_any_counts(size: int, data: st.DataObject, shape: tuple[int, ...], ask: bool) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    counts = data.draw(st.lists(st.lists(st.integers(0, 3), min_size=size, max_size=size), min_size=size, max_size=size))
    with SimulatedWorld(size) as world:
        assert set(world.run(exchange_v, dim, shape, counts, ask)) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    def all_of_them(comm: Communicator) -> list[str]:
        wrong = [
            exchange_one(comm, ranks, dim, (shape, torch.float32, layout), algorithm)
            for shape, dim in (((0, 3), 0), ((2, 3), 0), ((8, 3), 0), ((2, 3), 1), ((50, 70), 1))
            for layout in LAYOUTS
            for algorithm in (*ALGORITHMS, "auto")
            for ranks in (list(range(comm.size)), list(range(comm.size))[::-1][:2])
        ]
        counts = [[(3 * i + j) % 4 for j in range(comm.size)] for i in range(comm.size)]
        wrong += [exchange_v(comm, dim, (2, 3), counts, ask) for dim in (0, 1) for ask in (False, True)]
        return [words for words in wrong if words]

    assert list(live_world(size).run(all_of_them)) == [[]] * size


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_dtype_travels(live_world: Live, algorithm: str) -> None:
    def each(comm: Communicator, dtypes: tuple[torch.dtype, ...]) -> list[torch.dtype]:
        wrong = []
        for dtype in dtypes:
            result = all_to_all(moved(comm.rank, (4, 2), dtype), comm, algorithm=algorithm)
            mine = slice(2 * comm.rank, 2 * comm.rank + 2)
            halves = [same(result[:2], moved(0, (4, 2), dtype)[mine]), same(result[2:], moved(1, (4, 2), dtype)[mine])]
            wrong += [] if all(halves) else [dtype]
        return wrong

    assert list(live_world(2).run(each, dtypes())) == [[], []]


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize("size", range(1, 18))
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(size: int, algorithm: str) -> None:
    for numel in (size % 3, 20_011):
        assert_costs(simulated(size, lambda comm, n=numel: all_to_all(torch.ones(n), comm, algorithm=algorithm)), ALL_TO_ALL[algorithm](numel, 4, size, LINK))


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_ranks_without_numbers_send_the_same_and_move_nothing(algorithm: str) -> None:
    """torch.cat of tensors without numbers looks at each in Python: Bruck's way on 512 ranks took three times as long."""

    def each(comm: Communicator) -> tuple[torch.Size, bool]:
        result = all_to_all(torch.ones(20_011), comm, algorithm=algorithm)
        return result.shape, result.is_meta

    joins = patch.object(torch, "cat", side_effect=AssertionError("nothing is there to be joined"))  # here, since ranks are threads of one process
    with SimulatedWorld(6, Cluster(link=LINK), numbers=False) as world, joins:
        assert list(world.run(each)) == [((6 * size,), True) for size in block_sizes(20_011, 6)]
        assert_costs(world.trace, ALL_TO_ALL[algorithm](20_011, 4, 6, LINK))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(1, 9), st.data(), st.sampled_from([1, 3, 30_000]), st.booleans())
def test_own_counts_cost_what_their_messages_do(size: int, data: st.DataObject, most: int, ask: bool) -> None:
    counts = data.draw(st.lists(st.lists(st.integers(0, most), min_size=size, max_size=size), min_size=size, max_size=size))

    def exchange(comm: Communicator) -> None:
        all_to_all_v(torch.ones(sum(counts[comm.rank])), comm, counts[comm.rank], None if ask else [row[comm.rank] for row in counts])

    assert_costs(simulated(size, exchange), cost_of_v(counts, 4, LINK, ask=ask))


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return all_to_all(x, comm, algorithm=algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, ALL_TO_ALL[algorithm], f"all_to_all[dim 0, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.all_to_all"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    link, rows = Link(latency=1e-4, bandwidth=1e8), cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    for size, numel in ((2, 8), (4, 1000), (8, 32), (16, 160)):
        names = {"p": size, "n": 4 * numel, "alpha": link.latency, "beta": link.bandwidth}
        for algorithm, row in rows.items():
            cost = ALL_TO_ALL[algorithm](numel, 4, size, link)
            assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[0], cost.bytes_sent[0], cost.seconds], rel=1e-12)


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": 3}, "TypeError: all_to_all(x=3): x is a int, it must be a torch.Tensor"),
        ({"x": torch.tensor(1.0)}, "ValueError: all_to_all of a tensor without dims: there is nothing to cut or join; pass x.reshape(1)"),
        ({"dim": 1}, "ValueError: all_to_all(dim=1): x has 1 dims, so dim is from -1 to 0"),
        ({"algorithm": "ring"}, "ValueError: all_to_all(algorithm='ring'): algorithm is one of 'auto', 'pairwise', 'bruck', 'native'"),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: all_to_all(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"send_sizes": [1, 2]}, "ValueError: all_to_all_v(send_sizes=[1, 2]) of float32[2]: they add up to 3, but x has 2 along dim 0"),
        ({"send_sizes": [2]}, "ValueError: all_to_all_v(send_sizes=[2]): give a number for each of the 2 ranks, at least 0"),
        ({"send_sizes": [3, -1]}, "ValueError: all_to_all_v(send_sizes=[3, -1]): give a number for each of the 2 ranks, at least 0"),
        ({"recv_sizes": [1]}, "ValueError: all_to_all_v(recv_sizes=[1]): give a number for each of the 2 ranks, at least 0"),
        ({"x": [1.0]}, "TypeError: all_to_all_v(x=[1.0]): x is a list, it must be a torch.Tensor"),
    ],
)
def test_refusals_of_own_counts(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: all_to_all_v(**{"x": torch.ones(2), "comm": comm, "send_sizes": [1, 1], **arguments}))
        assert world.trace.num_messages() == 0


def test_counts_that_a_rank_states_differently_for_itself_are_refused() -> None:
    with SimulatedWorld(2) as world, pytest.raises(RankError, match="all_to_all_v: rank 0 sends 1 to itself and expects 2 from itself; the two must be equal"):
        world.run(lambda comm: all_to_all_v(torch.ones(2), comm, [1, 1], [2 - comm.rank, 1]))


@pytest.mark.live
def test_counts_that_two_ranks_state_differently_are_told(live_world: Live) -> None:
    def exchange(comm: Communicator) -> None:
        all_to_all_v(torch.ones(3), comm, send_sizes=[[1, 2], [1, 2]][comm.rank], recv_sizes=[[1, 1], [7, 2]][comm.rank])

    with pytest.raises(RanksStuck) as caught:
        live_world(2).run(exchange)
    assert "a send and a receive that do not fit" in str(caught.value)
    assert "rank 0: send float32[2] to rank 1" in str(caught.value) and "rank 1: recv float32[7] from rank 0" in str(caught.value)


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"x": torch.ones(2, 3)}, {"x": torch.ones(3, 2)}], ["float32[2, 3], dim 0", "float32[3, 2], dim 0"]),
        ([{"dim": 0}, {"dim": 1}], ["float32[2, 2], dim 0", "float32[2, 2], dim 1"]),
    ],
)
def test_ranks_that_disagree_are_laid_side_by_side(calls: list[dict[str, Any]], words: list[str], algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: all_to_all(**{"x": torch.ones(2, 2), "comm": comm, "algorithm": algorithm, **calls[comm.rank]}))
    assert all(f"rank {rank}: all_to_all #1 of {word}, {algorithm}" in str(caught.value) for rank, word in enumerate(words)), str(caught.value)
