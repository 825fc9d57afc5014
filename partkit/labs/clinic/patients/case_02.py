"""Sealed: case 2 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_reduce import all_reduce
from partkit.collectives.barrier import barrier
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

READINGS = ([0.5, 1.5], [2, 4], [1.0, 0.25], [3.5, 2.5])


def patient(comm: Communicator) -> Tensor:
    """Add up what the sensors of all ranks have measured."""
    barrier(comm)
    readings = torch.tensor(READINGS[comm.rank])
    return all_reduce(readings, comm)


TRUTH = Truth(
    complaint="has added up the sensors of four ranks for weeks, and hangs today",
    fault="wrong dtype",
    ranks=(1,),
    line="all_reduce(readings",
    why="the sensors of rank 1 happened to measure whole numbers, [2, 4], of which torch.tensor makes int64; the others have float32. "
    "Without a check, the bytes of the ones would be taken for the other.",
    cure="say the dtype: torch.tensor(READINGS[comm.rank], dtype=torch.float32)",
)
