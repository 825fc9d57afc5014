"""All-reduce: the serial answer, the same bits everywhere, and exactly the messages and bytes of the closed form."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partkit.cluster import COSTS, LOOPBACK
from partkit.collectives import all_reduce as module
from partkit.collectives import reducing
from partkit.collectives.all_reduce import ALGORITHMS, all_reduce
from partkit.collectives.reducing import NOT_BY_GLOO, OPS, Op
from partkit.communicator import Communicator, NotInGroup
from partkit.worlds.errors import RankError
from partkit.worlds.world import World

pytestmark = pytest.mark.live
Live = Callable[[int], World]

ALL_REDUCE = COSTS["all_reduce"]
EXPLICIT = sorted(ALL_REDUCE)
SERIAL: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda parts: parts.sum(0),
    "mean": lambda parts: parts.mean(0),
    "product": lambda parts: parts.prod(0),
    "min": lambda parts: parts.amin(0),
    "max": lambda parts: parts.amax(0),
}


def part(rank: int, shape: tuple[int, ...], dtype: torch.dtype, layout: str = "plain") -> Tensor:
    """What a rank contributes: small whole numbers, different on every rank, so that every dtype adds them without rounding."""
    generator = torch.Generator().manual_seed(1000 + rank)
    wide = (*shape[:-1], 2 * shape[-1]) if shape and layout == "strided" else shape
    x = torch.randint(0, 4, wide, generator=generator)
    x = x if dtype not in (torch.complex64, torch.complex128) else x + 1j * torch.randint(0, 4, wide, generator=generator)
    x = x.to(dtype)
    if layout == "strided" and shape:
        x = x[..., ::2]
    if layout == "transposed" and len(shape) == 2:
        x = x.T.contiguous().T
    return x


def reduce_cases(comm: Communicator, cases: list[tuple[Any, ...]]) -> list[tuple[Tensor, bool, bool]]:
    """For each case: the result, whether the input is as it was, whether the result is new, contiguous memory."""
    out = []
    for shape, dtype, layout, op, algorithm in cases:
        x = part(comm.rank, shape, dtype, layout)
        before, strides = x.clone(), x.stride()
        result = all_reduce(x, comm, op, algorithm)
        new = result.is_contiguous() and (result.data_ptr() != x.data_ptr() or result.numel() == 0)
        out.append((result, x.equal(before) and x.stride() == strides, new))
    return out


def expected(size: int, shape: tuple[int, ...], dtype: torch.dtype, op: str) -> Tensor:
    parts = torch.stack([part(rank, shape, dtype) for rank in range(size)])
    exact = parts.to(torch.complex128 if dtype.is_complex else torch.float64)
    if dtype == torch.bool:
        exact = exact.bool() if op in ("min", "product") else exact
    return SERIAL[op](exact).to(dtype)


shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, ...]:
    dtype = draw(st.sampled_from(sorted(OPS, key=str)))
    op = draw(st.sampled_from(OPS[dtype]))
    algorithm = draw(st.sampled_from([*EXPLICIT, "auto"] if (dtype, op) in NOT_BY_GLOO else [*EXPLICIT, "auto", "native"]))
    return draw(shapes), dtype, draw(st.sampled_from(["plain", "strided", "transposed"])), op, algorithm


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_any_shape_dtype_layout_and_op_gives_the_serial_answer(live_world: Live, size: int) -> None:
    world = live_world(size)

    @settings(max_examples=6, deadline=None, derandomize=True)
    @given(st.lists(cases(), min_size=12, max_size=12))
    def check(drawn: list[tuple[Any, ...]]) -> None:
        by_rank = world.run(reduce_cases, drawn)
        for i, (shape, dtype, layout, op, algorithm) in enumerate(drawn):
            right = expected(size, shape, dtype, op) if layout == "plain" else serial_of_layout(size, drawn[i])
            for rank in range(size):
                result, unchanged, new = by_rank[rank][i]
                where = f"rank {rank} of {size}: {drawn[i]}"
                assert result.shape == torch.Size(shape) and result.dtype == dtype, where
                assert torch.allclose(result.to(torch.complex128), right.to(torch.complex128), rtol=1e-2 if dtype.itemsize == 2 else 1e-6), where
                assert unchanged and new, where
                if algorithm != "native":
                    assert bits(result) == bits(by_rank[0][i][0]), where

    check()


def serial_of_layout(size: int, case: tuple[Any, ...]) -> Tensor:
    shape, dtype, layout, op, _ = case
    parts = torch.stack([part(rank, shape, dtype, layout) for rank in range(size)])
    exact = parts.to(torch.complex128 if dtype.is_complex else torch.float64)
    return SERIAL[op](exact.bool() if dtype == torch.bool and op in ("min", "product") else exact).to(dtype)


def bits(x: Tensor) -> list[int]:
    flat: list[int] = x.contiguous().reshape(-1).view(torch.uint8).tolist() if x.numel() else []
    return flat


@pytest.mark.parametrize("size", [2, 3, 5])
def test_sums_that_round_have_the_same_bits_on_every_rank(live_world: Live, size: int) -> None:
    def reduce(comm: Communicator) -> list[Tensor]:
        x = torch.randn(101, generator=torch.Generator().manual_seed(comm.rank)) * 10.0 ** torch.arange(-50, 51)
        return [
            all_reduce(x.to(dtype), comm, op, algorithm)
            for dtype in (torch.float32, torch.float16)
            for op in ("sum", "mean")
            for algorithm in ("naive", "ring")
        ]  # type: ignore[arg-type]

    first, *others = live_world(size).run(reduce)
    assert all([bits(a) for a in first] == [bits(b) for b in other] for other in others)


# -- predicted = counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EXPLICIT)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_a_run_shows_the_messages_and_bytes_of_the_closed_form(live_world: Live, size: int, algorithm: str) -> None:
    world = live_world(size)
    numels = [0, 1, size - 1, size, 7, 10, 64]
    for dtype in (torch.float32, torch.float64, torch.bool):
        world.run(lambda comm, dtype: [all_reduce(torch.ones(n, dtype=dtype), comm, algorithm=algorithm) for n in numels] and None, dtype)  # type: ignore[arg-type]
        costs = [ALL_REDUCE[algorithm](n, dtype.itemsize, size, LOOPBACK) for n in numels]
        for rank in range(size):
            assert world.trace.num_messages(rank) == sum(cost.messages[rank] for cost in costs)
            assert world.trace.bytes_sent(rank) == sum(cost.bytes_sent[rank] for cost in costs)
        for number, cost in enumerate(costs):
            calls = [e for e in world.trace.events if e.kind == "collective" and e.seq == number]
            assert [(e.rank, e.nbytes, e.tag) for e in sorted(calls)] == [
                (rank, numels[number] * dtype.itemsize, f"all_reduce[sum, {algorithm}]") for rank in range(size)
            ]
            tags = {e.tag for e in world.trace.events if e.kind == "send"}
            assert len(tags) == cost.steps
    assert {e.span for e in world.trace.events if e.kind in ("send", "recv")} <= {"all_reduce"}


def test_the_table_of_costs_in_the_documentation_is_the_closed_form() -> None:
    """Read the rows of the docstrings as formulas and hold them to `partkit.cluster`, for sizes that divide."""
    for text in (module.__doc__, sys.modules["partkit.cluster.costs.all_reduce"].__doc__):
        rows = {row[0]: row[1:] for row in re.findall(r"^ +(naive|ring) {2,}(.+?) {2,}(.+?) {2,}(.+)$", text or "", re.MULTILINE)}
        assert sorted(rows) == EXPLICIT
        for algorithm, row in rows.items():
            for p, n in ((2, 10), (4, 1000), (5, 40)):
                values = {"p": p, "n": 4.0 * n, "alpha": LOOPBACK.latency, "beta": LOOPBACK.bandwidth}
                messages, nbytes, seconds = (eval(python(formula), values) for formula in row)
                cost = ALL_REDUCE[algorithm](n, 4, p, LOOPBACK)
                assert (messages, nbytes) == (cost.messages[0], cost.bytes_sent[0])
                assert seconds == pytest.approx(cost.seconds)


def python(formula: str) -> str:
    """``2 (p - 1) / p n`` as Python reads it: a gap between two factors is a product, and ``a / (p b)`` divides by both."""
    text = re.sub(r"(?<=[\w)]) (?=[(\w])", " * ", formula)
    return text.replace("/ p * n", "* n / p")


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


def attempts(comm: Communicator, dtypes: list[torch.dtype]) -> dict[str, dict[str, str]]:
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
                    all_reduce(x, comm, op, algorithm)  # type: ignore[arg-type]
                    answer = "yes"
                except ValueError as refusal:
                    answer = str(refusal)
                out.setdefault(str(dtype).removeprefix("torch."), {})[f"{op} {algorithm}"] = answer
    return out


def test_case_H09_the_documented_table_is_what_a_loop_over_all_dtypes_finds(live_world: Live) -> None:
    plain = [
        dtype
        for dtype in ALL_DTYPES
        if not str(dtype).startswith(("torch.q", "torch.bits", "torch.uint1", "torch.uint2", "torch.uint3", "torch.uint4", "torch.uint5"))
    ]
    plain = [dtype for dtype in plain if not re.search(r"int[1-7]$|complex32|float4", str(dtype))] + [torch.uint16, torch.uint32]
    first, *others = live_world(2).run(attempts, plain)
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


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_truth_values_add_to_or_and_multiply_to_and(live_world: Live, algorithm: str) -> None:
    def reduce(comm: Communicator) -> list[list[bool]]:
        x = torch.tensor([[False, False, True], [False, True, True]][comm.rank])
        return [all_reduce(x, comm, op, algorithm).tolist() for op in ("sum", "product", "min", "max")]  # type: ignore[arg-type]

    wanted = [[False, True, True], [False, False, True], [False, False, True], [False, True, True]]
    assert list(live_world(2).run(reduce)) == [wanted, wanted]


@pytest.mark.parametrize("algorithm", EXPLICIT)
def test_not_a_number_is_not_lost(live_world: Live, algorithm: str) -> None:
    def reduce(comm: Communicator) -> list[bool]:
        x = torch.tensor([float("nan") if comm.rank == 1 else 1.0, 1.0, float("nan") if comm.rank == 0 else 1.0])
        return [all_reduce(x, comm, op, algorithm).isnan().tolist() == [True, False, True] for op in COLUMNS]  # type: ignore[arg-type]

    assert list(live_world(2).run(reduce)) == [[True] * 5] * 2


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0], "sum", "ring"), "TypeError: all_reduce(x=[1.0]): x is a list, it must be a torch.Tensor"),
        ((torch.ones(2), "avg", "ring"), "ValueError: all_reduce(op='avg'): op is one of 'sum', 'mean', 'product', 'min', 'max'"),
        ((torch.ones(2), "sum", "tree"), "ValueError: all_reduce(algorithm='tree'): algorithm is one of 'auto', 'naive', 'ring', 'native'"),
        (
            (torch.ones(2).int(), "mean", "ring"),
            "ValueError: all_reduce(op='mean') of int32[2]: int32 can't be combined that way, only by sum, product, min, max",
        ),
        ((torch.ones(2).int().to_sparse(), "sum", "ring"), "ValueError: all_reduce of a tensor of layout torch.sparse_coo: only dense tensors travel"),
    ],
)
def test_what_cannot_be_reduced_is_refused_before_anything_is_sent(live_world: Live, arguments: tuple[Any, ...], words: str) -> None:
    world = live_world(2)
    with pytest.raises(RankError, match=re.escape(f"ranks 0-1: {words}")):
        world.run(lambda comm, x, op, algorithm: all_reduce(x, comm, op, algorithm), *arguments)
    assert world.trace.num_messages() == 0


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_case_H10_a_column_is_summed_as_it_looks_and_its_neighbour_stays(live_world: Live, algorithm: str) -> None:
    def reduce(comm: Communicator) -> tuple[list[float], list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]]) * torch.tensor([comm.rank + 1.0, 1.0])
        return all_reduce(table[:, 0], comm, algorithm=algorithm).tolist(), table[:, 1].tolist()  # type: ignore[arg-type]

    assert list(live_world(2).run(reduce)) == [([3.0, 6.0, 9.0], [100.0] * 3)] * 2


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_conjugates_are_summed_as_they_read(live_world: Live, algorithm: str) -> None:
    total = live_world(2).run(lambda comm: all_reduce(torch.tensor([1 + 2j]).conj(), comm, algorithm=algorithm).tolist())  # type: ignore[arg-type]
    assert list(total) == [[2 - 4j]] * 2


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_case_H08_empty_pieces_and_more_ranks_than_elements(live_world: Live, algorithm: str) -> None:
    def reduce(comm: Communicator) -> list[Any]:
        shapes: list[tuple[int, ...]] = [(1, 0, 2), (), (2,)]
        return [all_reduce(torch.ones(shape), comm, algorithm=algorithm).tolist() for shape in shapes]  # type: ignore[arg-type]

    assert list(live_world(3).run(reduce)) == [[[[]], 3.0, [3.0, 3.0]]] * 3


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_case_L15_one_rank_reduces_to_itself(live_world: Live, algorithm: str) -> None:
    assert list(live_world(1).run(lambda comm: all_reduce(torch.tensor([5.0]), comm, "mean", algorithm).tolist())) == [[5.0]]  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_case_H15_a_group_reduces_among_its_own(live_world: Live, algorithm: str) -> None:
    def reduce(comm: Communicator) -> float | str:
        x = torch.tensor([float(comm.rank)])
        try:
            return all_reduce(x, comm.subgroup([2, 1]), algorithm=algorithm).item()  # type: ignore[arg-type]
        except NotInGroup as refusal:
            return str(refusal)

    outside, *inside = live_world(3).run(reduce)
    assert inside == [3.0, 3.0]
    assert "rank 0 is not in group" in outside


def test_a_result_has_no_history_and_may_be_written_on(live_world: Live) -> None:
    def reduce(comm: Communicator) -> tuple[bool, list[float], list[float]]:
        x = torch.ones(2, requires_grad=True)
        total = all_reduce(x, comm)
        total += 1
        return total.requires_grad, total.tolist(), x.tolist()

    assert list(live_world(2).run(reduce)) == [(False, [3.0, 3.0], [1.0, 1.0])] * 2
