"""Gather: the root ends with all ranks' pieces, joined along one dim.

Two ways. p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm    messages of another rank    bytes of rank 1    time
    flat         1                           n                  (p - 1) (alpha + n / beta)
    tree         1                           n                  ceil(log2(p)) alpha + (p - 1) n / beta
    native       as torch.distributed does it: gloo, or NCCL on GPUs

The root receives the same bytes either way; the tree saves it latencies, for which a rank sends the pieces of all ranks below it
together with its own: rank 4 of 8 sends 4 n bytes. The rows with a formula are `partkit.cluster.COSTS["gather"]`, to the byte.

Pieces need not be equal, but a receiver must know what will come: see `sizes` in `partkit.collectives.pieces`. Empty pieces are
sent too: the root gets a message from each rank.

The tree, for p = 6 (`partkit.trees`): the tree of a scatter, run backwards.

    round    1 --> 0    3 --> 2    5 --> 4         2 -------------------> 0         4 -------------------> 0
             piece 1    piece 3    piece 5         pieces 2 3                       pieces 4 5

Reference: Chan, Heimlich, Purkayastha and van de Geijn 2007, "Collective communication: theory, practice, and experience",
section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from partkit.collectives.blocks import Blocks, back, front
from partkit.collectives.calling import check_dim, check_root, check_tensor, counted_from, pick
from partkit.collectives.native import native_extents, native_gather
from partkit.collectives.pieces import Sizes, check_sizes, must_agree, numels
from partkit.collectives.scatter import turned
from partkit.communicator import Communicator
from partkit.trees import binomial_children, binomial_parent, binomial_span


def gather(x: Tensor, comm: Communicator, root: int = 0, dim: int = 0, sizes: Sizes = None, algorithm: str = "auto") -> Tensor | None:
    """Join the ranks' tensors on the root.

    Args:
        x: this rank's piece, of any dtype and layout; on each rank of the same dtype, and of the same shape but for ``dim``.
            Not modified.
        comm: the ranks that take part.
        root: who gets the result; a rank of ``comm``.
        dim: where pieces are joined, in the order of ranks.
        sizes: each rank's extent along ``dim``, if they differ; "ask" lets the ranks tell each other first, with as many
            messages again, of one int64 for each piece. With None all pieces are as large as this rank's own.
        algorithm: "flat", "tree", "native" (torch.distributed's own), or "auto".

    Returns:
        On the root a new, contiguous tensor; None elsewhere.

    Raises:
        TypeError: ``x`` is no tensor, or ``sizes`` no list of whole numbers.
        ValueError: there is no such rank, dim or algorithm; ``sizes`` are not one for each rank, or not that of ``x``.

    Example:
        >>> import partkit as pk, torch
        >>> with pk.World(3) as world:
        ...     world.run(lambda comm: pk.gather(torch.full((comm.rank + 1,), comm.rank), comm, sizes=[1, 2, 3]))[0]
        tensor([0, 1, 1, 2, 2, 2])
    """
    check_tensor("gather", x)
    check_root("gather", root, comm)
    dim = check_dim("gather", x, dim)
    extents = check_sizes("gather", x, dim, sizes, comm)
    algorithm = pick("gather", algorithm, ALGORITHMS, comm, x.nbytes if sizes is None else 0)  # all ranks must choose alike
    with comm.collective("gather", x, f"to rank {root}, dim {dim}, {algorithm}", what=must_agree(x, dim, sizes)):
        from_root = counted_from(root, comm)
        extents = ask_sizes(x.shape[dim], from_root, algorithm, x.device) if extents is None else extents[root:] + extents[:root]
        counts = numels(x.shape, dim, extents)
        held = ALGORITHMS[algorithm](front(x, dim), counts, from_root)
        return back(turned(held, counts, -root % comm.size), x.shape, dim, sum(extents)) if comm.rank == root else None


def ask_sizes(extent: int, comm: Communicator, algorithm: str, device: torch.device) -> tuple[int, ...]:
    """The pieces' extents, as far as this rank must know them: those of the ranks below it, 0 for others.

    They are gathered in the same way as the pieces will be, so each rank sees what will pass through it. The native gather
    must know all of them everywhere.
    """
    if algorithm == "native":
        return native_extents(extent, comm, device)
    with comm.span("sizes"):
        mine = torch.tensor([extent], device=device)
        held = ALGORITHMS[algorithm](mine, [1] * comm.size, comm).tolist()
    return (0,) * comm.rank + tuple(held) + (0,) * (comm.size - comm.rank - len(held))


def flat_gather(block: Tensor, sizes: Sequence[int], comm: Communicator) -> Tensor:
    """Each of the others sends its block to rank 0."""
    if comm.rank > 0:
        comm.send(block, 0, tag="flat")
        return block
    held = Blocks(block.new_empty(sum(sizes)), sizes)
    held[0].copy_(block)
    for message in [comm.irecv(held[src], src, tag="flat") for src in range(1, comm.size)]:
        message.wait()
    return held.flat


def tree_gather(block: Tensor, sizes: Sequence[int], comm: Communicator) -> Tensor:
    """Receive the blocks of each child's subtree, the nearest first; send them to the parent together with the own."""
    below = sizes[comm.rank : comm.rank + binomial_span(comm.rank, comm.size)]
    held = Blocks(block.new_empty(sum(below)), below)
    held[0].copy_(block)
    for child in binomial_children(comm.rank, comm.size):
        distance = child - comm.rank
        comm.recv(held.over(range(distance, min(2 * distance, len(held)))), child, tag=f"tree {distance}")
    if comm.rank > 0:
        parent = binomial_parent(comm.rank)
        comm.send(held.flat, parent, tag=f"tree {comm.rank - parent}")
    return held.flat


ALGORITHMS: dict[str, Callable[[Tensor, Sequence[int], Communicator], Tensor]] = {"flat": flat_gather, "tree": tree_gather, "native": native_gather}
"""The algorithms by name: from a rank's flat block to what it holds in the end, on rank 0 all blocks."""
