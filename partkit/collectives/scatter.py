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

from torch import Tensor

from partkit.collectives.blocks import Blocks, back, front
from partkit.collectives.calling import check_dim, check_root, check_template, counted_from, pick
from partkit.collectives.native import native_scatter
from partkit.collectives.pieces import check_cut, numels
from partkit.communicator import Communicator
from partkit.trees import binomial_children, binomial_parent, binomial_span


def scatter(x: Tensor, comm: Communicator, root: int = 0, dim: int = 0, sizes: Sequence[int] | None = None, algorithm: str = "auto") -> Tensor:
    """Give each rank its block of the root's tensor.

    Args:
        x: on the root the whole tensor, of any dtype and layout; elsewhere any tensor of the same shape and dtype, whose
            values don't count: ``torch.empty(...)`` will do. Not modified.
        comm: the ranks that take part.
        root: whose tensor; a rank of ``comm``.
        dim: where it is cut.
        sizes: each rank's extent along ``dim``, the same on all ranks; ``partkit.partition.block_sizes(x.shape[dim], comm.size)`` by default.
        algorithm: "flat", "tree", "native" (torch.distributed's own), or "auto".

    Returns:
        Block ``comm.rank``: a new, contiguous tensor of the shape of ``x`` but for ``dim``.

    Raises:
        TypeError: ``x`` is no tensor, or ``sizes`` no list of whole numbers.
        ValueError: there is no such rank, dim or algorithm; ``sizes`` are not one for each rank, or don't add up to that of ``x``.

    Example:
        >>> import partkit as pk, torch
        >>> with pk.World(3) as world:
        ...     list(world.run(lambda comm: pk.scatter(torch.arange(5), comm).tolist()))
        [[0, 1], [2, 3], [4]]
    """
    check_template("scatter", x)
    check_root("scatter", root, comm)
    dim = check_dim("scatter", x, dim)
    algorithm = pick("scatter", algorithm, ALGORITHMS, comm, x.nbytes)
    extents, cut = check_cut("scatter", x, dim, sizes, comm)
    with comm.collective("scatter", x, f"from rank {root}, {cut}, {algorithm}"):
        counts = numels(x.shape, dim, extents)
        whole = turned(front(x, dim), counts, root) if comm.rank == root else x.detach().new_empty(0)
        mine = ALGORITHMS[algorithm](whole, counts[root:] + counts[:root], counted_from(root, comm))
        return back(mine, x.shape, dim, extents[comm.rank])


def turned(flat: Tensor, counts: Sequence[int], first: int) -> Tensor:
    """Consecutive blocks turned round, so that block ``first`` comes first; ``flat`` itself if it does.

    Example:
        >>> import torch
        >>> turned(torch.tensor([0, 0, 1, 2]), counts=[2, 1, 1], first=1)
        tensor([1, 2, 0, 0])
    """
    return flat.roll(-sum(counts[:first])) if first else flat


def flat_scatter(whole: Tensor, sizes: Sequence[int], comm: Communicator) -> Tensor:
    """Rank 0 sends each of the others its block."""
    if comm.rank > 0:
        return comm.recv(whole.new_empty(sizes[comm.rank]), 0, tag="flat")
    mine, *others = Blocks(whole, sizes)
    for message in [comm.isend(block, dst, tag="flat") for dst, block in enumerate(others, start=1)]:
        message.wait()
    return mine.clone()


def tree_scatter(whole: Tensor, sizes: Sequence[int], comm: Communicator) -> Tensor:
    """Blocks go down the tree, those of a whole subtree in one message."""
    below = sizes[comm.rank : comm.rank + binomial_span(comm.rank, comm.size)]
    held = Blocks(whole.new_empty(sum(below)) if comm.rank > 0 else whole, below)
    hand_out(held, comm)
    return held[0].clone()


def hand_out(held: Blocks, comm: Communicator) -> None:
    """Receive the blocks of this rank's subtree from the parent; hand on those of each child's, the farthest first. In place.

    Args:
        held: one block for each rank of the subtree, this rank's own first; on rank 0 all blocks, to begin with.
        comm: rank 0 is the root.
    """
    if comm.rank > 0:
        parent = binomial_parent(comm.rank)
        comm.recv(held.flat, parent, tag=f"tree {comm.rank - parent}")
    for child in reversed(binomial_children(comm.rank, comm.size)):
        distance = child - comm.rank
        comm.send(held.over(range(distance, min(2 * distance, len(held)))), child, tag=f"tree {distance}")


ALGORITHMS: dict[str, Callable[[Tensor, Sequence[int], Communicator], Tensor]] = {"flat": flat_scatter, "tree": tree_scatter, "native": native_scatter}
"""The algorithms by name: rank 0 has the ``whole``, flat, in blocks of ``sizes`` elements (others nothing), and each rank gets its block."""
