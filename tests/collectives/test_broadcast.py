"""Broadcast: the root's bits on every rank, by exactly the messages, bytes and seconds of the closed form."""

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
from partkit.cluster.segments import num_segments
from partkit.collectives import broadcast as module
from partkit.collectives.broadcast import ALGORITHMS, broadcast
from partkit.collectives.choosing import choose
from partkit.communicator import Communicator, NotInGroup
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, dtypes, groups, moved, new, same, shapes
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
BROADCAST = COSTS["broadcast"]
EXPLICIT = list(BROADCAST)


def broadcast_one(comm: Communicator, ranks: list[int], root: int, case: tuple[Any, ...], algorithm: str) -> str:
    """What is wrong with a result, in the words of a failed test; nothing is."""
    group = comm.subgroup(ranks)
    if comm.rank not in group:
        return ""
    x = moved(group.rank, *case)
    result = broadcast(x, group, root, algorithm)
    right = same(result, moved(root, *case)) and new(result, x) and same(x, moved(group.rank, *case))
    return "" if right else f"rank {group.rank} of {group}: {result}"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(groups(), st.data(), shapes, st.sampled_from(dtypes()), st.sampled_from(LAYOUTS), st.sampled_from([*EXPLICIT, "auto"]))
def test_any_shape_dtype_and_layout_from_any_root_in_any_group(
    group: tuple[int, list[int]], data: st.DataObject, shape: tuple[int, ...], dtype: torch.dtype, layout: str, algorithm: str
) -> None:
    size, ranks = group
    root = data.draw(st.integers(0, len(ranks) - 1))
    with SimulatedWorld(size) as world:
        assert set(world.run(broadcast_one, ranks, root, (shape, dtype, layout), algorithm)) == {""}


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    cases = [(shape, torch.float32, layout) for shape in ((), (0, 3), (2, 3), (50, 70)) for layout in LAYOUTS]

    def all_of_them(comm: Communicator) -> set[str]:
        return {
            broadcast_one(comm, ranks, root, case, algorithm)
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
        return [dtype for dtype in dtypes if broadcast_one(comm, [0, 1], 1, ((3, 2), dtype), algorithm)]

    assert len(dtypes()) >= 20
    assert list(live_world(2).run(each, dtypes())) == [[], []]


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(algorithm: str) -> None:
    for size, numel, root in [(p, 0 if p % 3 == 2 else 7, p // 2) for p in range(1, 18)] + [(p, 20_001, p // 3) for p in range(1, 18)]:
        cost = BROADCAST[algorithm](numel, 4, size, LINK)
        turned = cost._replace(messages=cost.messages[-root:] + cost.messages[:-root], bytes_sent=cost.bytes_sent[-root:] + cost.bytes_sent[:-root])
        assert_costs(simulated(size, lambda comm, n=numel, root=root: broadcast(torch.ones(n), comm, root, algorithm)), turned)


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return broadcast(x, comm, algorithm=algorithm)

    assert_live_ranks_send_as_predicted(live_world(3), call, BROADCAST[algorithm], f"broadcast[from rank 0, {algorithm}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.broadcast"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    link = Link(latency=1e-4, bandwidth=1e8)
    rows = cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    for size, numel in ((2, 8000), (4, 12_000), (8, 8000)):
        segments = num_segments(numel, 4, size - 2, link)
        assert numel % segments == 0 and numel % size == 0
        names = {"p": size, "n": 4 * numel, "s": segments, "alpha": link.latency, "beta": link.bandwidth}
        for algorithm, row in rows.items():
            cost = BROADCAST[algorithm](numel, 4, size, link)
            assert [value(formula, **names) for formula in row] == pytest.approx([cost.messages[0], cost.bytes_sent[0], cost.seconds], rel=1e-12)


def test_auto_takes_what_the_model_finds_fastest() -> None:
    for numel, best in ((1, "tree"), (100_000, "scatter_all_gather"), (3_000_000, "chain")):
        trace = simulated(8, lambda comm, n=numel: broadcast(torch.ones(n, dtype=torch.uint8), comm))
        assert {e.tag for e in trace.events if e.kind == "collective"} == {f"broadcast[from rank 0, {best}]"}
        assert choose("broadcast", numel, 8, LINK).best == best


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"x": None},
            "TypeError: broadcast(x=None): pass a tensor of the root's dtype and shape, to say what will come; its values don't count: torch.empty",
        ),
        ({"x": 3}, "TypeError: broadcast(x=3): x is a int, it must be a torch.Tensor"),
        ({"root": 2}, "ValueError: broadcast(root=2): root is a rank of this group, from 0 to 1"),
        ({"root": -1}, "ValueError: broadcast(root=-1): root is a rank of this group, from 0 to 1"),
        (
            {"algorithm": "ring"},
            "ValueError: broadcast(algorithm='ring'): algorithm is one of 'auto', 'flat', 'tree', 'chain', 'scatter_all_gather', 'native'",
        ),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
            world.run(lambda comm: broadcast(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"x": torch.ones(3)}, {"x": torch.ones(4)}], ["float32[3], from rank 0", "float32[4], from rank 0"]),
        ([{"x": torch.ones(3)}, {"x": torch.ones(3).int()}], ["float32[3], from rank 0", "int32[3], from rank 0"]),
        ([{"root": 0}, {"root": 1}], ["float32[2], from rank 0", "float32[2], from rank 1"]),
    ],
)
def test_ranks_that_disagree_are_laid_side_by_side(calls: list[dict[str, Any]], words: list[str], algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: broadcast(**{"x": torch.ones(2), "comm": comm, "algorithm": algorithm, **calls[comm.rank]}))
    assert all(f"rank {rank}: broadcast #1 of {word}, {algorithm} at" in str(caught.value) for rank, word in enumerate(words)), str(caught.value)


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H10_a_column_arrives_as_it_looks_and_its_neighbour_stays(live_world: Live, algorithm: str) -> None:
    def column(comm: Communicator) -> tuple[list[float], list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]])
        if comm.rank > 0:
            table[:, 0] = 0
        return broadcast(table[:, 0], comm, algorithm=algorithm).tolist(), table[:, 1].tolist()

    assert list(live_world(2).run(column)) == [([1.0, 2.0, 3.0], [100.0] * 3)] * 2


@pytest.mark.live
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H15_the_root_is_counted_in_the_group(live_world: Live, algorithm: str) -> None:
    def from_the_first(comm: Communicator) -> float | str:
        try:
            return broadcast(torch.tensor(float(comm.rank)), comm.subgroup([1, 2]), root=0, algorithm=algorithm).item()
        except NotInGroup as refusal:
            return str(refusal)

    outside, *inside = live_world(3).run(from_the_first)
    assert inside == [1.0, 1.0]
    assert outside == "rank 0 is not in group 'ranks 1,2' of ranks 1, 2, so it can't communicate in it"


def test_a_parameter_arrives_without_its_history() -> None:
    def parameter(comm: Communicator) -> tuple[bool, list[float]]:
        result = broadcast(torch.nn.Parameter(torch.full((2,), float(comm.rank))), comm, root=1)
        return result.requires_grad, result.tolist()

    with SimulatedWorld(2) as world:
        assert list(world.run(parameter)) == [(False, [1.0, 1.0])] * 2
