"""Reduce-scatter: the ranks' tensors are combined, and each rank keeps one block of the combination.

The ring, for p = 3. Rank r's block is called c_r. A block starts at the rank after its owner and is passed on to the right;
every rank that it reaches adds its own share, the owner last:

    step     rank 0            rank 1            rank 2
     1       sends c2          sends c0          sends c1           rank r sends c_(r - step) to r + 1
             adds to c1        adds to c2        adds to c0         and adds its own share to c_(r - step - 1), which comes in
     2       sends c1          sends c2          sends c0
             adds to c0: done  adds to c1: done  adds to c2: done

References: Patarasu and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"; Thakur,
Rabenseifner and Gropp 2005, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from partkit.collectives.reducing import COMBINE, Op
from partkit.communicator import Communicator


def ring_reduce_scatter(chunks: Sequence[Tensor], sums: Sequence[Tensor], comm: Communicator, op: Op = "sum") -> None:
    """Pass partial sums round the ring; afterwards ``sums[rank]`` is the finished combination of all ranks.

    Args:
        chunks: one for each rank, what this rank adds to them; only read.
        sums: memory of the same sizes for what comes in. ``sums[rank - 1]`` is not used; others hold partial sums in the end.
        comm: two ranks or more; one rank has nothing to combine, and its ``sums`` stay as they are.
        op: how two chunks are combined.
    """
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    outgoing = chunks[left]
    for step in range(1, comm.size):
        place = (comm.rank - step - 1) % comm.size
        arrived = comm.sendrecv(outgoing, right, sums[place], left, tag=f"reduce-scatter {step}")
        outgoing = COMBINE[op](arrived, chunks[place])
