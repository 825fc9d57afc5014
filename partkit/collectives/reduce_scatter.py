"""Reduce-scatter: the ranks' tensors are combined, and each rank keeps one block of the combination.

p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm            messages per rank    bytes per rank    time
    ring                 p - 1                (p - 1) / p n     (p - 1) (alpha + n / (p beta))
    recursive_halving    log2(p)              (p - 1) / p n     log2(p) alpha + (p - 1) / p n / beta
    native               as torch.distributed does it: gloo, or NCCL on GPUs

where n / p stands for the largest block if p does not divide n; (p - 1) / p n is all but the rank's own block. Recursive halving
is for powers of two; otherwise two more steps, in which some send all they have (`partkit.collectives.halving_doubling`). The
rows with a formula are `partkit.cluster.COSTS["reduce_scatter"]`, to the byte, and the code there is for every number of ranks.

The ring, for p = 3. Rank r's block is called c_r. A block starts at the rank after its owner and is passed on to the right;
every rank that it reaches adds its own share, the owner last:

    step     rank 0            rank 1            rank 2
     1       sends c2          sends c0          sends c1           rank r sends c_(r - step) to r + 1
             adds to c1        adds to c2        adds to c0         and adds its own share to c_(r - step - 1), which comes in
     2       sends c1          sends c2          sends c0
             adds to c0: done  adds to c1: done  adds to c2: done

Recursive halving: the picture of `partkit.butterfly`, backwards. Which dtypes can be combined how:
`partkit.collectives.reducing`. Empty blocks are sent, too.

References: Patarasu and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"; Thakur,
Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", sections 3.3 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from partkit.collectives.blocks import Blocks, back, front
from partkit.collectives.calling import check_dim, check_tensor, pick
from partkit.collectives.halving_doubling import Team, fold, halve
from partkit.collectives.native import native_reduce_scatter
from partkit.collectives.pieces import check_cut, numels
from partkit.collectives.reducing import COMBINE, Op, check_op
from partkit.communicator import Communicator, pass_round


def reduce_scatter(x: Tensor, comm: Communicator, op: Op = "sum", dim: int = 0, sizes: Sequence[int] | None = None, algorithm: str = "auto") -> Tensor:
    """Combine the ranks' tensors; rank r gets the r-th block of the result along ``dim``.

    Args:
        x: any shape, dtype and layout, the same shape and dtype on each rank of ``comm``. Not modified.
        comm: the ranks that take part.
        op: "sum", "mean" (the sum divided by the number of ranks), "product", "min" or "max".
        dim: which dim is cut.
        sizes: each rank's share along ``dim``, the same on all ranks; ``pk.partition.block_sizes(x.shape[dim], comm.size)`` by
            default. Uneven and empty blocks are normal.
        algorithm: "ring", "recursive_halving", "native" (torch.distributed's own), or "auto".

    Returns:
        A new, contiguous tensor of the shape of ``x``, but with this rank's share along ``dim``.

    Raises:
        TypeError: ``x`` is no tensor, or ``sizes`` no list of whole numbers.
        ValueError: there is no such ``op``, dim or algorithm, or the dtype cannot be combined that way; ``sizes`` are not one
            for each rank, or don't add up to that of ``x``.

    Example:
        >>> import partkit as pk
        >>> with pk.World(3) as world:
        ...     list(world.run(lambda comm: pk.reduce_scatter(torch.arange(4) * 10**comm.rank, comm)))
        [tensor([  0, 111]), tensor([222]), tensor([333])]
    """
    check_tensor("reduce_scatter", x)
    dim = check_dim("reduce_scatter", x, dim)
    algorithm = pick("reduce_scatter", algorithm, ALGORITHMS, comm, x.nbytes)
    check_op("reduce_scatter", x, op, algorithm)
    extents, cut = check_cut("reduce_scatter", x, dim, sizes, comm)
    with comm.collective("reduce_scatter", x, f"{op}, {cut}, {algorithm}"):
        blocks = Blocks(front(x, dim), numels(x.shape, dim, extents))
        mine = ALGORITHMS[algorithm](blocks, comm, op) if comm.size > 1 else blocks.flat.clone()
        result = back(mine, x.shape, dim, extents[comm.rank])
        return result.div_(comm.size) if op == "mean" else result


def ring_reduce_scatter(chunks: Sequence[Tensor], sums: Sequence[Tensor], comm: Communicator, op: Op = "sum") -> None:
    """Pass partial sums round the ring; afterwards ``sums[rank]`` is the finished combination of all ranks.

    First this rank's chunk for the rank before goes out, and a sum of one share comes in, for the rank before that one; this rank
    adds its own share to what has come in, and hands it on (the loop: `partkit.communicator.ring`).

    Args:
        chunks: one for each rank, what this rank adds to them; only read.
        sums: memory of the same sizes for what comes in. ``sums[rank - 1]`` is not used; others hold partial sums in the end.
        comm: the ranks; if there is only one, its chunk is copied.
        op: how two chunks are combined.
    """
    if comm.size == 1:
        sums[0].copy_(chunks[0])
    pass_round(comm, chunks[comm.rank - 1], sums, comm.rank - 2, "reduce-scatter", COMBINE[op], own=chunks)


def _ring(blocks: Blocks, comm: Communicator, op: Op) -> Tensor:
    """The ring with room for two partial sums only: one is on its way out while the next one comes in."""
    room = [blocks.flat.new_empty(max(blocks.numels)) for _ in range(2)]
    sums = [room[(comm.rank - place - 1) % comm.size % 2][:numel] for place, numel in enumerate(blocks.numels)]
    ring_reduce_scatter(blocks, sums, comm, op)
    return sums[comm.rank]


def recursive_halving_reduce_scatter(blocks: Blocks, comm: Communicator, op: Op = "sum") -> Tensor:
    """Exchange halves with partners nearer and nearer; two that are a team do it together, and share what is left."""
    team = Team.of(comm)
    folded = fold(blocks.flat, team, comm, op)
    if folded is None:
        return comm.recv(torch.empty_like(blocks[comm.rank]), team.ranks[0], tag="unfold")
    sums = blocks.like(torch.empty_like(folded))
    halve(blocks.like(folded).grouped(team.all), sums.grouped(team.all), team, comm, op)
    for second in team.ranks[1:]:
        comm.send(sums[second], second, tag="unfold")
    return sums[comm.rank].clone()


ALGORITHMS: dict[str, Callable[[Blocks, Communicator, Op], Tensor]] = {
    "ring": _ring,
    "recursive_halving": recursive_halving_reduce_scatter,
    "native": native_reduce_scatter,
}
"""The algorithms by name: blocks of the ranks, only read; the result is new memory, the rank's finished block. Two ranks or more."""
