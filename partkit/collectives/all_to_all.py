"""All-to-all: every rank has a block for every rank; afterwards each has what was meant for it.

It is the transpose of a matrix of blocks, a row on each rank (p = 3):

                 before              after
    rank 0       a0  a1  a2          a0  b0  c0
    rank 1       b0  b1  b2          a1  b1  c1
    rank 2       c0  c1  c2          a2  b2  c2

p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm    messages per rank    bytes per rank       time
    pairwise     p - 1                (p - 1) / p n        (p - 1) (alpha + n / (p beta))
    bruck        ceil(log2(p))        log2(p) / 2 n        log2(p) (alpha + n / (2 beta))
    native       as torch.distributed does it: gloo, or NCCL on GPUs

where n / p stands for the largest block if p does not divide n. Pairwise, each block goes straight to its rank. Bruck's way has
blocks travel with others: for small n it saves latencies and pays with bytes. Its last two columns are for powers of two that
divide n; `partkit.cluster.COSTS["all_to_all"]` has all numbers of ranks, to the byte.

Bruck, for p = 4. The block for the rank i places further on is called i. In step k all blocks whose number has bit k travel 2^k
places; after the last step each has travelled as far as it should:

    block                  0      1      2      3
    bits                   00     01     10     11
    step 0, to rank + 1           x             x
    step 1, to rank + 2                  x      x

With `all_to_all_v` the caller says how much goes to each rank. A receiver must know how much will come: if it doesn't, the
counts are exchanged first. Empty blocks are sent, too. Every dtype can be moved.

References: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.4;
Bruck, Ho, Kipnis, Upfal and Weathersby 1997, "Efficient algorithms for all-to-all communications in multiport message-passing
systems", section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from partkit.collectives.blocks import Blocks, back, front
from partkit.collectives.calling import check_dim, check_tensor, pick
from partkit.collectives.native import native_all_to_all
from partkit.collectives.pieces import check_counts, must_agree, numels
from partkit.communicator import Communicator, Exchange, describe, join
from partkit.partition import block_sizes


def all_to_all(x: Tensor, comm: Communicator, dim: int = 0, algorithm: str = "auto") -> Tensor:
    """Send the j-th block of ``x`` to rank j; join what the ranks have sent to this one.

    Args:
        x: any dtype and layout, the same shape and dtype on each rank of ``comm``. Not modified.
        comm: the ranks that take part.
        dim: which dim is cut, by ``pk.partition.block_sizes``, and along which the received blocks are joined, in the order of
            ranks. For another dim to be joined, see ``torch.cat`` and ``split``.
        algorithm: "pairwise", "bruck", "native" (torch.distributed's own), or "auto".

    Returns:
        A new, contiguous tensor of the shape of ``x``, but with p times this rank's share along ``dim``; if p divides it, that
        is the shape of ``x``.

    Raises:
        TypeError: ``x`` is no tensor.
        ValueError: there is no such dim or algorithm.

    Example:
        >>> import partkit as pk
        >>> with pk.World(3) as world:
        ...     list(world.run(lambda comm: pk.all_to_all(torch.arange(3) + 10 * comm.rank, comm)))
        [tensor([ 0, 10, 20]), tensor([ 1, 11, 21]), tensor([ 2, 12, 22])]
    """
    check_tensor("all_to_all", x)
    dim = check_dim("all_to_all", x, dim)
    algorithm = pick("all_to_all", algorithm, ALGORITHMS, comm, x.nbytes)
    with comm.collective("all_to_all", x, f"dim {dim}, {algorithm}"):
        extents = block_sizes(x.shape[dim], comm.size)
        blocks = Blocks(front(x, dim), numels(x.shape, dim, extents))
        received = _room(blocks, [blocks.numels[comm.rank]] * comm.size)
        ALGORITHMS[algorithm](blocks, received, comm)
        return back(received.flat, x.shape, dim, comm.size * extents[comm.rank])


def all_to_all_v(x: Tensor, comm: Communicator, send_sizes: Sequence[int], recv_sizes: Sequence[int] | None = None, dim: int = 0) -> Tensor:
    """Send so much of ``x`` to each rank; join what the ranks have sent to this one. Pairwise.

    Args:
        x: any dtype and layout, on each rank of ``comm`` of the same dtype, and of the same shape but for ``dim``. Not modified.
        comm: the ranks that take part.
        send_sizes: how much of ``x`` along ``dim`` goes to each rank, 0 or more; together all of it.
        recv_sizes: how much comes from each rank. With None the ranks tell each other first, in an `all_to_all` of an int64 for
            each: p - 1 messages of 8 bytes more from every rank.
        dim: which dim is cut, and along which the received pieces are joined, in the order of ranks.

    Returns:
        A new, contiguous tensor of the shape of ``x``, but with the sum of what comes along ``dim``.

    Raises:
        TypeError: ``x`` is no tensor, or sizes are no lists of whole numbers.
        ValueError: there is no such dim; sizes are not one for each rank, or do not fit ``x``. Sizes that two ranks state
            differently end the run with a message that names both.

    Example:
        >>> import partkit as pk
        >>> def route(comm):
        ...     return pk.all_to_all_v(torch.arange(3) + 10 * comm.rank, comm, send_sizes=[[0, 3], [2, 1]][comm.rank])
        >>> with pk.World(2) as world:
        ...     list(world.run(route))
        [tensor([10, 11]), tensor([ 0,  1,  2, 12])]
    """
    check_tensor("all_to_all_v", x)
    dim = check_dim("all_to_all_v", x, dim)
    sends = check_counts("all_to_all_v", "send_sizes", send_sizes, comm)
    if sum(sends) != x.shape[dim]:
        raise ValueError(f"all_to_all_v(send_sizes={list(sends)}) of {describe(x)}: they add up to {sum(sends)}, but x has {x.shape[dim]} along dim {dim}")
    if recv_sizes is None:
        recvs = tuple(all_to_all(torch.tensor(sends), comm, algorithm="pairwise").tolist())
    else:
        recvs = check_counts("all_to_all_v", "recv_sizes", recv_sizes, comm)
    if sends[comm.rank] != recvs[comm.rank]:
        raise ValueError(f"all_to_all_v: rank {comm.rank} sends {sends[comm.rank]} to itself and expects {recvs[comm.rank]} from itself; the two must be equal")
    with comm.collective("all_to_all_v", x, f"dim {dim}", what=must_agree(x, dim, "ask").removesuffix(" of sizes ask")):
        blocks = Blocks(front(x, dim), numels(x.shape, dim, sends))
        received = _room(blocks, numels(x.shape, dim, recvs))
        uneven_all_to_all(blocks, received, comm)
        return back(received.flat, x.shape, dim, sum(recvs))


def pairwise_all_to_all(blocks: Blocks, received: Blocks, comm: Communicator) -> None:
    """In step s everyone sends to the rank s places further on and receives from as far back; ``received`` is filled.

    No step needs what an earlier one has brought, so a wire that can has all steps under way at once.
    """
    rank, size, outgoing, inboxes = comm.rank, comm.size, tuple(blocks), tuple(received)
    inboxes[rank].copy_(outgoing[rank])
    steps: list[Exchange] = []
    for step in range(1, size):
        dst, src = (rank + step) % size, (rank - step) % size
        steps.append(Exchange(outgoing[dst], dst, inboxes[src], src, tag=f"pairwise {step}"))
    comm.sendrecv_all(steps)


def uneven_all_to_all(blocks: Blocks, received: Blocks, comm: Communicator) -> None:
    """The messages of pairwise, where some are long and some short, so that ranks fall behind; ``received`` is filled.

    No step needs what an earlier one has brought, so all receives are posted at once: a sender never waits for a rank that is
    behind. Sends go one after the other, so that not everybody sends to the same rank.
    """
    rank, size, outgoing, inboxes = comm.rank, comm.size, tuple(blocks), tuple(received)
    incoming = [comm.irecv(inboxes[(rank - step) % size], (rank - step) % size, tag=f"pairwise {step}") for step in range(1, size)]
    inboxes[rank].copy_(outgoing[rank])
    for step in range(1, size):
        comm.send(outgoing[(rank + step) % size], (rank + step) % size, tag=f"pairwise {step}")
    for message in incoming:
        message.wait()


def bruck_all_to_all(blocks: Blocks, received: Blocks, comm: Communicator) -> None:
    """Block i has i places to go: at distance 1, 2, 4, ... all those travel whose way has that bit; ``received`` is filled.

    What comes in for block i is meant for the rank that is as far on as the higher bits of i say, and has its size.
    """
    size, rank = comm.size, comm.rank
    views = tuple(blocks)
    here = [*views[rank:], *views[:rank]]
    far = 1
    while far < size:
        travel = [i for i in range(size) if i & far]
        coming = [blocks.numels[(rank + i // (2 * far) * 2 * far) % size] for i in travel]
        inbox = blocks.flat.new_empty(sum(coming))
        parcel = join([here[i] for i in travel], blocks.flat.new_empty(sum(here[i].numel() for i in travel)))
        comm.sendrecv(parcel, (rank + far) % size, inbox, (rank - far) % size, tag=f"bruck {far}")
        for i, block in zip(travel, inbox.split_with_sizes(coming), strict=True):
            here[i] = block
        far *= 2
    join([here[(rank - src) % size] for src in range(size)], received.flat)


def _room(blocks: Blocks, sizes: Sequence[int]) -> Blocks:
    """Memory for what comes in."""
    return Blocks(blocks.flat.new_empty(sum(sizes)), sizes)


ALGORITHMS: dict[str, Callable[[Blocks, Blocks, Communicator], None]] = {
    "pairwise": pairwise_all_to_all,
    "bruck": bruck_all_to_all,
    "native": native_all_to_all,
}
"""The algorithms by name: a block for each rank, only read, and the memory for one from each rank, which is filled."""
