"""Barrier: nobody goes on before everybody has come.

Dissemination, for p = 5. In round k, rank r signals rank r + 2^k and waits for rank r - 2^k. After round k a rank has heard,
directly or through others, from the 2^(k + 1) ranks up to itself; ceil(log2 p) rounds reach all:

    round    distance    rank 0 has heard of
      0         1        0 4
      1         2        0 4 3 2             from rank 3, who had heard of 3 and 2
      2         4        0 4 3 2 1           from rank 1

Each rank sends ceil(log2 p) messages of one byte: ``partkit.cluster.COSTS["barrier"]``.

Reference: Hensgen, Finkel and Manber 1988, "Two algorithms for barrier synchronization".
"""

from __future__ import annotations

import torch

from partkit.collectives.calling import pick
from partkit.communicator import Communicator


def barrier(comm: Communicator, algorithm: str = "auto") -> None:
    """Wait until every rank of ``comm`` has come here.

    Args:
        comm: the ranks that take part.
        algorithm: "dissemination", or "auto".

    Raises:
        ValueError: there is no such algorithm.

    Example:
        >>> import partkit as pk
        >>> with pk.World(3) as world:
        ...     results = world.run(lambda comm: pk.barrier(comm))
        ...     world.trace.num_messages()
        6
    """
    token = torch.zeros(0, dtype=torch.uint8)
    algorithm = pick("barrier", algorithm, ALGORITHMS, comm, 0)
    with comm.collective("barrier", token, algorithm):
        ALGORITHMS[algorithm](comm)


def dissemination_barrier(comm: Communicator, tag: str = "barrier") -> None:
    """Signal the rank 1 further on, then 2, then 4, ...; each time wait for the signal from as far back."""
    token, distance = torch.zeros(1, dtype=torch.uint8), 1
    while distance < comm.size:
        dst, src = (comm.rank + distance) % comm.size, (comm.rank - distance) % comm.size
        comm.sendrecv(token, dst, torch.empty_like(token), src, tag=f"{tag} {distance}")
        distance *= 2


ALGORITHMS = {"dissemination": dissemination_barrier}
