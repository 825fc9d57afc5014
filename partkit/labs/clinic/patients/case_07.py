"""Sealed: case 7 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

MEASURED = ([3.0, None, 1.0, 2.0], [1.0, 1.0, 0.0, 4.0], [2.0, 2.0, 5.0, 1.0], [0.0, 3.0, 1.0, 1.0])


def patient(comm: Communicator) -> Tensor:
    """The mean over the ranks of what each has measured."""
    measured = torch.tensor([value for value in MEASURED[comm.rank] if value is not None])
    return all_reduce(measured, comm, op="mean")


TRUTH = Truth(
    complaint="averages four measurements over the ranks, and hangs since somebody pulled a cable",
    fault="wrong shape",
    ranks=(0,),
    line="all_reduce(measured",
    why="a value is missing on rank 0, and what is missing is dropped: three numbers there, four on the others. On plain "
    "torch.distributed this may end a process without a Python error.",
    cure="keep the place of what is missing: a zero, and a mask that is summed as well",
)
