"""Rank 0's tensors on every rank: how replicas start equal, and how their buffers stay so.

Every tensor is one broadcast: rank 0 sends it to each of the others, p - 1 messages of n bytes from one rank. A copy, so the
bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from partkit.communicator import Communicator


def replicate(tensors: Iterable[Tensor], comm: Communicator, root: int = 0) -> None:
    """Overwrite ``tensors`` with those of rank ``root``, in place.

    Args:
        tensors: the same number, shapes and dtypes on each rank. Ranks whose tensors differ in shape are told so.
        comm: the ranks.
        root: whose tensors all get.
    """
    with torch.no_grad():
        for tensor in tensors:
            with comm.collective("broadcast", tensor, f"from rank {root}"):
                if comm.rank == root:
                    under_way = [comm.isend(tensor, dst) for dst in range(comm.size) if dst != root]
                    for message in under_way:
                        message.wait()
                else:
                    comm.recv(tensor, root)
