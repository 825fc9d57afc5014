"""All-reduce: the serial answer, the same bits everywhere, and exactly the messages, bytes and seconds of the closed form."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import partkit as pk
from partkit.cluster import COSTS, Link
from partkit.cluster.costs.all_reduce import ranks_per_node_by_default, two_level_all_reduce
from partkit.cluster.costs.double_tree import segments_of_tree
from partkit.collectives import all_reduce as module
from partkit.collectives import reducing
from partkit.collectives.all_reduce import ALGORITHMS, all_reduce
from partkit.collectives.reducing import NOT_BY_GLOO, OPS, Op
from partkit.communicator import Communicator, NotInGroup
from partkit.double_tree import fill
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.collectives.counted import assert_live_ranks_send_as_predicted
from tests.collectives.inputs import LAYOUTS, bits, close, combinable, groups, new, same, serial, shapes, summand
from tests.collectives.tables import cost_rows, value
from tests.simulated import LINK, assert_costs, simulated

Live = Callable[[int], World]
ALL_REDUCE = COSTS["all_reduce"]
EXPLICIT = list(ALL_REDUCE)


def reduce_one(comm: Communicator, ranks: list[int], case: tuple[Any, ...], op: Op, algorithm: str) -> str | list[int]:
    """What is wrong with a result, in the words of a failed test; if nothing is, its bits."""
    group = comm.subgroup(ranks)
    if comm.rank not in group:
        return []
    x = summand(group.rank, *case)
    result = all_reduce(x, group, op, algorithm)
    right = close(result, serial([summand(rank, *case) for rank in range(group.size)], op))
    return bits(result) if right and new(result, x) and same(x, summand(group.rank, *case)) else f"rank {group.rank} of {group}: {result}"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(groups(), shapes, combinable(), st.sampled_from(LAYOUTS), st.sampled_from([*EXPLICIT, "auto"]))
def test_any_shape_dtype_layout_and_op_in_any_group_gives_the_serial_answer(
    group: tuple[int, list[int]], shape: tuple[int, ...], how: tuple[torch.dtype, Op], layout: str, algorithm: str
) -> None:
    (size, ranks), (dtype, op) = group, how
    with SimulatedWorld(size) as world:
        found = world.run(reduce_one, ranks, (shape, dtype, layout), op, algorithm)
    assert all(found[rank] == found[ranks[0]] and isinstance(found[rank], list) for rank in ranks), found


@pytest.mark.parametrize("size", [4, 6, 7])
def test_every_op_by_every_algorithm(size: int) -> None:
    def all_of_them(comm: Communicator) -> list[str]:
        found = [reduce_one(comm, list(range(size)), ((5,), torch.float32, "plain"), op, algorithm) for op in OPS[torch.float32] for algorithm in EXPLICIT]
        return [wrong for wrong in found if isinstance(wrong, str)]

    with SimulatedWorld(size) as world:
        assert list(world.run(all_of_them)) == [[]] * size


@pytest.mark.live
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_same_on_the_wire(live_world: Live, size: int) -> None:
    cases = [(shape, torch.float32, layout) for shape in ((), (0, 3), (2, 3), (50, 70)) for layout in LAYOUTS]

    def all_of_them(comm: Communicator) -> list[str]:
        backwards = list(range(comm.size))[::-1]
        return [
            wrong
            for number, case in enumerate(cases)
            for algorithm in (*ALGORITHMS, "auto")
            if isinstance(wrong := reduce_one(comm, backwards[: 2 + number % 3], case, OPS[torch.float32][number % 5], algorithm), str)
        ]

    assert list(live_world(size).run(all_of_them)) == [[]] * size


@pytest.mark.parametrize("size", [2, 3, 4, 6, 7])
def test_what_rounds_has_the_same_bits_on_every_rank(size: int) -> None:
    """Sums of large and small; zeros of both signs, where it matters to min and max which comes first."""

    def reduce(comm: Communicator) -> list[list[int]]:
        generator = torch.Generator().manual_seed(comm.rank)
        x = torch.cat([torch.randn(101, generator=generator) * 10.0 ** torch.arange(-50, 51), torch.randn(40, generator=generator).sign() * 0.0])
        cases = [(dtype, op, algorithm) for dtype in (torch.float32, torch.float16) for op in OPS[dtype] for algorithm in EXPLICIT]
        return [bits(all_reduce(x.to(dtype), comm, op, algorithm)) for dtype, op, algorithm in cases]

    with SimulatedWorld(size) as world:
        first, *others = world.run(reduce)
    assert all(other == first for other in others)


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize("size", range(1, 18))
def test_messages_bytes_and_seconds_are_those_of_the_closed_form(size: int, algorithm: str) -> None:
    for numel in (size % 3, 3 * size + 1, 20_011):
        assert_costs(simulated(size, lambda comm, n=numel: all_reduce(torch.ones(n), comm, algorithm=algorithm)), ALL_REDUCE[algorithm](numel, 4, size, LINK))


@pytest.mark.live
@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_live_ranks_send_the_same(live_world: Live, algorithm: str) -> None:
    def call(x: torch.Tensor, comm: Communicator) -> object:
        return all_reduce(x, comm, algorithm=algorithm)

    for size in (3, 4):
        detail = f"sum, {algorithm}" + (f" in nodes of {ranks_per_node_by_default(size)}" if algorithm == "hierarchical" else "")
        assert_live_ranks_send_as_predicted(live_world(size), call, ALL_REDUCE[algorithm], f"all_reduce[{detail}]")


@pytest.mark.parametrize("text", [module.__doc__, sys.modules["partkit.cluster.costs.all_reduce"].__doc__])
def test_the_table_in_the_documentation_is_the_closed_form(text: str) -> None:
    link = Link(latency=1e-4, bandwidth=1e8)
    rows = cost_rows(text, EXPLICIT)
    assert list(rows) == EXPLICIT
    most_messages, most_bytes, _ = rows["double_tree"]
    for size, numel in ((4, 96_000), (8, 960_000), (16, 9_600_000)):
        s, f, q = segments_of_tree(numel, 4, size, link), fill(size), ranks_per_node_by_default(size)
        numel -= numel % (2 * s * size)
        assert s == segments_of_tree(numel, 4, size, link) > 1
        names = {"p": size, "n": 4 * numel, "q": q, "s": s, "f": f, "alpha": link.latency, "beta": link.bandwidth}
        for algorithm, (messages, nbytes, seconds) in rows.items():
            cost = ALL_REDUCE[algorithm](numel, 4, size, link)
            assert value(seconds, **names) == pytest.approx(cost.seconds, rel=1e-12), algorithm
            if algorithm != "double_tree":
                assert [value(messages, **names), value(nbytes, **names)] == [cost.messages[0], cost.bytes_sent[0]], algorithm
        assert max(cost.messages) == value(most_messages.removeprefix("up to "), **names)
        assert max(cost.bytes_sent) == value(most_bytes.removeprefix("up to "), **names)


# -- two levels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "node"), [(6, 1), (6, 2), (6, 3), (6, 6), (12, 4)])
def test_only_a_share_of_each_rank_travels_between_nodes(size: int, node: int) -> None:
    numel = 120
    trace = simulated(size, lambda comm: all_reduce(torch.ones(numel), comm, algorithm="hierarchical", ranks_per_node=node))
    assert_costs(trace, two_level_all_reduce(numel, 4, size, node, inside=LINK, between=LINK))
    between = sum(e.nbytes for e in trace.events if e.kind == "send" and e.peer is not None and e.peer // node != e.rank // node)
    assert between == 2 * (size // node - 1) * 4 * numel


def test_nodes_are_the_last_axis_of_the_mesh_if_the_whole_world_reduces() -> None:
    def tags(comm: Communicator, x: torch.Tensor) -> None:
        all_reduce(x, comm, algorithm="hierarchical")
        all_reduce(x, comm.subgroup(range(6)), algorithm="hierarchical")

    with SimulatedWorld(pk.Mesh(node=2, gpu=3)) as world:
        world.run(tags, torch.ones(6))
        assert [e.tag for e in world.trace.events if e.kind == "collective" and e.rank == 0] == [
            "all_reduce[sum, hierarchical in nodes of 3]",
            "all_reduce[sum, hierarchical in nodes of 2]",
        ]


def test_nodes_are_those_that_auto_reckoned_with_when_auto_has_chosen() -> None:
    """On a mesh whose last axis is the whole world: what is run is what was chosen, and takes the time for which it was chosen."""
    numel, chosen = 75_000, pk.choose("all_reduce", 300_000, 9, LINK)
    assert chosen.best == "hierarchical"
    with SimulatedWorld(pk.Mesh(dp=1, tp=9), pk.Cluster(link=LINK)) as world:
        world.run(lambda comm: all_reduce(torch.ones(numel), comm))
        assert next(e.tag for e in world.trace.events if e.kind == "collective") == "all_reduce[sum, hierarchical in nodes of 3]"
        assert_costs(world.trace, ALL_REDUCE["hierarchical"](numel, 4, 9, LINK))


# -- what can be combined how ----------------------------------------------------------------------------------------

ALL_DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)} - {torch.bits8, torch.bits16}, key=str)
COLUMNS = ("sum", "mean", "product", "min", "max")


def documented() -> dict[str, dict[str, str]]:
    """The table of the module's docstring: dtype -> op -> "yes", "yes*" or "-"."""
    table: dict[str, dict[str, str]] = {}
    for line in (reducing.__doc__ or "").splitlines():
        if found := re.fullmatch(r" {4}((?:\w+ )*\w+) {2,}(yes\*?|-) +(yes\*?|-) +(yes\*?|-) +(yes\*?|-) +(yes\*?|-)(?: +\*.*)?", line):
            table |= {dtype: dict(zip(COLUMNS, found.groups()[1:], strict=True)) for dtype in found[1].split()}
    return table


