"""Scatter: the root's tensor is cut in blocks along one dim, and each rank gets one.

Two ways. p ranks, n bytes on the root; a message of k bytes takes alpha + k / beta:

    algorithm    messages of the root    bytes of the root    time
    flat         p - 1                   (p - 1) / p n        (p - 1) alpha + (p - 1) / p n / beta
    tree         ceil(log2(p))           (p - 1) / p n        ceil(log2(p)) alpha + (p - 1) / p n / beta
    native       as torch.distributed does it: gloo, or NCCL on GPUs

The root sends the same bytes either way; the tree saves it latencies, for which the ranks in between pass blocks on. The rows
with a formula are `partkit.cluster.COSTS["scatter"]`, to the byte; (p - 1) / p n stands for all blocks but the root's own.

Blocks are those of `partkit.partition.block_sizes`: they differ by at most one along the dim, and with more ranks than there is
to cut, the last ones are empty. Empty blocks are sent too: each rank gets its message.

The tree, for p = 6 (`partkit.trees`). A rank first gets the blocks of all ranks below it:

    round    0 -------------------> 4         0 -------------------> 2         0 --> 1    2 --> 3    4 --> 5
             blocks 4 5                       blocks 2 3                       block 1    block 3    block 5

Reference: Chan, Heimlich, Purkayastha and van de Geijn 2007, "Collective communication: theory, practice, and experience",
section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from partkit.collectives.calling import check_dim, check_root, check_template, counted_from, pick
from partkit.collectives.native import native_scatter
from partkit.collectives.pieces import cut, numels, with_extent
from partkit.communicator import Communicator
from partkit.partition import block_sizes
from partkit.trees import binomial_children, binomial_parent, binomial_span


def scatter(x: Tensor, comm: Communicator, root: int = 0, dim: int = 0, algorithm: str = "auto") -> Tensor:
    """Give each rank its block of the root's tensor.

    Args:
        x: on the root the whole tensor, of any dtype and layout; elsewhere any tensor of the same shape and dtype, whose
            values don't count: ``torch.empty(...)`` will do. Not modified.
        comm: the ranks that take part.
        root: whose tensor; a rank of ``comm``.
        dim: where it is cut, in blocks of ``partkit.partition.block_sizes(x.shape[dim], comm.size)``.
        algorithm: "flat", "tree", "native" (torch.distributed's own), or "auto".

    Returns:
        Block ``comm.rank``: a new, contiguous tensor of the shape of ``x`` but for ``dim``.

    Raises:
        TypeError: ``x`` is no tensor.
        ValueError: there is no such rank, dim or algorithm.

    Example:
        >>> import partkit as pk
        >>> with pk.World(3) as world:
        ...     list(world.run(lambda comm: pk.scatter(torch.arange(5), comm).tolist()))
        [[0, 1], [2, 3], [4]]
    """
    check_template("scatter", x)
    check_root("scatter", root, comm)
    dim = check_dim("scatter", x, dim)
    algorithm = pick("scatter", algorithm, ALGORITHMS, comm, x)
    extents = block_sizes(x.shape[dim], comm.size)
    with comm.collective("scatter", x, f"from rank {root}, dim {dim}, {algorithm}"):
        blocks = cut(x, dim, extents) if comm.rank == root else []
        sizes, mine = numels(x.shape, dim, extents), torch.empty(with_extent(x.shape, dim, extents[comm.rank]), dtype=x.dtype, device=x.device)
        ALGORITHMS[algorithm](blocks[root:] + blocks[:root], sizes[root:] + sizes[:root], mine.view(-1), counted_from(root, comm))
        return mine


def flat_scatter(blocks: Sequence[Tensor], sizes: Sequence[int], mine: Tensor, comm: Communicator) -> None:
    """Rank 0 sends each of the others its block."""
    if comm.rank > 0:
        comm.recv(mine, 0, tag="flat")
        return
    for message in [comm.isend(block, dst, tag="flat") for dst, block in enumerate(blocks[1:], start=1)]:
        message.wait()
    mine.copy_(blocks[0])


def tree_scatter(blocks: Sequence[Tensor], sizes: Sequence[int], mine: Tensor, comm: Communicator) -> None:
    """Blocks go down the tree, those of a whole subtree in one message."""
    below = sum(sizes[comm.rank : comm.rank + binomial_span(comm.rank, comm.size)])
    held = torch.cat(list(blocks)) if comm.rank == 0 else mine.new_empty(below)
    hand_out(held, sizes, comm)
    mine.copy_(held[: sizes[comm.rank]])


def hand_out(held: Tensor, sizes: Sequence[int], comm: Communicator) -> None:
    """Receive the blocks of this rank's subtree from the parent; hand on those of each child's, the farthest first. In place.

    Args:
        held: the blocks of the subtree, flat, this rank's own first; on rank 0 all blocks, to begin with.
        sizes: elements of each rank's block.
        comm: rank 0 is the root.
    """
    if comm.rank > 0:
        parent = binomial_parent(comm.rank)
        comm.recv(held, parent, tag=f"tree {comm.rank - parent}")
    for child in reversed(binomial_children(comm.rank, comm.size)):
        start, length = sum(sizes[comm.rank : child]), sum(sizes[child : child + binomial_span(child, comm.size)])
        comm.send(held[start : start + length], child, tag=f"tree {child - comm.rank}")


ALGORITHMS: dict[str, Callable[[Sequence[Tensor], Sequence[int], Tensor, Communicator], None]] = {
    "flat": flat_scatter,
    "tree": tree_scatter,
    "native": native_scatter,
}
"""The algorithms by name: rank 0 has the flat ``blocks``, of ``sizes`` elements; each rank's own one fills ``mine``, flat too."""
