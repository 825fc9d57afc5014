"""torch.distributed's own collectives, beside ours: ``algorithm="native"``.

gloo ends processes whose shapes differ. So before each native call the ranks meet in a dissemination barrier: its messages
carry the signature of the call, so a rank that called something else stops all others there, where they can be told why, and
the native operation never starts.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor

from partkit.collectives.barrier import dissemination_barrier
from partkit.collectives.reducing import Op
from partkit.communicator import Communicator

REDUCE_OPS: dict[str, Any] = {
    "sum": dist.ReduceOp.SUM,
    "mean": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}
"""gloo knows no mean: it is a sum, divided afterwards."""


def native_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """gloo's own algorithm, or NCCL's."""
    options = dist.AllreduceOptions()
    options.reduceOp = REDUCE_OPS[op]
    result = x.clone()
    _group(comm).allreduce([result], options).wait()
    return result


def _group(comm: Communicator) -> Any:
    """The ranks' process group, once all have made the same call."""
    dissemination_barrier(comm, "same call?")
    return comm.native_group()
