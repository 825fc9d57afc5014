"""Scan: rank r ends with the combination of the tensors of ranks 0 to r; of ranks 0 to r - 1, if exclusive.

Two ways. p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm             messages of rank 0    bytes of rank 0       time
    linear                1                     n                     (p - 1) (alpha + n / beta)
    recursive_doubling    ceil(log2(p))         ceil(log2(p)) n       ceil(log2(p)) (alpha + n / beta)

Which ranks sent which sizes before mine, where does my block start in a file: such questions are exclusive scans. The rows are
`partkit.cluster.COSTS["scan"]`, to the byte, and also those of "exscan". torch.distributed has no scan, so there is no "native".

Recursive doubling, for p = 5; "0-2" is the combination of ranks 0 to 2:

    step    distance    rank 0    rank 1    rank 2    rank 3    rank 4
                          0         1         2         3         4
     1         1          0        0-1       1-2       2-3       3-4        rank r sends to r + distance, if there is such a rank,
     2         2          0        0-1       0-2       0-3       1-4        and combines what comes from r - distance
     3         4          0        0-1       0-2       0-3       0-4

Which dtypes can be combined how: `partkit.collectives.reducing`.

Reference: Hillis and Steele 1986, "Data parallel algorithms", Communications of the ACM 29(12).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from partkit.collectives.calling import check_tensor, pick
from partkit.collectives.reducing import COMBINE, Op, check_op, identity
from partkit.communicator import Communicator, packed


def scan(x: Tensor, comm: Communicator, op: Op = "sum", algorithm: str = "auto") -> Tensor:
    """Combine the tensors of all ranks up to this one.

    Args:
        x: any shape, dtype and layout, the same shape and dtype on each rank of ``comm``. Not modified.
        comm: the ranks that take part.
        op: "sum", "mean" (of the ranks up to this one), "product", "min" or "max".
        algorithm: "linear", "recursive_doubling", or "auto".

    Returns:
        A new, contiguous tensor of the shape of ``x``.

    Raises:
        TypeError: ``x`` is no tensor.
        ValueError: ``op`` or ``algorithm`` is unknown, or the dtype cannot be combined that way.

    Example:
        >>> import partkit as pk, torch
        >>> with pk.World(3) as world:
        ...     [total.item() for total in world.run(lambda comm: pk.scan(torch.tensor(10 + comm.rank), comm))]
        [10, 21, 33]
    """
    check_tensor("scan", x)
    algorithm = pick("scan", algorithm, ALGORITHMS, comm, x.nbytes)
    check_op("scan", x, op, algorithm)
    with comm.collective("scan", x, f"{op}, {algorithm}"):
        _, upto = ALGORITHMS[algorithm](packed(x).view(-1), comm, op)
        return (upto.div_(comm.rank + 1) if op == "mean" else upto).view(x.shape)


def exscan(x: Tensor, comm: Communicator, op: Op = "sum", algorithm: str = "auto") -> Tensor:
    """Combine the tensors of all ranks before this one.

    Args:
        x: any shape, dtype and layout, the same shape and dtype on each rank of ``comm``. Not modified.
        comm: the ranks that take part.
        op: "sum", "product", "min" or "max".
        algorithm: "linear", "recursive_doubling", or "auto".

    Returns:
        A new, contiguous tensor of the shape of ``x``. On rank 0, before which there is none, the number that changes nothing:
        0 for a sum, 1 for a product, the largest of the dtype for a minimum, the smallest for a maximum.

    Raises:
        TypeError: ``x`` is no tensor.
        ValueError: ``op`` or ``algorithm`` is unknown, the dtype cannot be combined that way, or a mean of no ranks is wanted.

    Example:
        >>> import partkit as pk, torch
        >>> with pk.World(3) as world:
        ...     [start.item() for start in world.run(lambda comm: pk.exscan(torch.tensor(10 + comm.rank), comm))]
        [0, 10, 21]
    """
    check_tensor("exscan", x)
    algorithm = pick("exscan", algorithm, ALGORITHMS, comm, x.nbytes)
    check_op("exscan", x, op, algorithm)
    if op == "mean":
        raise ValueError("exscan(op='mean'): before rank 0 there is no rank, and nothing has no mean; take the sum, divide it by the rank")
    with comm.collective("exscan", x, f"{op}, {algorithm}"):
        before, _ = ALGORITHMS[algorithm](packed(x).view(-1), comm, op)
        return before.view(x.shape)


def linear_scan(x: Tensor, comm: Communicator, op: Op = "sum") -> tuple[Tensor, Tensor]:
    """Each rank gets the combination so far from the rank before, adds its own, and hands it on."""
    before, upto = identity(op, x), x.clone()
    if comm.rank > 0:
        comm.recv(before, comm.rank - 1, tag="linear")
        COMBINE[op](upto, before)
    if comm.rank < comm.size - 1:
        comm.send(upto, comm.rank + 1, tag="linear")
    return before, upto


def recursive_doubling_scan(x: Tensor, comm: Communicator, op: Op = "sum") -> tuple[Tensor, Tensor]:
    """At each step a rank's combination reaches twice as far back, with that of the rank where it ended so far."""
    before, upto, arrived, distance = identity(op, x), x.clone(), torch.empty_like(x), 1
    while distance < comm.size:
        further = [comm.isend(upto, comm.rank + distance, tag=f"doubling {distance}")] if comm.rank + distance < comm.size else []
        if comm.rank >= distance:
            comm.recv(arrived, comm.rank - distance, tag=f"doubling {distance}")
        for message in further:
            message.wait()
        if comm.rank >= distance:
            COMBINE[op](before, arrived)
            COMBINE[op](upto, arrived)
        distance *= 2
    return before, upto


ALGORITHMS: dict[str, Callable[[Tensor, Communicator, Op], tuple[Tensor, Tensor]]] = {
    "linear": linear_scan,
    "recursive_doubling": recursive_doubling_scan,
}
"""The algorithms by name: from a flat ``x``, only read, to the combination of the ranks before this one, and of those up to it."""
