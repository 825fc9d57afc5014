"""What a gradient means: losses of all ranks together, or one loss that all ranks know. With the numbers of cases N08 and N09."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import partkit as pk
from partkit.communicator import Communicator
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.functional.movements import random

F = pk.functional


def gradient_of(move: Callable[[Tensor, Communicator], Tensor], values: Callable[[int], Any], size: int = 2) -> list[Any]:
    """Each rank's gradient for ``loss = the sum of the result``, on every rank."""

    def run(comm: Communicator) -> Any:
        x = torch.tensor(values(comm.rank), dtype=torch.float64, requires_grad=True)
        move(x, comm).sum().backward()
        assert x.grad is not None
        return x.grad.tolist()

    with SimulatedWorld(size) as world:
        return list(world.run(run))


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (lambda x, comm: F.all_reduce(x, comm), 2.0),
        (lambda x, comm: F.all_reduce(x, comm, "mean"), 1.0),
        (lambda x, comm: F.reduce_from_group(x, comm), 1.0),
        (lambda x, comm: F.reduce_from_group(x, comm, "mean"), 0.5),
        (lambda x, comm: F.all_gather(x.reshape(1), comm), 2.0),
        (lambda x, comm: F.gather_from_group(x.reshape(1), comm), 1.0),
        (lambda x, comm: F.copy_to_group(x, comm), 2.0),
        (lambda x, comm: F.reduce(x, comm), 1.0),
        (lambda x, comm: F.reduce(x, comm, op="mean"), 0.5),
    ],
)
def test_case_N08_the_gradient_of_each_convention(move: Callable[[Tensor, Communicator], Tensor], expected: float) -> None:
    """x = 1 + rank, loss = y on both ranks. A mean's gradient is half of the sum's."""
    assert gradient_of(move, lambda rank: 1.0 + rank) == [expected, expected]


@pytest.mark.parametrize("op", ["sum", "mean"])
def test_case_N08_of_a_reduce_scatter(op: Any) -> None:
    """Each loss is one rank's piece, so each element counts once; a mean's half."""
    expected = [1.0, 1.0] if op == "sum" else [0.5, 0.5]
    assert gradient_of(lambda x, comm: F.reduce_scatter(x, comm, op), lambda rank: [1.0 + rank, 2.0]) == [expected, expected]


def test_case_N09_through_all_gather_the_gradient_of_a_sum_is_expanded() -> None:
    assert gradient_of(lambda x, comm: F.all_gather(x, comm), lambda rank: [1.0 + rank, 2.0]) == [[2.0, 2.0], [2.0, 2.0]]


def test_case_N09_through_reduce_scatter_of_an_all_gather() -> None:
    """Each rank gets twice its own piece back, from both; each element is in one loss, twice."""
    assert gradient_of(lambda x, comm: F.reduce_scatter(F.all_gather(x, comm), comm), lambda rank: [1.0 + rank, 2.0]) == [[2.0, 2.0], [2.0, 2.0]]


# -- layers made of movements ------------------------------------------------------------------------------------------------

TOKENS, WIDTH, HIDDEN = 7, 3, 5


def serial_layer() -> tuple[Tensor, ...]:
    """x, two weights of a layer x -> gelu(x A) B, and their gradients for the loss |y|^2."""
    leaves = [random(shape, seed).requires_grad_() for seed, shape in enumerate([(TOKENS, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH)])]
    x, a, b = leaves
    (torch.nn.functional.gelu(x @ a) @ b).pow(2).sum().backward()
    return tuple(leaf.grad for leaf in leaves if leaf.grad is not None)


def own_slices(comm: Communicator) -> tuple[Tensor, Tensor]:
    """This rank's columns of A and rows of B."""
    ours = pk.partition.block_range(HIDDEN, comm.size, comm.rank)
    a, b = random((WIDTH, HIDDEN), 1), random((HIDDEN, WIDTH), 2)
    return a[:, ours.start : ours.stop].clone().requires_grad_(), b[ours.start : ours.stop].clone().requires_grad_()


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_a_tensor_parallel_layer_has_the_gradients_of_the_serial_one(size: int) -> None:
    """Every rank has all tokens, and the loss is one: f and g."""

    def run(comm: Communicator) -> tuple[Tensor | None, ...]:
        x, (a, b) = random((TOKENS, WIDTH), 0).requires_grad_(), own_slices(comm)
        y = F.reduce_from_group(torch.nn.functional.gelu(F.copy_to_group(x, comm) @ a) @ b, comm)
        y.pow(2).sum().backward()
        return x.grad, a.grad, b.grad

    with SimulatedWorld(size) as world:
        x, a, b = zip(*world.run(run), strict=True)
    expected = serial_layer()
    for gradient in x:
        torch.testing.assert_close(gradient, expected[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.cat(a, dim=1), expected[1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.cat(b, dim=0), expected[2], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_sequence_parallel_layer_has_the_gradients_of_the_serial_one(size: int) -> None:
    """Every rank has some tokens and the loss of those; more ranks than tokens: some have none."""

    def run(comm: Communicator) -> tuple[Tensor | None, ...]:
        sizes = pk.partition.block_sizes(TOKENS, comm.size)
        x, (a, b) = torch.split(random((TOKENS, WIDTH), 0), sizes)[comm.rank].clone().requires_grad_(), own_slices(comm)
        y = F.reduce_scatter(torch.nn.functional.gelu(F.all_gather(x, comm, sizes=sizes) @ a) @ b, comm)
        y.pow(2).sum().backward()
        return x.grad, a.grad, b.grad

    with SimulatedWorld(size) as world:
        parts = [torch.cat(gradients, dim) for gradients, dim in zip(zip(*world.run(run), strict=True), (0, 1, 0), strict=True)]
    for found, expected in zip(parts, serial_layer(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.live
def test_case_N08_N09_on_live_ranks_and_what_backward_sends(world4: World) -> None:
    """Backward of an all-gather of n bytes in all: (p - 1) / p n from each rank, as forward."""

    def run(comm: Communicator) -> Any:
        x = torch.tensor([1.0 + comm.rank, 2.0], requires_grad=True)
        y = F.all_reduce(x, comm)
        with comm.span("forward"):
            z = F.all_gather(y, comm)
        with comm.span("backward"):
            z.sum().backward()
        return None if x.grad is None else x.grad.tolist()

    assert list(world4.run(run)) == [[16.0, 16.0]] * 4
    sent = dict.fromkeys(("forward/all_gather", "backward/backward of all_gather/reduce_scatter"), 0)
    for event in world4.trace.events:
        if event.kind == "send" and event.span in sent:
            sent[event.span] += event.nbytes
    assert set(sent.values()) == {4 * 3 * 2 * 4}
