"""Sealed: case 9 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

NEW, OLD = ("a", "a", "b", "b"), ("a", "b", "a", "b")
MACHINES = (NEW, OLD, NEW, NEW)


def patient(comm: Communicator) -> Tensor:
    """Add up in each machine first, then over all ranks."""
    machine_of = MACHINES[comm.rank]
    here = comm.subgroup([rank for rank in range(comm.size) if machine_of[rank] == machine_of[comm.rank]])
    in_machine = all_reduce(torch.ones(2), here)
    return all_reduce(in_machine, comm)


TRUTH = Truth(
    complaint="adds up in each machine and then over all; hangs since the ranks were distributed anew",
    fault="wrong sub-group",
    ranks=(1,),
    line="all_reduce(torch.ones(2), here)",
    why="rank 1 has read an old list of machines, in which ranks 1 and 3 share one. Rank 0 waits for it in the group 0-1, while it "
    "waits for rank 3, which was in the group 2-3 and has gone on.",
    cure="let one rank read the list, and broadcast it; groups are agreed upon, not looked up by each rank for itself",
)
