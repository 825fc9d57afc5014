"""Sealed: case 3 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.barrier import barrier
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

LOADS = (5.0, 3.0, 4.0, 4.0)


def patient(comm: Communicator) -> Tensor:
    """Ranks 0 and 1, and 2 and 3, swap their loads; the one with more begins."""
    partner = comm.rank ^ 1
    mine, theirs = torch.tensor([LOADS[comm.rank]]), torch.zeros(1)
    if LOADS[comm.rank] >= LOADS[partner]:
        comm.send(mine, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(mine, partner)
    barrier(comm)
    return theirs


TRUTH = Truth(
    complaint="balances its load from time to time, and hangs once in a while, with some loads only",
    fault="send cycle",
    ranks=(2, 3),
    line="comm.send(mine, partner)",
    why="who has more begins to send, the other one begins to receive. Ranks 2 and 3 have the same load, so both are told to send "
    "first, and a send waits for its receive.",
    cure="comm.sendrecv does both at once; or let something decide that can't be equal, such as the rank",
)
