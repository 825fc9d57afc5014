"""Sealed: case 6 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

NORMS = ((3.0, 1.0), (2.0, 1.5), (1.0, 1.25), (4.0, 2.0))


def gradients(rank: int) -> dict[str, Tensor]:
    """Of two parameters."""
    embedding, head = NORMS[rank]
    return {"embedding": torch.full((6,), embedding), "head": torch.full((3,), head)}


def patient(comm: Communicator) -> dict[str, Tensor]:
    """Add up the gradients of all ranks, those with the largest numbers first."""
    mine, total = gradients(comm.rank), {}
    for name in sorted(mine, key=lambda name: -mine[name].max()):
        total[name] = all_reduce(mine[name], comm)
    return total


TRUTH = Truth(
    complaint="sends its most important gradients first, which worked in all tests; after an hour of training it hangs",
    fault="swapped order",
    ranks=(2,),
    line="all_reduce(mine[name]",
    why="each rank sorts by its *own* gradients. On rank 2 the head has got the larger ones, so it begins with the head, the others "
    "with the embedding. Had both the same shape, they would have been added up without a word.",
    cure="the order of collectives must be the same on all ranks: by name, or by what all of them know",
)