def attempts(comm: Communicator, dtypes: list[torch.dtype], operation: str) -> dict[str, dict[str, str]]:
    """What really works, by dtype, op and algorithm: "yes", or the refusal."""
    out: dict[str, dict[str, str]] = {}
    for dtype in dtypes:
        for op in COLUMNS:
            for algorithm in ("ring", "native"):
                try:
                    x = torch.zeros(5, dtype=torch.uint8).to(dtype)
                except (RuntimeError, TypeError):
                    x = torch.empty(5, dtype=dtype)
                try:
                    getattr(pk, operation)(x, comm, op=op, algorithm=algorithm)
                    answer = "yes"
                except ValueError as refusal:
                    answer = str(refusal)
                out.setdefault(str(dtype).removeprefix("torch."), {})[f"{op} {algorithm}"] = answer
    return out


@pytest.mark.live
@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter"])
def test_case_H09_the_documented_table_is_what_a_loop_over_all_dtypes_finds(live_world: Live, operation: str) -> None:
    plain = [
        dtype
        for dtype in ALL_DTYPES
        if not str(dtype).startswith(("torch.q", "torch.bits", "torch.uint1", "torch.uint2", "torch.uint3", "torch.uint4", "torch.uint5"))
    ]
    plain = [dtype for dtype in plain if not re.search(r"int[1-7]$|complex32|float4", str(dtype))] + [torch.uint16, torch.uint32]
    first, *others = live_world(2).run(attempts, plain, operation)
    assert others == [first]
    table = documented()
    assert set(table) == {str(dtype).removeprefix("torch.") for dtype in OPS}
    for dtype, found in first.items():
        for op in COLUMNS:
            stated = table.get(dtype, {}).get(op, "-")
            for algorithm in ("ring", "native"):
                answer, works = found[f"{op} {algorithm}"], stated == "yes" or (stated == "yes*" and algorithm != "native")
                assert (answer == "yes") is works, f"{op} of {dtype} by {algorithm}: documented {stated!r}, found {answer!r}"
                if not works:
                    assert dtype in answer and (op in answer or dtype not in table), answer


