"""Sealed: case 10 of the clinic."""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.communicator import Communicator
from partkit.labs.clinic.case import Truth

WEIGHTS = (1.0, -2.0, 3.0, 0.5)


def patient(comm: Communicator) -> Tensor:
    """A pipeline: each rank takes activations from the one before, applies its layer, and hands on what is not zero."""
    activations = torch.tensor([1.0, 2.0])
    if comm.rank > 0:
        comm.recv(activations, comm.rank - 1)
    activations = (WEIGHTS[comm.rank] * activations).relu()
    if comm.rank < comm.size - 1 and activations.any():
        comm.send(activations, comm.rank + 1)
    return activations


TRUTH = Truth(
    complaint="a pipeline of four stages that saves messages by sending no zeros; some inputs never come out of it",
    fault="missing message",
    ranks=(1,),
    line="comm.recv(activations",
    why="with a weight of -2, nothing is left behind the ReLU of rank 1, so it sends nothing and is through. Rank 2 can't know that, "
    "and waits; rank 3 waits for rank 2.",
    cure="a message that is received must be sent, whatever is in it; or send first whether there will be one",
)
