"""The ranks' problem as one: a function of all ranks' inputs, concatenated, to all ranks' results; torch.autograd.gradcheck on it.

`Together` is that function. Its forward runs the ranks, and so does its backward, in which each rank calls backward on its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from partkit.communicator import Communicator
from partkit.worlds.simulated import SimulatedWorld
from tests.functional.movements import MOVEMENTS, Problem, random

Call = Callable[[Tensor, Communicator, Problem], Tensor]
SMALL = Problem(3, (4,), 0, (1, 0, 3), root=1, counts=((1, 2, 0), (0, 1, 1), (2, 0, 0)))


def network(x: Tensor, comm: Communicator, problem: Problem) -> Tensor:
    """Nonlinear in between, each result used twice, and by some ranks more than by others."""
    shared = call_of("all_gather")(x.sin(), comm, problem)
    own = call_of("reduce_scatter")(shared * shared.roll(1) + comm.rank * shared.exp(), comm, problem)
    everyone = call_of("all_reduce of a mean")(own.sum().cos(), comm, problem)
    return call_of("gather, asking")(own * everyone, comm, problem) * (1 + shared.mean())


def call_of(name: str) -> Call:
    return network if name == "network" else MOVEMENTS[name].call


def inputs_of(name: str, problem: Problem) -> list[Tensor]:
    """Each rank's."""
    shapes = problem.pieces if name == "network" else MOVEMENTS[name].puts_in(problem)
    return [random(shape, rank) for rank, shape in enumerate(shapes)]


def forward(comm: Communicator, name: str, problem: Problem, inputs: list[Tensor]) -> Tensor:
    return call_of(name)(inputs[comm.rank], comm, problem).detach()


def backward(comm: Communicator, name: str, problem: Problem, inputs: list[Tensor], gradients: list[Tensor]) -> Tensor:
    x = inputs[comm.rank].clone().requires_grad_()
    call_of(name)(x, comm, problem).backward(gradients[comm.rank])
    assert x.grad is not None
    return x.grad


class Together(torch.autograd.Function):
    """All ranks' inputs to all ranks' results."""

    @staticmethod
    def forward(ctx: Any, name: str, problem: Problem, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.problem, ctx.inputs = (name, problem), [x.detach() for x in inputs]
        with SimulatedWorld(problem.size, trace=False) as world:
            return tuple(world.run(forward, name, problem, ctx.inputs))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        with SimulatedWorld(ctx.problem[1].size, trace=False) as world:
            return (None, None, *world.run(backward, *ctx.problem, ctx.inputs, [y.detach() for y in gradients]))


@pytest.mark.parametrize("name", ["network", *(name for name, case in MOVEMENTS.items() if not case.replicated)])
def test_gradcheck(name: str) -> None:
    call: Callable[..., Any] = Together.apply  # type: ignore[assignment]
    inputs = [x.requires_grad_() for x in inputs_of(name, SMALL)]
    assert torch.autograd.gradcheck(lambda *inputs: call(name, SMALL, *inputs), inputs, fast_mode=name != "network")


def two_derivatives(comm: Communicator, name: str, problem: Problem, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """dL/dx and the gradient of its square, L = sum of y^3."""
    x = inputs[comm.rank].clone().requires_grad_()
    loss = (call_of(name)(x, comm, problem) ** 3).sum()
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x)
    return first.detach(), second


@pytest.mark.parametrize("name", [name for name, case in MOVEMENTS.items() if not case.replicated])
def test_second_derivatives(name: str) -> None:
    """Those of the same movement as a matrix, y = A x over all ranks, whose columns are what becomes of each unit vector."""
    inputs = inputs_of(name, SMALL)
    numels = [x.numel() for x in inputs]
    with SimulatedWorld(SMALL.size, trace=False) as world:
        columns = []
        for unit in torch.eye(sum(numels), dtype=torch.float64):
            ranks = [part.view(x.shape) for part, x in zip(unit.split(numels), inputs, strict=True)]
            columns.append(torch.cat([y.flatten() for y in world.run(forward, name, SMALL, ranks)]))
        found = world.run(two_derivatives, name, SMALL, inputs)
    matrix, x = torch.stack(columns, dim=1), torch.cat([x.flatten() for x in inputs]).requires_grad_()
    (first,) = torch.autograd.grad(((matrix @ x) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x)
    torch.testing.assert_close(torch.cat([a.flatten() for a, _ in found]), first.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.cat([b.flatten() for _, b in found]), second, rtol=1e-9, atol=1e-9)
