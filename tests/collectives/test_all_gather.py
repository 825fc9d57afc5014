"""All-gather: the ranks' bits joined on every rank, by exactly the messages, bytes and seconds of the closed form."""

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
from partkit.cluster.cost import Cost
from partkit.cluster.costs.all_gather import ROUNDS
from partkit.collectives import all_gather as module
from partkit.collectives.all_gather import ALGORITHMS, all_gather
from partkit.collectives.choosing import choose
from partkit.communicator import Communicator
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, dtypes, groups, moved, new, same, some_dim
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
ALL_GATHER = COSTS["all_gather"]
EXPLICIT = list(ALL_GATHER)


def gather_one(comm: Communicator, ranks: list[int], dim: int, case: tuple[Any, ...], extents: list[int] | None, how: tuple[str, str]) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is. ``how``: "equal", "stated" or "ask", and the algorithm."""
    group, (shape, *rest), (sizes, algorithm) = comm.subgroup(ranks), case, how
    if comm.rank not in group:
        return ""
    shapes = [(*shape[:dim], extent, *shape[dim + 1 :]) for extent in extents or [shape[dim]] * group.size]
    x = moved(group.rank, shapes[group.rank], *rest)
    result = all_gather(x, group, dim, {"equal": None, "stated": extents, "ask": "ask"}[sizes], algorithm)  # type: ignore[arg-type]
    whole = torch.cat([moved(rank, shape, *rest).view(shape) for rank, shape in enumerate(shapes)], dim)
    right = same(result, whole) and new(result, x) and same(x, moved(group.rank, shapes[group.rank], *rest))
    return "" if right else f"rank {group.rank} of {group}: {result}, not {whole}"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(groups(largest=9), st.data(), some_dim, st.sampled_from([torch.float32, torch.int64, torch.bool, torch.complex64]), st.sampled_from(LAYOUTS))
def test_any_shape_layout_and_dim_equal_and_unequal_in_any_group(
    group: tuple[int, list[int]], data: st.DataObject, shape: tuple[int, ...], dtype: torch.dtype, layout: str
) -> None:
    size, ranks = group
    dim = data.draw(st.integers(0, len(shape) - 1))
    sizes = data.draw(st.sampled_from(["equal", "stated", "ask"]))
    extents = None if sizes == "equal" else data.draw(st.lists(st.integers(0, 4), min_size=len(ranks), max_size=len(ranks)))
    algorithm = data.draw(st.sampled_from([*EXPLICIT, "auto"]))
    with SimulatedWorld(size) as world:
        assert set(world.run(gather_one, ranks, dim, (shape, dtype, layout), extents, (sizes, algorithm))) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    def all_of_them(comm: Communicator) -> list[str]:
        wrong = []
        for shape, dim in (((0, 3), 0), ((2, 3), 0), ((2, 3), 1), ((50, 70), 1)):
            for algorithm in (*ALGORITHMS, "auto"):
                for ranks in (list(range(comm.size)), list(range(comm.size))[::-1][:2]):
                    extents = [(3 * rank) % 4 for rank in range(len(ranks))]
                    cases = ((None, "equal"), (extents, "stated"), (extents, "ask"))
                    wrong += [gather_one(comm, ranks, dim, (shape, torch.float32, "strided"), sizes, (how, algorithm)) for sizes, how in cases]
        return [words for words in wrong if words]

    assert list(live_world(size).run(all_of_them)) == [[]] * size


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_dtype_travels(live_world: Live, algorithm: str) -> None:
    def each(comm: Communicator, dtypes: tuple[torch.dtype, ...]) -> list[torch.dtype]:
        wrong = []
        for dtype in dtypes:
            result = all_gather(moved(comm.rank, (3, 2), dtype), comm, algorithm=algorithm)
            halves = [same(result[:3], moved(0, (3, 2), dtype)), same(result[3:], moved(1, (3, 2), dtype))]
            wrong += [] if all(halves) else [dtype]
        return wrong

    assert len(dtypes()) >= 20
    assert list(live_world(2).run(each, dtypes())) == [[], []]


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize("size", range(1, 18))
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(size: int, algorithm: str) -> None:
    for numel in (size % 3, 20_011):
        assert_costs(simulated(size, lambda comm, n=numel: all_gather(torch.ones(n), comm, algorithm=algorithm)), ALL_GATHER[algorithm](numel, 4, size, LINK))


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize("size", [2, 3, 6, 8, 13])
def test_unequal_pieces_cost_what_their_messages_do_and_asking_costs_bruck_of_one_number(size: int, algorithm: str) -> None:
    extents = [(5 * rank) % 7 for rank in range(size)]
    trace = simulated(size, lambda comm: all_gather(torch.ones(extents[comm.rank], 3), comm, sizes=extents, algorithm=algorithm))
    assert_costs(trace, Cost.of_rounds(ROUNDS[algorithm]([12 * extent for extent in extents]), size, LINK))
    trace = simulated(size, lambda comm: all_gather(torch.ones(extents[comm.rank], 3), comm, sizes="ask", algorithm=algorithm))
    assert_costs(trace, Cost.of_rounds([*ROUNDS["bruck"]([8] * size), *ROUNDS[algorithm]([12 * extent for extent in extents])], size, LINK))


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return all_gather(x, comm, algorithm=algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, ALL_GATHER[algorithm], f"all_gather[dim 0, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.all_gather"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    link, rows = Link(latency=1e-4, bandwidth=1e8), cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    for size, numel in ((2, 7), (4, 1000), (8, 33), (5, 12)):
        names = {"p": size, "n": 4 * numel, "alpha": link.latency, "beta": link.bandwidth}
        for algorithm, row in rows.items():
            cost = ALL_GATHER[algorithm](numel, 4, size, link)
            if algorithm != "recursive_doubling" or size != 5:
                assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[0], cost.bytes_sent[0], cost.seconds], rel=1e-12)


def test_auto_takes_what_the_model_finds_fastest_the_same_on_every_rank() -> None:
    sizes = [1, 1, 200_000, 1, 1, 1]
    for extents, chosen in ((None, choose("all_gather", 4, 6, LINK).best), (sizes, choose("all_gather", 800_000, 6, LINK).best)):
        trace = simulated(6, lambda comm, e=extents: all_gather(torch.ones(e[comm.rank] if e else 1), comm, sizes=e))
        assert {e.tag for e in trace.events if e.kind == "collective"} == {f"all_gather[dim 0, {chosen}]"}


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": 3}, "TypeError: all_gather(x=3): x is a int, it must be a torch.Tensor"),
        ({"x": torch.tensor(1.0)}, "ValueError: all_gather of a tensor without dims: there is nothing to cut or join; pass x.reshape(1)"),
        ({"dim": 1}, "ValueError: all_gather(dim=1): x has 1 dims, so dim is from -1 to 0"),
        (
            {"algorithm": "tree"},
            "ValueError: all_gather(algorithm='tree'): algorithm is one of 'auto', 'ring', 'recursive_doubling', 'bruck', 'native'",
        ),
        ({"sizes": [2]}, "ValueError: all_gather(sizes=[2]): give the extent along dim 0 of each of the 2 ranks, at least 0"),
        ({"sizes": "any"}, "ValueError: all_gather(sizes='any'): sizes is each rank's extent along dim 0, or 'ask', or None for equal pieces"),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: all_gather(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


def test_sizes_that_are_not_those_of_the_piece_are_refused_where_they_are_wrong() -> None:
    with SimulatedWorld(2) as world, pytest.raises(RankError, match=r"rank 1: ValueError: all_gather\(sizes=\[2, 3\]\): rank 1 passes float32\[2\]"):
        world.run(lambda comm: all_gather(torch.ones(2), comm, sizes=[2, 3]))


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"dim": 0}, {"dim": 1}], ["dim 0", "dim 1"]),
        ([{"x": torch.ones(2, 2)}, {"x": torch.ones(2, 2).int()}], ["float32[2, 2]", "int32[2, 2]"]),
        ([{"sizes": [2, 2]}, {"sizes": None}], ["float32[?, 2] of sizes [2, 2]", "float32[2, 2] (pieces of one size"]),
        ([{"sizes": "ask"}, {"sizes": None}], ["float32[?, 2] of sizes ask", "float32[2, 2] (pieces of one size"]),
    ],
)
def test_ranks_that_disagree_are_laid_side_by_side(calls: list[dict[str, Any]], words: list[str]) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: all_gather(**{"x": torch.ones(2, 2), "comm": comm, "algorithm": "ring", **calls[comm.rank]}))
    lines = str(caught.value).splitlines()
    assert all(any(f"rank {rank}: all_gather #1 of" in line and word in line for line in lines) for rank, word in enumerate(words)), lines


def test_a_result_has_no_history() -> None:
    with SimulatedWorld(2) as world:
        assert list(world.run(lambda comm: all_gather(torch.ones(2, requires_grad=True), comm).requires_grad)) == [False, False]
