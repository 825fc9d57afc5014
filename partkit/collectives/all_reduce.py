"""All-reduce: every rank ends with the sum of all ranks' tensors.

Three ways, from the obvious one to the one that is used. p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm    messages per rank    bytes per rank       time
    naive        p - 1                (p - 1) n            (p - 1) (alpha + n / beta)
    ring         2 (p - 1)            2 (p - 1) / p n      2 (p - 1) (alpha + n / (p beta))
    native       as torch.distributed does it: gloo, or NCCL on GPUs

No algorithm can move less than the ring, 2 (p - 1) / p n bytes per rank; it pays with 2 (p - 1) latencies, so that the naive
way wins for small tensors. The two rows with a formula are `partkit.cluster.COSTS["all_reduce"]`, to the byte.

The ring, for p = 3. The tensor is cut in p chunks. On the first round a chunk collects one more rank's share at each step;
on the second the finished chunks are handed on:

    step     rank 0            rank 1            rank 2
     1       sends c2          sends c0          sends c1           reduce-scatter: rank r sends c_(r - step) to r + 1
             adds to c1        adds to c2        adds to c0         and adds its own share to c_(r - step - 1), which comes in
     2       sends c1          sends c2          sends c0
             adds to c0: done  adds to c1: done  adds to c2: done   rank r now owns the finished c_r
    3, 4     sends c0, c2      sends c1, c0      sends c2, c1       all-gather: the same ring, nothing added any more

Which dtypes can be combined how: `partkit.collectives.reducing`.

References: Patarasu and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"; Thakur,
Rabenseifner and Gropp 2005, section 3.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from partkit.collectives.all_gather import ring_all_gather
from partkit.collectives.calling import check_tensor, packed, pick
from partkit.collectives.native import native_all_reduce
from partkit.collectives.reduce_scatter import ring_reduce_scatter
from partkit.collectives.reducing import COMBINE, Op, check_op
from partkit.communicator import Communicator
from partkit.partition import block_sizes


def all_reduce(x: Tensor, comm: Communicator, op: Op = "sum", algorithm: str = "auto") -> Tensor:
    """Combine the ranks' tensors; every rank gets the whole result.

    Args:
        x: any shape, dtype and layout, the same shape and dtype on each rank of ``comm``. Not modified.
        comm: the ranks that take part.
        op: "sum", "mean" (the sum divided by the number of ranks), "product", "min" or "max".
        algorithm: "ring", "naive", "native" (torch.distributed's own), or "auto".

    Returns:
        A new, contiguous tensor of the shape of ``x``. The explicit algorithms give the same bits on every rank.

    Raises:
        ValueError: ``op`` or ``algorithm`` is unknown, or the dtype cannot be combined that way.

    Example:
        >>> import partkit as pk
        >>> with pk.World(3) as world:
        ...     world.run(lambda comm: pk.all_reduce(torch.arange(4.0) * comm.rank, comm))[1]
        tensor([0., 3., 6., 9.])
    """
    check_tensor("all_reduce", x)
    algorithm = pick("all_reduce", algorithm, ALGORITHMS, comm, x)
    check_op("all_reduce", x, op, algorithm)
    with comm.collective("all_reduce", x, f"{op}, {algorithm}"):
        result = ALGORITHMS[algorithm](packed(x).view(-1), comm, op).view(x.shape)
        return result.div_(comm.size) if op == "mean" else result


def naive_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Everyone sends all of ``x`` to everyone, and adds up what comes in.

    In step s, rank r sends to r + s and receives from r - s: every rank sends one message and receives one. The parts are
    added in the order of ranks on every rank, so all ranks get the same bits.
    """
    parts = [x if rank == comm.rank else torch.empty_like(x) for rank in range(comm.size)]
    for step in range(1, comm.size):
        dst, src = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        comm.sendrecv(x, dst, parts[src], src, tag=f"naive {step}")
    total = parts[0].clone()
    for part in parts[1:]:
        COMBINE[op](total, part)
    return total


def ring_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Pass chunks round the ring twice.

    Each chunk is added up by one chain of ranks, in one order, and then copied: all ranks get the same bits.
    """
    if comm.size == 1:
        return x.clone()
    sizes, total = block_sizes(x.numel(), comm.size), torch.empty_like(x)
    sums = total.split(sizes)
    ring_reduce_scatter(x.split(sizes), sums, comm, op)
    ring_all_gather(sums, comm)
    return total


ALGORITHMS: dict[str, Callable[[Tensor, Communicator, Op], Tensor]] = {"naive": naive_all_reduce, "ring": ring_all_reduce, "native": native_all_reduce}
"""The algorithms by name: ``x`` is flat, one block of memory, only read; the result is new memory of the same size."""