def test_the_table_of_the_code_is_the_documented_one() -> None:
    for dtype, row in documented().items():
        assert tuple(op for op in get_args(Op) if row[op] != "-") == OPS[getattr(torch, dtype)]
        assert {op for op in COLUMNS if row[op] == "yes*"} == {op for d, op in NOT_BY_GLOO if d == getattr(torch, dtype)} & set(OPS[getattr(torch, dtype)])


def test_truth_values_add_to_or_and_multiply_to_and() -> None:
    def reduce(comm: Communicator) -> list[list[bool]]:
        x = torch.tensor([[False, False, True], [False, True, True]][comm.rank])
        return [all_reduce(x, comm, op, algorithm).tolist() for algorithm in EXPLICIT for op in ("sum", "product", "min", "max")]  # type: ignore[arg-type]

    wanted = [[False, True, True], [False, False, True], [False, False, True], [False, True, True]] * len(EXPLICIT)
    with SimulatedWorld(2) as world:
        assert list(world.run(reduce)) == [wanted, wanted]


def test_not_a_number_is_not_lost() -> None:
    def reduce(comm: Communicator) -> list[bool]:
        x = torch.tensor([float("nan") if comm.rank == 1 else 1.0, 1.0, float("nan") if comm.rank == 0 else 1.0])
        return [all_reduce(x, comm, op, algorithm).isnan().tolist() == [True, False, True] for algorithm in EXPLICIT for op in COLUMNS]  # type: ignore[arg-type]

    with SimulatedWorld(2) as world:
        assert all(all(found) for found in world.run(reduce))


