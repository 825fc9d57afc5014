"""<F x, y> = <x, F* y>, summed over ranks, for every movement: it needs no reference, and catches wrong sizes, orders and factors.

A tensor that is replicated counts once: its inner product is that of one rank.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from partkit.communicator import Communicator
from partkit.worlds.simulated import SimulatedWorld
from tests.functional.movements import MOVEMENTS, Problem, example, random

LAYOUTS = ("contiguous", "expanded", "transposed", "sliced")


def laid_out(values: Tensor, layout: str) -> Tensor:
    """A tensor of the same shape in another layout; an expanded one has equal values along its first dim."""
    if layout == "expanded" and values.dim() and values.shape[0]:
        return values[:1].expand(values.shape)
    if layout == "transposed" and values.dim() > 1:
        return values.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "sliced" and values.dim():
        return torch.stack([values, values], dim=-1)[..., 0]
    return values


def inner(one: Tensor, other: Tensor) -> float:
    return float((one * other).sum())


def both_sides(comm: Communicator, name: str, problem: Problem, layout: str = "contiguous", members: tuple[int, ...] | None = None) -> tuple[float, float]:
    """This rank's part of <F x, y> and of <x, F* y>."""
    case = MOVEMENTS[name]
    if members is not None:
        if comm.rank not in members:
            return 0.0, 0.0
        comm = comm.subgroup(members)
    seed = 0 if case.replicated == "x" else comm.rank
    x = laid_out(random(case.puts_in(problem)[comm.rank], seed), layout).requires_grad_()
    result = case.call(x, comm, problem)
    y = laid_out(random(tuple(result.shape), 50 if case.replicated == "y" else 50 + comm.rank), layout)
    result.backward(y)
    assert x.grad is not None and x.grad.shape == x.shape
    once = {"x": (1, comm.rank == 0), "y": (comm.rank == 0, 1), "": (1, 1)}[case.replicated]
    return once[0] * inner(result.detach(), y), once[1] * inner(x.detach(), x.grad)


def parts(comm: Communicator, names: list[str], problem: Problem, layout: str, members: tuple[int, ...] | None) -> list[tuple[float, float]]:
    return [both_sides(comm, name, problem, layout, members) for name in names]


def wrong(names: list[str], problem: Problem, layout: str = "contiguous", members: tuple[int, ...] | None = None) -> list[str]:
    """The movements for which the two sides differ."""
    with SimulatedWorld(problem.size if members is None else max(members) + 1, trace=False) as world:
        by_rank = world.run(parts, names, problem, layout, members)
    sides = [[sum(side) for side in zip(*ranks, strict=True)] for ranks in zip(*by_rank, strict=True)]
    return [name for name, (there, back) in zip(names, sides, strict=True) if there != pytest.approx(back, rel=1e-9, abs=1e-9)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_of_every_movement(size: int) -> None:
    assert wrong(list(MOVEMENTS), example(size)) == []


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_case_N09_expanded_and_non_contiguous_gradients(layout: str) -> None:
    assert wrong(list(MOVEMENTS), example(3), layout) == []


def test_in_a_group_whose_ranks_are_in_another_order() -> None:
    assert wrong(list(MOVEMENTS), example(3), members=(4, 1, 3)) == []


@st.composite
def problems(draw: Any) -> Problem:
    """Any number of ranks, shape, dim, root; uneven and empty pieces."""
    size = draw(st.integers(1, 6))
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    dim = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    shape[dim] = sum(sizes)
    counts = draw(st.lists(st.lists(st.integers(0, 2), min_size=size, max_size=size).map(tuple), min_size=size, max_size=size))
    return Problem(size, tuple(shape), dim, tuple(sizes), draw(st.integers(0, size - 1)), tuple(counts))


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(sorted(MOVEMENTS)), problem=problems(), layout=st.sampled_from(LAYOUTS))
def test_of_random_shapes(name: str, problem: Problem, layout: str) -> None:
    assert wrong([name], problem, layout) == []


def test_the_check_finds_a_wrong_adjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A movement whose backward forgets the sum over ranks: Megatron's g, taken for an all-reduce of ranks with losses of their own."""
    monkeypatch.setitem(MOVEMENTS, "all_reduce", MOVEMENTS["reduce_from_group"]._replace(replicated=""))
    assert wrong(["all_gather", "all_reduce"], example(2)) == ["all_reduce"]
