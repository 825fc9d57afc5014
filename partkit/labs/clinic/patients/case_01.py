"""Sealed: case 1 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

EXAMPLES, BATCH = 90, 7


def patient(comm: Communicator) -> Tensor:
    """Fit one weight to the mean of all examples; each rank has a share of them."""
    share = torch.arange(float(EXAMPLES)).chunk(comm.size)[comm.rank]
    weight = torch.zeros(1)
    for batch in torch.split(share, BATCH):
        gradient = weight - batch.mean()
        weight = weight - 0.1 * all_reduce(gradient, comm, op="mean")
    return weight


TRUTH = Truth(
    complaint="trains well, and stands still in the last step of every epoch",
    fault="uneven batch counts",
    ranks=(3,),
    line="all_reduce(gradient",
    why="90 examples make shares of 23, 23, 23 and 21. In batches of 7 these are four batches on ranks 0-2, and three on rank 3: "
    "it is through while the others wait for a fourth gradient.",
    cure="give every rank the same number of steps: drop or repeat examples, or let a rank that is through add zeros until all are",
)
