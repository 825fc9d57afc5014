"""Reduce: the ranks' tensors are combined, and the root gets the result.

Two ways. p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm    messages of another rank    bytes of another rank    time
    flat         1                           n                        (p - 1) (alpha + n / beta)
    tree         1                           n                        ceil(log2(p)) (alpha + n / beta)
    native       as torch.distributed does it: gloo, or NCCL on GPUs

Every rank but the root sends once; in the tree half of the ranks that are left receive at the same time, where in the flat way
all wait for the root. The rows with a formula are `partkit.cluster.COSTS["reduce"]`, to the byte.

The tree, for p = 6 (`partkit.trees`): the tree of a broadcast, run backwards.

    round    1 -> 0    3 -> 2    5 -> 4         2 ----------> 0         4 ---------------------> 0
             0 has 01  2 has 23  4 has 45       0 has 0123              0 has 012345

Which dtypes can be combined how: `partkit.collectives.reducing`.

Reference: Chan, Heimlich, Purkayastha and van de Geijn 2007, "Collective communication: theory, practice, and experience",
section 4.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from partkit.collectives.calling import check_root, check_tensor, counted_from, own_copy, pick
from partkit.collectives.native import native_reduce
from partkit.collectives.reducing import COMBINE, Op, check_op
from partkit.communicator import Communicator
from partkit.trees import binomial_children, binomial_parent


def reduce(x: Tensor, comm: Communicator, root: int = 0, op: Op = "sum", algorithm: str = "auto") -> Tensor | None:
    """Combine the ranks' tensors; the root gets the result.

    Args:
        x: any shape, dtype and layout, the same shape and dtype on each rank of ``comm``. Not modified.
        comm: the ranks that take part.
        root: who gets the result; a rank of ``comm``.
        op: "sum", "mean" (the sum divided by the number of ranks), "product", "min" or "max".
        algorithm: "flat", "tree", "native" (torch.distributed's own), or "auto".

    Returns:
        On the root a new, contiguous tensor of the shape of ``x``; None elsewhere.

    Raises:
        TypeError: ``x`` is no tensor.
        ValueError: there is no such rank, ``op`` or algorithm, or the dtype cannot be combined that way.

    Example:
        >>> import partkit as pk, torch
        >>> with pk.World(3) as world:
        ...     list(world.run(lambda comm: pk.reduce(torch.arange(2.0) + comm.rank, comm, root=1)))
        [None, tensor([3., 6.]), None]
    """
    check_tensor("reduce", x)
    check_root("reduce", root, comm)
    algorithm = pick("reduce", algorithm, ALGORITHMS, comm, x.nbytes)
    check_op("reduce", x, op, algorithm)
    with comm.collective("reduce", x, f"{op}, to rank {root}, {algorithm}"):
        result = own_copy(x)
        ALGORITHMS[algorithm](result.view(-1), counted_from(root, comm), op)
        if comm.rank != root:
            return None
        return result.div_(comm.size) if op == "mean" else result


def flat_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> None:
    """Rank 0 receives from each of the others, in the order of ranks, and adds. In place, the result on rank 0."""
    if comm.rank > 0:
        comm.send(x, 0, tag="flat")
        return
    for src in range(1, comm.size):
        comm.recv(x, src, tag="flat", combine=COMBINE[op])


def tree_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> None:
    """Add what the children have, the nearest first; hand the sum to the parent. In place, the result on rank 0."""
    for child in binomial_children(comm.rank, comm.size):
        comm.recv(x, child, tag=f"tree {child - comm.rank}", combine=COMBINE[op])
    if comm.rank > 0:
        parent = binomial_parent(comm.rank)
        comm.send(x, parent, tag=f"tree {comm.rank - parent}")


ALGORITHMS: dict[str, Callable[[Tensor, Communicator, Op], None]] = {"flat": flat_reduce, "tree": tree_reduce, "native": native_reduce}
"""The algorithms by name: ``x`` is flat, one block of memory, which partial results replace."""
