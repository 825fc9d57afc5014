"""All-gather: every rank ends with all ranks' pieces, joined along one dim.

p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm             messages per rank    bytes per rank    time
    ring                  p - 1                (p - 1) n         (p - 1) (alpha + n / beta)
    recursive_doubling    log2(p)              (p - 1) n         log2(p) alpha + (p - 1) n / beta
    bruck                 ceil(log2(p))        (p - 1) n         ceil(log2(p)) alpha + (p - 1) n / beta
    native                as torch.distributed does it: gloo, or NCCL on GPUs

Everyone must receive (p - 1) n bytes, so only the latencies differ. Recursive doubling is for powers of two; otherwise two more
steps (`partkit.collectives.halving_doubling`). Bruck's algorithm needs none of that, but turns its result round in memory. The
rows with a formula are `partkit.cluster.COSTS["all_gather"]`, to the byte, and the code there is for every number of ranks.

The ring, for p = 3. Rank r starts with block c_r and passes on what it got last:

    step     rank 0            rank 1            rank 2
     1       sends c0          sends c1          sends c2           rank r sends c_(r - step + 1) to r + 1
             receives c2       receives c0       receives c1        and receives c_(r - step)
     2       sends c2          sends c0          sends c1
             receives c1       receives c2       receives c0

Bruck, for p = 5. Everyone keeps its own block first, then those of the ranks behind it; what is there doubles, then the rest:

    step     rank 0 has           sends         to       receives
     1       c0                   c0            4        c1             from rank 1
     2       c0 c1                c0 c1         3        c2 c3          from rank 2, who had c2 c3
     3       c0 c1 c2 c3          c0            1        c4             from rank 4; now turn into the order of ranks

Recursive doubling: the picture of `partkit.butterfly`.

Pieces need not be equal, but a receiver must know what will come: see `sizes` in `partkit.collectives.pieces`. Empty pieces are
sent, too. Every dtype can be gathered.

References: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.1;
Bruck, Ho, Kipnis, Upfal and Weathersby 1997, "Efficient algorithms for all-to-all communications in multiport message-passing
systems", section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from partkit.collectives.blocks import Blocks, back, front
from partkit.collectives.calling import check_dim, check_tensor, pick
from partkit.collectives.halving_doubling import Team, double
from partkit.collectives.native import native_all_gather
from partkit.collectives.pieces import Sizes, check_sizes, must_agree, numels
from partkit.communicator import Communicator, pass_round


def all_gather(x: Tensor, comm: Communicator, dim: int = 0, sizes: Sizes = None, algorithm: str = "auto") -> Tensor:
    """Join the ranks' tensors along one dim; every rank gets the whole.

    Args:
        x: this rank's piece, of any dtype and layout; on each rank of the same dtype, and of the same shape but for ``dim``.
            Not modified.
        comm: the ranks that take part.
        dim: where pieces are joined, in the order of ranks.
        sizes: each rank's extent along ``dim``, if they differ; "ask" lets the ranks tell each other first, in an all-gather of
            one int64 by Bruck's algorithm. With None all pieces are as large as this rank's own.
        algorithm: "ring", "recursive_doubling", "bruck", "native" (torch.distributed's own), or "auto".

    Returns:
        A new, contiguous tensor of the shape of ``x``, but with the sum of all extents along ``dim``.

    Raises:
        TypeError: ``x`` is no tensor, or ``sizes`` no list of whole numbers.
        ValueError: there is no such dim or algorithm; ``sizes`` are not one for each rank, or not that of ``x``.

    Example:
        >>> import partkit as pk
        >>> with pk.World(3) as world:
        ...     world.run(lambda comm: pk.all_gather(torch.full((comm.rank + 1,), comm.rank), comm, sizes=[1, 2, 3]))[0]
        tensor([0, 1, 1, 2, 2, 2])
    """
    check_tensor("all_gather", x)
    dim = check_dim("all_gather", x, dim)
    extents = check_sizes("all_gather", x, dim, sizes, comm)
    if extents is None:
        extents = _ask(x, comm, dim)
        sizes = extents
    largest = max(numels(x.shape, dim, extents))  # all ranks must choose alike
    algorithm = pick("all_gather", algorithm, ALGORITHMS, comm, largest * x.element_size())
    with comm.collective("all_gather", x, f"dim {dim}, {algorithm}", what=must_agree(x, dim, sizes)):
        whole = _laid_out(front(x, dim), numels(x.shape, dim, extents), comm)
        ALGORITHMS[algorithm](whole, comm)
        return back(whole.flat, x.shape, dim, sum(extents))


def ring_all_gather(chunks: Sequence[Tensor], comm: Communicator) -> None:
    """Pass chunks round the ring, in place: ``chunks[rank]`` is there at the start, all are at the end.

    First this rank's own chunk goes out and the one of the rank before comes in; then each that came in goes out again
    (the loop: `partkit.communicator.ring`).
    """
    pass_round(comm, chunks[comm.rank], chunks, comm.rank - 1, "all-gather")


def recursive_doubling_all_gather(whole: Blocks, comm: Communicator) -> None:
    """Exchange all there is with partners farther and farther away, in place. Who was folded in gets everything in the end."""
    team = Team.of(comm)
    if team.folded(comm):
        comm.send(whole[comm.rank], team.ranks[0], tag="fold")
        comm.recv(whole.flat, team.ranks[0], tag="unfold")
        return
    for second in team.ranks[1:]:
        comm.recv(whole[second], second, tag="fold")
    double(whole.grouped(team.all), team, comm)
    for second in team.ranks[1:]:
        comm.send(whole.flat, second, tag="unfold")


def bruck_all_gather(whole: Blocks, comm: Communicator) -> None:
    """Send what there is to ranks 1, 2, 4, ... before this one; the rest at last; turn. In place."""
    size, rank = comm.size, comm.rank
    turned = Blocks(torch.empty_like(whole.flat), [whole.numels[(rank + i) % size] for i in range(size)])
    turned[0].copy_(whole[rank])
    have = 1
    while have < size:
        count = min(have, size - have)
        outgoing, incoming = turned.over(range(count)), turned.over(range(have, have + count))
        comm.sendrecv(outgoing, (rank - have) % size, incoming, (rank + have) % size, tag=f"bruck {have}")
        have += count
    whole.over(range(rank, size)).copy_(turned.over(range(size - rank)))
    whole.over(range(rank)).copy_(turned.over(range(size - rank, size)))


def _laid_out(mine: Tensor, sizes: Sequence[int], comm: Communicator) -> Blocks:
    """Memory for all blocks, this rank's in its place."""
    whole = Blocks(mine.new_empty(sum(sizes)), sizes)
    whole[comm.rank].copy_(mine)
    return whole


def _ask(x: Tensor, comm: Communicator, dim: int) -> tuple[int, ...]:
    """Each rank's extent along ``dim``."""
    with comm.collective("all_gather", x, f"sizes along dim {dim}", what=must_agree(x, dim, "ask")):
        extents = _laid_out(torch.tensor([x.shape[dim]]), [1] * comm.size, comm)
        bruck_all_gather(extents, comm)
        return tuple(extents.flat.tolist())


ALGORITHMS: dict[str, Callable[[Blocks, Communicator], None]] = {
    "ring": ring_all_gather,
    "recursive_doubling": recursive_doubling_all_gather,
    "bruck": bruck_all_gather,
    "native": native_all_gather,
}
"""The algorithms by name: a block for each rank, this rank's to begin with and all in the end."""
