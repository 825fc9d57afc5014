"""Broadcast: every rank ends with the root's tensor.

Four ways. p ranks, n bytes; a message of k bytes takes alpha + k / beta; s segments (`partkit.cluster.segments`):

    algorithm             messages of the root    bytes of the root    time
    flat                  p - 1                   (p - 1) n            (p - 1) (alpha + n / beta)
    tree                  ceil(log2(p))           ceil(log2(p)) n      ceil(log2(p)) (alpha + n / beta)
    chain                 s                       n                    (p - 2 + s) (alpha + n / (s beta))
    scatter_all_gather    log2(p) + p - 1         2 (p - 1) / p n      (log2(p) + p - 1) alpha + 2 (p - 1) / p n / beta
    native                as torch.distributed does it: gloo, or NCCL on GPUs

The tree has the fewest latencies: no way can reach more ranks in a round than there are ranks that have the tensor. The chain
moves long tensors in hardly more than n / beta, the time to receive them once. The rows with a formula are
`partkit.cluster.COSTS["broadcast"]`, to the byte (the last of them for powers of two that divide n, the code for all).

The tree, for p = 8, and the chain, for p = 4 and s = 3:

    round    the tree                                         step    the chain
     1       0 -> 4                                            1      0 -s0-> 1
     2       0 -> 2    4 -> 6                                  2      0 -s1-> 1   1 -s0-> 2
     3       0 -> 1    2 -> 3    4 -> 5    6 -> 7              3      0 -s2-> 1   1 -s1-> 2   2 -s0-> 3
                                                               4                  1 -s2-> 2   2 -s1-> 3
                                                               5                              2 -s2-> 3

Scatter and all-gather (van de Geijn): the tensor is cut in p chunks, which go down the same tree, one to each rank
(`partkit.collectives.scatter`); then they go round a ring until everyone has all (`partkit.collectives.all_gather`).

References: Chan, Heimlich, Purkayastha and van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 4 and 6; Watts and van de Geijn 1995, "A pipelined broadcast for multidimensional meshes".
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from partkit.cluster.segments import num_segments
from partkit.collectives.all_gather import ring_all_gather
from partkit.collectives.blocks import Blocks
from partkit.collectives.calling import check_root, check_template, counted_from, own_copy, pick
from partkit.collectives.native import native_broadcast
from partkit.collectives.scatter import hand_out
from partkit.communicator import Communicator
from partkit.partition import block_sizes
from partkit.trees import binomial_children, binomial_parent, binomial_span


def broadcast(x: Tensor, comm: Communicator, root: int = 0, algorithm: str = "auto") -> Tensor:
    """Give every rank the root's tensor.

    Args:
        x: on the root the tensor, of any shape, dtype and layout; elsewhere any tensor of the same shape and dtype, whose
            values don't count: ``torch.empty(...)`` will do. Not modified.
        comm: the ranks that take part.
        root: whose tensor; a rank of ``comm``.
        algorithm: "flat", "tree", "chain", "scatter_all_gather", "native" (torch.distributed's own), or "auto".

    Returns:
        A new, contiguous tensor of the shape of ``x``, on the root too.

    Raises:
        TypeError: ``x`` is no tensor.
        ValueError: there is no such rank or algorithm.

    Example:
        >>> import partkit as pk, torch
        >>> with pk.World(3) as world:
        ...     world.run(lambda comm: pk.broadcast(torch.full((2,), comm.rank), comm, root=1))[2]
        tensor([1, 1])
    """
    check_template("broadcast", x)
    check_root("broadcast", root, comm)
    algorithm = pick("broadcast", algorithm, ALGORITHMS, comm, x.nbytes)
    with comm.collective("broadcast", x, f"from rank {root}, {algorithm}"):
        result = own_copy(x) if comm.rank == root else torch.empty(x.shape, dtype=x.dtype, device=x.device)
        ALGORITHMS[algorithm](result.view(-1), counted_from(root, comm))
        return result


def flat_broadcast(x: Tensor, comm: Communicator) -> None:
    """Rank 0 sends all of ``x`` to each of the others. In place."""
    if comm.rank > 0:
        comm.recv(x, 0, tag="flat")
        return
    for message in [comm.isend(x, dst, tag="flat") for dst in range(1, comm.size)]:
        message.wait()


def tree_broadcast(x: Tensor, comm: Communicator) -> None:
    """Receive from the parent, hand on to the children, the farthest first: it has most ranks below it. In place."""
    if comm.rank > 0:
        parent = binomial_parent(comm.rank)
        comm.recv(x, parent, tag=f"tree {comm.rank - parent}")
    children = reversed(binomial_children(comm.rank, comm.size))
    for message in [comm.isend(x, child, tag=f"tree {child - comm.rank}") for child in children]:
        message.wait()


def chain_broadcast(x: Tensor, comm: Communicator) -> None:
    """Receive segment by segment from the rank before; hand on each while the next one comes in. In place."""
    num = num_segments(x.numel(), x.element_size(), comm.size - 2, comm.cluster.link)
    handed_on = []
    for number, segment in enumerate(Blocks(x, block_sizes(x.numel(), num))):
        if comm.rank > 0:
            comm.recv(segment, comm.rank - 1, tag=f"segment {number}")
        if comm.rank < comm.size - 1:
            handed_on.append(comm.isend(segment, comm.rank + 1, tag=f"segment {number}"))
    for message in handed_on:
        message.wait()


def scatter_all_gather_broadcast(x: Tensor, comm: Communicator) -> None:
    """Every rank gets a chunk of ``x`` down the tree; then all chunks go round the ring. In place."""
    chunks = Blocks(x, block_sizes(x.numel(), comm.size))
    below = range(comm.rank, comm.rank + binomial_span(comm.rank, comm.size))
    hand_out(Blocks(chunks.over(below), [chunks[rank].numel() for rank in below]), comm)
    ring_all_gather(chunks, comm)


ALGORITHMS: dict[str, Callable[[Tensor, Communicator], None]] = {
    "flat": flat_broadcast,
    "tree": tree_broadcast,
    "chain": chain_broadcast,
    "scatter_all_gather": scatter_all_gather_broadcast,
    "native": native_broadcast,
}
"""The algorithms by name: ``x`` is flat, one block of memory, rank 0's to begin with and everyone's in the end."""