# -- refusals and mismatches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": [1.0]}, "TypeError: all_reduce(x=[1.0]): x is a list, it must be a torch.Tensor"),
        ({"op": "avg"}, "ValueError: all_reduce(op='avg'): op is one of 'sum', 'mean', 'product', 'min', 'max'"),
        (
            {"algorithm": "tree"},
            "ValueError: all_reduce(algorithm='tree'): algorithm is one of 'auto', 'naive', 'reduce_broadcast', 'ring', 'recursive_doubling', "
            "'halving_doubling', 'hierarchical', 'double_tree', 'native'",
        ),
        (
            {"x": torch.ones(2).int(), "op": "mean"},
            "ValueError: all_reduce(op='mean') of int32[2]: int32 can't be combined that way, only by sum, product, min, max",
        ),
        ({"x": torch.ones(2).int().to_sparse()}, "ValueError: all_reduce of a tensor of layout torch.sparse_coo: only dense tensors travel"),
        (
            {"ranks_per_node": 3, "algorithm": "hierarchical"},
            "ValueError: all_reduce(ranks_per_node=3): nodes are of one size, so it must divide the number of ranks, 4",
        ),
        (
            {"ranks_per_node": 0, "algorithm": "hierarchical"},
            "ValueError: all_reduce(ranks_per_node=0): nodes are of one size, so it must divide the number of ranks, 4",
        ),
        (
            {"ranks_per_node": 2, "algorithm": "ring"},
            "ValueError: all_reduce(ranks_per_node=2, algorithm='ring'): only algorithm='hierarchical' has nodes",
        ),
    ],
)
def test_what_cannot_be_reduced_is_refused_before_anything_is_sent(arguments: dict[str, Any], words: str) -> None:
    with SimulatedWorld(4) as world:
        with pytest.raises(RankError, match=re.escape(f"ranks 0-3: {words}")):
            world.run(lambda comm: all_reduce(**{"x": torch.ones(2), "comm": comm, **arguments}))
        assert world.trace.num_messages() == 0


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_ranks_that_disagree_are_laid_side_by_side(algorithm: str) -> None:
    with SimulatedWorld(2) as world, pytest.raises(RanksStuck) as caught:
        world.run(lambda comm: all_reduce(torch.ones(3 + comm.rank), comm, algorithm=algorithm))
    assert all(f"rank {rank}: all_reduce #1 of float32[{3 + rank}], sum, {algorithm}" in str(caught.value) for rank in range(2)), str(caught.value)


def test_ranks_that_see_other_nodes_are_laid_side_by_side() -> None:
    with SimulatedWorld(4) as world, pytest.raises(RanksStuck, match=r"ranks 0-1: .* in nodes of 1[^$]*ranks 2-3: .* in nodes of 2"):
        world.run(lambda comm: all_reduce(torch.ones(3), comm, algorithm="hierarchical", ranks_per_node=1 + comm.rank // 2))


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_case_H10_a_column_is_summed_as_it_looks_and_its_neighbour_stays(live_world: Live, algorithm: str) -> None:
    def reduce(comm: Communicator) -> tuple[list[float], list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]]) * torch.tensor([comm.rank + 1.0, 1.0])
        return all_reduce(table[:, 0], comm, algorithm=algorithm).tolist(), table[:, 1].tolist()

    assert list(live_world(2).run(reduce)) == [([3.0, 6.0, 9.0], [100.0] * 3)] * 2


@pytest.mark.live
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_case_H15_a_group_reduces_among_its_own(live_world: Live, algorithm: str) -> None:
    def reduce(comm: Communicator) -> float | str:
        x = torch.tensor([float(comm.rank)])
        try:
            return all_reduce(x, comm.subgroup([2, 1]), algorithm=algorithm).item()
        except NotInGroup as refusal:
            return str(refusal)

    outside, *inside = live_world(3).run(reduce)
    assert inside == [3.0, 3.0]
    assert "rank 0 is not in group" in outside


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_a_result_has_no_history_and_may_be_written_on(algorithm: str) -> None:
    def reduce(comm: Communicator) -> tuple[bool, list[float], list[float]]:
        x = torch.ones(2, requires_grad=True)
        total = all_reduce(x, comm, algorithm=algorithm)
        total += 1
        return total.requires_grad, total.tolist(), x.tolist()

    for size in (1, 2):
        with SimulatedWorld(size) as world:
            assert list(world.run(reduce)) == [(False, [size + 1.0] * 2, [1.0, 1.0])] * size
