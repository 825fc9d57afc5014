"""Megatron's f and g, and the same for slices: movements into and out of a tensor that all ranks have, and that counts once.

    replicated x               on each rank          replicated y
       |                                                ^
    copy_to_group    f ------> layer's share ------> g  reduce_from_group      forward: nothing        all_reduce
                     <------                 <------                           backward: all_reduce    nothing

    scatter_to_group   ------> a slice       ------>    gather_from_group      forward: own slice      all_gather
                       <------               <------                           backward: all_gather    own slice

Between f and g each rank computes its share of the layer. Its gradient for ``x`` is a share, too, so f adds them up; the gradient of
``y`` is the same on all ranks, and each rank's share of the sum gets all of it. ``x`` must really be the same on all ranks, and all
must go on from ``y`` in the same way: nobody checks that.

Reference: Shoeybi et al. 2019, "Megatron-LM: training multi-billion parameter language models using model parallelism", figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from partkit.collectives import all_gather as gathering
from partkit.collectives import all_reduce as reducing
from partkit.collectives.calling import check_dim, check_tensor
from partkit.collectives.pieces import Sizes, check_cut
from partkit.collectives.reducing import Op
from partkit.communicator import Communicator
from partkit.functional.collectives import known_sizes
from partkit.functional.movement import Movement, check_linear, shared


def copy_to_group(x: Tensor, comm: Communicator) -> Tensor:
    """Megatron's f: ``x`` itself; in backward the ranks' gradients are added up. Adjoint of `reduce_from_group`.

    Args:
        x: the same on each rank of ``comm``.
        comm: the ranks that take part.

    Returns:
        A view of ``x``; autograd refuses to change it in place (``relu_``): clone it first.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.ones(1, requires_grad=True)
        ...     y = pk.functional.copy_to_group(x, comm) * (1 + comm.rank)
        ...     pk.functional.reduce_from_group(y, comm).backward()
        ...     return x.grad.item()
        >>> with pk.World(3) as world:
        ...     world.run(gradient)
        [6.0, 6.0, 6.0]
    """
    move = Movement(
        "copy_to_group",
        comm,
        forward=lambda x: x.view_as(x),
        adjoint=lambda y: reduce_from_group(y, comm),
    )
    return move(x)


def reduce_from_group(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Megatron's g: the sum or mean of the ranks' tensors; in backward nothing moves. Adjoint of `copy_to_group`.

    Args:
        x: any shape, the same on each rank.
        comm: the ranks that take part.
        op: "sum" or "mean".

    Returns:
        A new tensor, the same on every rank. Each ``x`` gets its gradient (divided by the number of ranks for "mean").

    Raises:
        ValueError: ``op`` is another one.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.tensor(1.0 + comm.rank, requires_grad=True)
        ...     pk.functional.reduce_from_group(x, comm).backward()
        ...     return x.grad.item()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [1.0, 1.0]
    """
    check_linear("reduce_from_group", op)
    move = Movement(
        "reduce_from_group",
        comm,
        forward=lambda x: reducing.all_reduce(x, comm, op),
        adjoint=lambda y: shared(copy_to_group(y, comm), comm, op),
    )
    return move(x)


def scatter_to_group(x: Tensor, comm: Communicator, dim: int = 0, sizes: Sequence[int] | None = None) -> Tensor:
    """This rank's slice of ``x``; in backward the slices' gradients are joined. Adjoint of `gather_from_group`.

    Args:
        x: the same on each rank of ``comm``.
        comm: the ranks that take part.
        dim: where it is cut.
        sizes: each rank's extent along ``dim``; ``pk.partition.block_sizes`` by default.

    Returns:
        A view of ``x``; autograd refuses to change it in place (``relu_``): clone it first.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.ones(3, requires_grad=True)
        ...     (pk.functional.scatter_to_group(x, comm) * (1 + comm.rank)).sum().backward()
        ...     return x.grad.tolist()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]
    """
    check_tensor("scatter_to_group", x)
    dim = check_dim("scatter_to_group", x, dim)
    extents, _ = check_cut("scatter_to_group", x, dim, sizes, comm)
    move = Movement(
        "scatter_to_group",
        comm,
        forward=lambda x: x.narrow(dim, sum(extents[: comm.rank]), extents[comm.rank]),
        adjoint=lambda y: gather_from_group(y, comm, dim, extents),
    )
    return move(x)


def gather_from_group(x: Tensor, comm: Communicator, dim: int = 0, sizes: Sizes = None) -> Tensor:
    """All ranks' tensors, joined; in backward each takes its slice and nothing moves. Adjoint of `scatter_to_group`.

    Args:
        x: this rank's slice, of the same shape but for ``dim`` on each rank.
        comm: the ranks that take part.
        dim: where slices are joined.
        sizes: each rank's extent along ``dim`` if they differ; "ask" lets the ranks tell each other first, in an all-gather of one
            int64; None: all are equal.

    Returns:
        A new tensor, the same on every rank. Each ``x`` gets the slice of its gradient.

    Example:
        >>> import partkit as pk, torch
        >>> def gradient(comm):
        ...     x = torch.ones(1, requires_grad=True)
        ...     y = pk.functional.gather_from_group(x, comm)
        ...     (y * torch.tensor([1.0, 2.0])).sum().backward()
        ...     return x.grad.item()
        >>> with pk.World(2) as world:
        ...     world.run(gradient)
        [1.0, 2.0]
    """
    dim, sizes = known_sizes("gather_from_group", x, comm, dim, sizes)
    move = Movement(
        "gather_from_group",
        comm,
        forward=lambda x: gathering.all_gather(x, comm, dim, sizes),
        adjoint=lambda y: scatter_to_group(y, comm, dim, sizes),
    )
    return move(x)
