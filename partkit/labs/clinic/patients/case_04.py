"""Sealed: case 4 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_gather import all_gather
from partkit.collectives.broadcast import broadcast
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

LOSSES, POLISHED = (0.40, 0.55, 0.70, 0.45), 0.8


def patient(comm: Communicator) -> Tensor:
    """Four ranks have tried four starting points; all go on from the best of them."""
    losses = all_gather(torch.tensor([LOSSES[comm.rank]]), comm)
    losses[comm.rank] *= POLISHED
    best = int(losses.argmin())
    weights = torch.full((6,), float(comm.rank))
    return broadcast(weights, comm, root=best)


TRUTH = Truth(
    complaint="tries four starting points and goes on from the best of them; since each rank polishes its own, it never goes on",
    fault="wrong root",
    ranks=(3,),
    line="broadcast(weights",
    why="each rank lowers its *own* entry of the gathered losses before it looks for the smallest. So the four lists differ: with its "
    "0.45 polished to 0.36, rank 3 takes itself for the best, while ranks 0-2 agree on rank 0.",
    cure="decide from numbers that are equal on all ranks: polish first, gather afterwards",
)
