"""all_reduce, all_gather and reduce_scatter, all_to_all: every rank has a tensor of its own and a loss of its own.

    forward                                     adjoint
    all_reduce       y_r = sum of all x_s       all_reduce       x_r' = sum of all y_s'
    all_gather       y_r = x_0 x_1 x_2 ...      reduce_scatter   x_r' = sum of the r-th pieces of all y_s'
    reduce_scatter   y_r = r-th piece of sum    all_gather       x_r' = y_0' y_1' y_2' ...
    all_to_all       y_r = r-th piece of each   all_to_all       the pieces go back

A prime stands for the gradient. Costs are those of `partkit.collectives`, in backward those of the adjoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from partkit.collectives import all_gather as gathering
from partkit.collectives import all_reduce as reducing
from partkit.collectives import all_to_all as exchanging
from partkit.collectives import reduce_scatter as scattering
from partkit.collectives.calling import check_dim, check_tensor
from partkit.collectives.pieces import Sizes, check_counts, check_cut, check_sizes
from partkit.collectives.reducing import Op
from partkit.communicator import Communicator
from partkit.functional.movement import Movement, check_linear, shared
from partkit.partition import block_sizes


def all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """The sum or mean of the ranks' tensors on every rank. Its own adjoint.

    Args:
        x: any shape, the same on each rank of ``comm``.
        comm: the ranks that take part.
        op: "sum" or "mean".

    Returns:
        A new tensor of the shape of ``x``. ``x`` gets the sum (mean) of the gradients of all ranks' results.

    Raises:
        ValueError: ``op`` is another one.

    Example:
        >>> import partkit as pk
        >>> def gradient(comm, op):
        ...     x = torch.tensor(1.0 + comm.rank, requires_grad=True)
        ...     pk.functional.all_reduce(x, comm, op).backward()
        ...     return x.grad.item()
        >>> with pk.World(2) as world:
        ...     list(world.run(gradient, "sum")), list(world.run(gradient, "mean"))
        ([2.0, 2.0], [1.0, 1.0])
    """
    check_linear("all_reduce", op)
    move = Movement(
        "all_reduce",
        comm,
        forward=lambda x: reducing.all_reduce(x, comm, op),
        adjoint=lambda y: all_reduce(y, comm, op),
    )
    return move(x)


def all_gather(x: Tensor, comm: Communicator, dim: int = 0, sizes: Sizes = None) -> Tensor:
    """All ranks' tensors, joined along ``dim``, on every rank. Adjoint of `reduce_scatter`.

    Args:
        x: this rank's piece, of the same shape but for ``dim`` on each rank.
        comm: the ranks that take part.
        dim: where pieces are joined.
        sizes: each rank's extent along ``dim`` if they differ; "ask" lets the ranks tell each other first, in an all-gather of one
            int64; None: all are equal.

    Returns:
        A new tensor. ``x`` gets the sum over all ranks of the gradients of its piece.

    Example:
        >>> import partkit as pk
        >>> def gradient(comm):
        ...     x = torch.tensor([1.0 + comm.rank, 2.0], requires_grad=True)
        ...     pk.functional.all_gather(x, comm).sum().backward()
        ...     return x.grad.tolist()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [[2.0, 2.0], [2.0, 2.0]]
    """
    dim, sizes = known_sizes("all_gather", x, comm, dim, sizes)
    move = Movement(
        "all_gather",
        comm,
        forward=lambda x: gathering.all_gather(x, comm, dim, sizes),
        adjoint=lambda y: reduce_scatter(y, comm, dim=dim, sizes=sizes),
    )
    return move(x)


def reduce_scatter(x: Tensor, comm: Communicator, op: Op = "sum", dim: int = 0, sizes: Sequence[int] | None = None) -> Tensor:
    """This rank's piece of the sum or mean of the ranks' tensors. Adjoint of `all_gather`.

    Args:
        x: any shape, the same on each rank.
        comm: the ranks that take part.
        op: "sum" or "mean".
        dim: where the sum is cut.
        sizes: each rank's extent along ``dim``; ``pk.partition.block_sizes`` by default.

    Returns:
        A new tensor. ``x`` gets the gradients of all ranks' pieces, joined (divided by the number of ranks for "mean").

    Raises:
        ValueError: ``op`` is another one; or ``sizes`` do not fit ``x``.

    Example:
        >>> import partkit as pk
        >>> def gradient(comm):
        ...     x = torch.ones(3, requires_grad=True)
        ...     y = pk.functional.reduce_scatter(x, comm)
        ...     (y * (1 + comm.rank)).sum().backward()
        ...     return x.grad.tolist()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]
    """
    check_linear("reduce_scatter", op)
    check_tensor("reduce_scatter", x)
    dim = check_dim("reduce_scatter", x, dim)
    extents, _ = check_cut("reduce_scatter", x, dim, sizes, comm)
    move = Movement(
        "reduce_scatter",
        comm,
        forward=lambda x: scattering.reduce_scatter(x, comm, op, dim, sizes),
        adjoint=lambda y: shared(all_gather(y, comm, dim, extents), comm, op),
    )
    return move(x)


def all_to_all(x: Tensor, comm: Communicator, dim: int = 0) -> Tensor:
    """Piece j of ``x`` goes to rank j; what came is joined. Its own adjoint: every piece goes back.

    Args:
        x: any shape, the same on each rank.
        comm: the ranks that take part.
        dim: where ``x`` is cut, by ``pk.partition.block_sizes``, and the result joined.

    Returns:
        A new tensor with p times this rank's share along ``dim``.

    Example:
        >>> import partkit as pk
        >>> def gradient(comm):
        ...     x = torch.zeros(2, requires_grad=True)
        ...     y = pk.functional.all_to_all(x, comm)
        ...     (y * torch.tensor([1.0, 2.0]) * 10**comm.rank).sum().backward()
        ...     return x.grad.tolist()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [[1.0, 10.0], [2.0, 20.0]]
    """
    check_tensor("all_to_all", x)
    dim = check_dim("all_to_all", x, dim)
    sends = block_sizes(x.shape[dim], comm.size)
    came = (sends[comm.rank],) * comm.size
    move = Movement(
        "all_to_all",
        comm,
        forward=lambda x: exchanging.all_to_all(x, comm, dim),
        adjoint=lambda y: all_to_all(y, comm, dim) if len(set(sends)) == 1 else all_to_all_v(y, comm, came, sends, dim),
    )
    return move(x)


def all_to_all_v(x: Tensor, comm: Communicator, send_sizes: Sequence[int], recv_sizes: Sequence[int] | None = None, dim: int = 0) -> Tensor:
    """So much of ``x`` goes to each rank; what came is joined. Its adjoint is the same with the two sizes exchanged.

    Args:
        x: of the same shape but for ``dim`` on each rank.
        comm: the ranks that take part.
        send_sizes: how much along ``dim`` goes to each rank.
        recv_sizes: how much comes from each; with None the ranks tell each other first, in an all-to-all of int64.
        dim: where ``x`` is cut and the result joined.

    Returns:
        A new tensor with the sum of what came along ``dim``.

    Example:
        >>> import partkit as pk
        >>> def gradient(comm):
        ...     x = torch.zeros(3, requires_grad=True)
        ...     y = pk.functional.all_to_all_v(x, comm, send_sizes=[[0, 3], [2, 1]][comm.rank])
        ...     (y * 10**comm.rank).sum().backward()
        ...     return x.grad.tolist()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [[10.0, 10.0, 10.0], [1.0, 1.0, 10.0]]
    """
    sends = check_counts("all_to_all_v", "send_sizes", send_sizes, comm)
    recvs = exchanging.all_to_all(torch.tensor(sends), comm).tolist() if recv_sizes is None else recv_sizes
    move = Movement(
        "all_to_all_v",
        comm,
        forward=lambda x: exchanging.all_to_all_v(x, comm, sends, recvs, dim),
        adjoint=lambda y: all_to_all_v(y, comm, recvs, sends, dim),
    )
    return move(x)


def known_sizes(operation: str, x: Tensor, comm: Communicator, dim: int, sizes: Sizes) -> tuple[int, Sequence[int] | None]:
    """The dim counted from the front; and the ranks' extents, asked for if need be, since backward needs them too."""
    check_tensor(operation, x)
    dim = check_dim(operation, x, dim)
    if check_sizes(operation, x, dim, sizes, comm) is None:
        return dim, tuple(gathering.all_gather(torch.tensor([x.shape[dim]]), comm).tolist())
    return dim, None if sizes is None or isinstance(sizes, str) else tuple(sizes)
