"""The movements as a table: how to call each, what a rank puts in, and which tensors are replicated and count once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

import partkit as pk
from partkit.communicator import Communicator

F = pk.functional
Shape = tuple[int, ...]


class Problem(NamedTuple):
    """One call of a movement on all ranks of a group."""

    size: int
    shape: Shape
    """Of the whole tensor: what is cut, or is joined from pieces."""
    dim: int
    sizes: tuple[int, ...]
    """Each rank's extent along ``dim``."""
    root: int
    counts: tuple[tuple[int, ...], ...]
    """Of `all_to_all_v`: how much goes from each rank (row) to each (column)."""

    @property
    def pieces(self) -> list[Shape]:
        """Each rank's piece of the whole."""
        return [(*self.shape[: self.dim], size, *self.shape[self.dim + 1 :]) for size in self.sizes]

    def along(self, extents: Sequence[int]) -> list[Shape]:
        """The shape with other extents along ``dim``."""
        return [(*self.shape[: self.dim], extent, *self.shape[self.dim + 1 :]) for extent in extents]


class Case(NamedTuple):
    """A movement in a test."""

    call: Callable[[Tensor, Communicator, Problem], Tensor]
    puts_in: Callable[[Problem], list[Shape]]
    """Shape of each rank's ``x``."""
    replicated: str = ""
    """Which side is the same on all ranks and counts once: "x" or "y"."""


def wholes(problem: Problem) -> list[Shape]:
    return [problem.shape] * problem.size


def ring(x: Tensor, comm: Communicator, step: int = 1) -> Tensor:
    """Two rounds, so that messages of one pair follow each other."""
    for _ in range(2):
        x = F.sendrecv(x, comm, (comm.rank + step) % comm.size, (comm.rank - step) % comm.size)
    return x


def uneven_ring(x: Tensor, comm: Communicator, problem: Problem) -> Tensor:
    """Each rank gets the piece of the one before, whose size is another."""
    left = (comm.rank - 1) % comm.size
    return F.sendrecv(x, comm, (comm.rank + 1) % comm.size, left, torch.empty(problem.pieces[left], dtype=x.dtype))


def to_root(x: Tensor, comm: Communicator, problem: Problem) -> Tensor:
    """Everyone sends to the root; the root has the sum of messages times the rank of each. ``x`` serves as buffer, see `recv`."""
    if comm.rank != problem.root:
        return F.send(x, comm, problem.root, tag="up")
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    return sum((rank * F.recv(x, comm, rank, tag="up") for rank in others), start=0 * x)


MOVEMENTS: dict[str, Case] = {
    "all_reduce": Case(lambda x, comm, p: F.all_reduce(x, comm), wholes),
    "all_reduce of a mean": Case(lambda x, comm, p: F.all_reduce(x, comm, "mean"), wholes),
    "all_gather": Case(lambda x, comm, p: F.all_gather(x, comm, p.dim, p.sizes), lambda p: p.pieces),
    "all_gather, asking": Case(lambda x, comm, p: F.all_gather(x, comm, p.dim, "ask"), lambda p: p.pieces),
    "all_gather of equal pieces": Case(lambda x, comm, p: F.all_gather(x, comm, p.dim), wholes),
    "reduce_scatter": Case(lambda x, comm, p: F.reduce_scatter(x, comm, dim=p.dim), wholes),
    "reduce_scatter of a mean, by sizes": Case(lambda x, comm, p: F.reduce_scatter(x, comm, "mean", p.dim, p.sizes), wholes),
    "all_to_all": Case(lambda x, comm, p: F.all_to_all(x, comm, p.dim), wholes),
    "all_to_all_v": Case(
        lambda x, comm, p: F.all_to_all_v(x, comm, p.counts[comm.rank], [row[comm.rank] for row in p.counts], p.dim),
        lambda p: p.along([sum(row) for row in p.counts]),
    ),
    "all_to_all_v, asking": Case(lambda x, comm, p: F.all_to_all_v(x, comm, p.counts[comm.rank], dim=p.dim), lambda p: p.along([sum(row) for row in p.counts])),
    "broadcast": Case(lambda x, comm, p: F.broadcast(x, comm, p.root), wholes),
    "reduce": Case(lambda x, comm, p: F.reduce(x, comm, p.root), wholes),
    "reduce of a mean": Case(lambda x, comm, p: F.reduce(x, comm, p.root, "mean"), wholes),
    "scatter": Case(lambda x, comm, p: F.scatter(x, comm, p.root, p.dim), wholes),
    "scatter by sizes": Case(lambda x, comm, p: F.scatter(x, comm, p.root, p.dim, p.sizes), wholes),
    "gather": Case(lambda x, comm, p: F.gather(x, comm, p.root, p.dim, p.sizes), lambda p: p.pieces),
    "gather, asking": Case(lambda x, comm, p: F.gather(x, comm, p.root, p.dim, "ask"), lambda p: p.pieces),
    "gather of equal pieces": Case(lambda x, comm, p: F.gather(x, comm, p.root, p.dim), wholes),
    "send and recv": Case(to_root, wholes),
    "sendrecv": Case(lambda x, comm, p: ring(x, comm), wholes),
    "sendrecv of unequal pieces": Case(uneven_ring, lambda p: p.pieces),
    "copy_to_group": Case(lambda x, comm, p: F.copy_to_group(x, comm), wholes, replicated="x"),
    "reduce_from_group": Case(lambda x, comm, p: F.reduce_from_group(x, comm), wholes, replicated="y"),
    "reduce_from_group of a mean": Case(lambda x, comm, p: F.reduce_from_group(x, comm, "mean"), wholes, replicated="y"),
    "scatter_to_group": Case(lambda x, comm, p: F.scatter_to_group(x, comm, p.dim), wholes, replicated="x"),
    "scatter_to_group by sizes": Case(lambda x, comm, p: F.scatter_to_group(x, comm, p.dim, p.sizes), wholes, replicated="x"),
    "gather_from_group": Case(lambda x, comm, p: F.gather_from_group(x, comm, p.dim, p.sizes), lambda p: p.pieces, replicated="y"),
    "gather_from_group of equal pieces": Case(lambda x, comm, p: F.gather_from_group(x, comm, p.dim), wholes, replicated="y"),
}


def example(size: int) -> Problem:
    """Uneven, with an empty piece from three ranks on."""
    sizes = tuple((3 * rank + 2) % 4 if rank else 1 for rank in range(size))
    counts = tuple(tuple((src + 2 * dst) % 3 for dst in range(size)) for src in range(size))
    return Problem(size, (2, sum(sizes), 3), 1, sizes, root=size - 1, counts=counts)


def random(shape: Shape, seed: int, **kwargs: Any) -> Tensor:
    """The same on every rank that asks with the same seed. float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=kwargs.pop("dtype", torch.float64), **kwargs)
