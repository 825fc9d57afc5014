"""broadcast and reduce, scatter and gather: one rank has what all get, or gets what all have.

    forward                                          adjoint
    broadcast   y_r = x_root on every rank           reduce      x_root' = sum of all y_s'
    reduce      y_root = sum of all x_s              broadcast   x_r' = y_root' on every rank
    scatter     y_r = r-th piece of x_root           gather      x_root' = y_0' y_1' y_2' ...
    gather      y_root = x_0 x_1 x_2 ...             scatter     x_r' = r-th piece of y_root'

What does not count in forward gets a gradient of zeros: ``x`` off the root of a broadcast or scatter. What is not there is an empty
tensor of shape (0,): the result off the root of a reduce or gather. It requires grad like any other, and has to be part of its rank's loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from partkit.collectives import broadcast as broadcasting
from partkit.collectives import gather as gathering
from partkit.collectives import reduce as reducing
from partkit.collectives import scatter as scattering
from partkit.collectives.calling import check_dim, check_root, check_template
from partkit.collectives.pieces import Sizes, check_cut, with_extent
from partkit.collectives.reducing import Op
from partkit.communicator import Communicator
from partkit.functional.collectives import known_sizes
from partkit.functional.movement import Movement, check_linear, shared, stand_in


def broadcast(x: Tensor, comm: Communicator, root: int = 0) -> Tensor:
    """The root's tensor on every rank. Adjoint of `reduce`.

    Args:
        x: on the root the tensor; elsewhere any of the same shape and dtype.
        comm: the ranks that take part.
        root: whose tensor; a rank of ``comm``.

    Returns:
        A new tensor. The root's ``x`` gets the sum of the gradients of all ranks' results.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.tensor([1.0 + comm.rank], requires_grad=True)
        ...     (pk.functional.broadcast(x, comm) * 10**comm.rank).sum().backward()
        ...     return x.grad.item()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [11.0, 0.0]
    """
    move = Movement(
        "broadcast",
        comm,
        forward=lambda x: broadcasting.broadcast(x, comm, root),
        adjoint=lambda y: reduce(y, comm, root),
    )
    return move(x)


def reduce(x: Tensor, comm: Communicator, root: int = 0, op: Op = "sum") -> Tensor:
    """The sum or mean of the ranks' tensors on the root. Adjoint of `broadcast`.

    Args:
        x: any shape, the same on each rank.
        comm: the ranks that take part.
        root: who gets it; a rank of ``comm``.
        op: "sum" or "mean".

    Returns:
        On the root a new tensor of the shape of ``x``; elsewhere an empty one of shape (0,), which must be part of that rank's
        loss. Each ``x`` gets the gradient of the root's result (divided by the number of ranks for "mean").

    Raises:
        ValueError: ``op`` is another one.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.tensor([1.0 + comm.rank], requires_grad=True)
        ...     pk.functional.reduce(x, comm, op="mean").sum().backward()
        ...     return x.grad.item()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [0.5, 0.5]
    """
    check_linear("reduce", op)
    shape = x.shape
    move = Movement(
        "reduce",
        comm,
        forward=lambda x: _or_empty(reducing.reduce(x, comm, root, op), x),
        adjoint=lambda y: shared(broadcast(y if comm.rank == root else stand_in(shape, y), comm, root), comm, op),
    )
    return move(x)


def scatter(x: Tensor, comm: Communicator, root: int = 0, dim: int = 0, sizes: Sequence[int] | None = None) -> Tensor:
    """This rank's piece of the root's tensor. Adjoint of `gather`.

    Args:
        x: on the root the tensor; elsewhere any of the same shape and dtype.
        comm: the ranks that take part.
        root: whose tensor; a rank of ``comm``.
        dim: where it is cut.
        sizes: each rank's extent along ``dim``; ``pk.partition.block_sizes`` by default.

    Returns:
        A new tensor. The root's ``x`` gets the gradients of all pieces, joined.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.ones(3, requires_grad=True)
        ...     (pk.functional.scatter(x, comm) * (1 + comm.rank)).sum().backward()
        ...     return x.grad.tolist()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [[1.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    """
    check_template("scatter", x)
    dim = check_dim("scatter", x, dim)
    extents, _ = check_cut("scatter", x, dim, sizes, comm)
    move = Movement(
        "scatter",
        comm,
        forward=lambda x: scattering.scatter(x, comm, root, dim, sizes),
        adjoint=lambda y: gather(y, comm, root, dim, extents),
    )
    return move(x)


def gather(x: Tensor, comm: Communicator, root: int = 0, dim: int = 0, sizes: Sizes = None) -> Tensor:
    """All ranks' tensors, joined along ``dim``, on the root. Adjoint of `scatter`.

    Args:
        x: this rank's piece, of the same shape but for ``dim`` on each rank.
        comm: the ranks that take part.
        root: who gets them; a rank of ``comm``.
        dim: where pieces are joined.
        sizes: each rank's extent along ``dim`` if they differ; "ask" lets the ranks tell each other first, in an all-gather of one
            int64; None: all are equal.

    Returns:
        On the root a new tensor; elsewhere an empty one of shape (0,), which must be part of that rank's loss. Each ``x`` gets the
        gradient of its piece.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.ones(1, requires_grad=True)
        ...     y = pk.functional.gather(x, comm)
        ...     (y * torch.tensor([1.0, 2.0])[: len(y)]).sum().backward()
        ...     return x.grad.item()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [1.0, 2.0]
    """
    check_root("gather", root, comm)
    dim, sizes = known_sizes("gather", x, comm, dim, sizes)
    joined = with_extent(x.shape, dim, x.shape[dim] * comm.size if sizes is None else sum(sizes))
    move = Movement(
        "gather",
        comm,
        forward=lambda x: _or_empty(gathering.gather(x, comm, root, dim, sizes), x),
        adjoint=lambda y: scatter(y if comm.rank == root else stand_in(joined, y), comm, root, dim, sizes),
    )
    return move(x)


def _or_empty(result: Tensor | None, x: Tensor) -> Tensor:
    """What a rank gets that gets nothing."""
    return x.new_empty(0) if result is None else result
