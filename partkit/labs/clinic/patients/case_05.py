"""Sealed: case 5 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

GATES_OPEN = (True, False, True, True)


def gradients(rank: int) -> dict[str, Tensor]:
    """Of three parameters."""
    return {"weights": torch.ones(4), "gate": torch.full((2,), float(GATES_OPEN[rank])), "bias": torch.ones(1)}


def patient(comm: Communicator) -> dict[str, Tensor]:
    """Add up the gradients of all ranks; zeros need no adding."""
    total = {}
    for name, gradient in gradients(comm.rank).items():
        if gradient.any():
            total[name] = all_reduce(gradient, comm)
    return total


TRUTH = Truth(
    complaint="has a gate in its network that is closed for some batches; with some batches it hangs",
    fault="skipped rank",
    ranks=(1,),
    line="all_reduce(gradient",
    why="the gate of rank 1 was closed, so its gradient is zero there, and rank 1 leaves out the sum for which the others wait. It is "
    "already at the next parameter.",
    cure="whether a collective is called may not depend on what one rank alone knows; zeros must be added, too",
)
