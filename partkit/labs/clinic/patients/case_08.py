"""Sealed: case 8 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

NUM_CLASSES = 5
LABELS = ([0, 1, 4], [2, 2, 3], [1, 5, 0], [4, 4, 3])


def patient(comm: Communicator) -> Tensor:
    """Count how often each class occurs, over all ranks."""
    counts = torch.zeros(NUM_CLASSES)
    for label in LABELS[comm.rank]:
        counts[label] += 1
    return all_reduce(counts, comm)


TRUTH = Truth(
    complaint="counts classes; the log of three ranks says nothing but that a connection was closed",
    fault="one rank raises",
    ranks=(2,),
    line="counts[label] += 1",
    why="there are five classes, 0 to 4, and rank 2 has met a 5. It never comes to the sum; the others wait for it there, and would "
    "report a time-out or a lost connection, which is not what is wrong.",
    cure="look at the error of the rank that raised first; check labels where they are read",
)
