"""All-gather: every rank ends with all ranks' blocks.

The ring, for p = 3. Rank r starts with block c_r and passes on what it got last:

    step     rank 0            rank 1            rank 2
     1       sends c0          sends c1          sends c2           rank r sends c_(r - step + 1) to r + 1
             receives c2       receives c0       receives c1        and receives c_(r - step)
     2       sends c2          sends c0          sends c1
             receives c1       receives c2       receives c0

Reference: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from partkit.communicator import Communicator


def ring_all_gather(chunks: Sequence[Tensor], comm: Communicator) -> None:
    """Pass chunks round the ring, in place: ``chunks[rank]`` is there at the start, all are at the end."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(1, comm.size):
        outgoing, incoming = chunks[(comm.rank - step + 1) % comm.size], chunks[(comm.rank - step) % comm.size]
        comm.sendrecv(outgoing, right, incoming, left, tag=f"all-gather {step}")
