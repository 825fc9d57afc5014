"""torch.distributed's own collectives, beside ours: ``algorithm="native"``.

gloo ends processes whose shapes differ. So before each native call the ranks meet in a dissemination barrier: its messages
carry the signature of the call, so a rank that called something else stops all others there, where they can be told why, and
the native operation never starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from partkit.collectives.barrier import dissemination_barrier
from partkit.collectives.blocks import Blocks
from partkit.collectives.reducing import Op
from partkit.communicator import Communicator
from partkit.transport.base import check_numbers

c10d: Any = dist  # its stubs lack what is used here
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
    _group(comm, x).allreduce([result], options).wait()
    return result


def native_broadcast(x: Tensor, comm: Communicator) -> None:
    """As torch.distributed does it; bytes travel, since gloo does not know all dtypes. In place."""
    group, order = _rooted(comm, x)
    options = c10d.BroadcastOptions()
    options.rootRank, options.rootTensor = order.index(0), 0
    if x.numel():
        group.broadcast([_as_bytes(x)], options).wait()


def native_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> None:
    """As torch.distributed does it. In place, the result on rank 0; what the others hold afterwards is undefined."""
    group, order = _rooted(comm, x)
    options = c10d.ReduceOptions()
    options.reduceOp, options.rootRank, options.rootTensor = REDUCE_OPS[op], order.index(0), 0
    if x.numel():
        group.reduce([x], options).wait()


def native_scatter(whole: Tensor, sizes: Sequence[int], comm: Communicator) -> Tensor:
    """As torch.distributed does it. Its blocks are all of one size, so each travels in as many bytes as the largest."""
    group, order = _rooted(comm, whole)
    options = c10d.ScatterOptions()
    options.rootRank = order.index(0)
    arrived, blocks = whole.new_empty(max(sizes)), Blocks(whole, sizes) if comm.rank == 0 else ()
    if max(sizes):
        outgoing = [[_padded(blocks[place], max(sizes)) for place in order]] if blocks else []
        group.scatter([_as_bytes(arrived)], outgoing, options).wait()
    return arrived[: sizes[comm.rank]].clone()


def native_gather(block: Tensor, sizes: Sequence[int], comm: Communicator) -> Tensor:
    """As torch.distributed does it. Its blocks are all of one size, so each travels in as many bytes as the largest."""
    group, order = _rooted(comm, block)
    options = c10d.GatherOptions()
    options.rootRank = order.index(0)
    arrived = {place: block.new_empty(max(sizes)) for place in order if comm.rank == 0}
    incoming = [[_as_bytes(part) for part in arrived.values()]] if arrived else []
    if max(sizes):
        group.gather(incoming, [_padded(block, max(sizes))], options).wait()
    return torch.cat([arrived[place][:size] for place, size in enumerate(sizes)]) if arrived else block


def native_extents(extent: int, comm: Communicator, device: torch.device) -> tuple[int, ...]:
    """Every rank's number, on every rank."""
    mine = torch.tensor([extent], device=device)
    extents = [torch.empty_like(mine) for _ in range(comm.size)]
    _group(comm, mine).allgather([extents], [mine]).wait()
    return tuple(int(number) for number in extents)


def _rooted(comm: Communicator, x: Tensor) -> tuple[Any, list[int]]:
    """The ranks' process group, the same whoever of them is the root; and the place in ``comm`` of each of its ranks."""
    order = sorted(range(comm.size), key=comm.ranks.__getitem__)
    return _group(comm.subgroup(order, name=comm.name), x), order


def _padded(block: Tensor, numel: int) -> Tensor:
    """A flat block as bytes, so many that they hold ``numel`` elements."""
    whole = block if block.numel() == numel else block.new_empty(numel)
    whole[: block.numel()] = block
    return _as_bytes(whole)


def native_all_gather(whole: Blocks, comm: Communicator) -> None:
    """gloo wants equal blocks: unequal ones are filled up to the largest, and cut again. In place."""
    largest = max(block.numel() for block in whole)
    equal = len(whole.flat) == comm.size * largest
    mine = whole.flat.new_zeros(largest)
    mine[: whole[comm.rank].numel()] = whole[comm.rank]
    gathered = whole.flat if equal else whole.flat.new_empty(comm.size * largest)
    group = _group(comm, whole.flat)
    if largest:
        group._allgather_base(_as_bytes(gathered), _as_bytes(mine)).wait()
    if not equal:
        for block, arrived in zip(whole, torch.split(gathered, largest), strict=True):
            block.copy_(arrived[: block.numel()])


def native_reduce_scatter(blocks: Blocks, comm: Communicator, op: Op = "sum") -> Tensor:
    """gloo wants equal blocks: unequal ones are filled up to the largest, and cut again."""
    largest = max(block.numel() for block in blocks)
    equal = len(blocks.flat) == comm.size * largest
    filled = blocks.flat if equal else blocks.flat.new_zeros(comm.size * largest)
    for place, block in enumerate(() if equal else blocks):
        filled[place * largest : place * largest + block.numel()] = block
    options = dist.ReduceScatterOptions()
    options.reduceOp = REDUCE_OPS[op]
    result, group = filled.new_empty(largest), _group(comm, filled)
    if largest:
        group._reduce_scatter_base(result, filled, options).wait()
    return result[: blocks[comm.rank].numel()]


def native_all_to_all(blocks: Blocks, received: Blocks, comm: Communicator) -> None:
    """Block j goes to rank j. ``received`` is filled."""
    itemsize = blocks.flat.element_size()
    sent, came = ([block.numel() * itemsize for block in side] for side in (blocks, received))
    group = _group(comm, blocks.flat)
    group.alltoall_base(_as_bytes(received.flat), _as_bytes(blocks.flat), came, sent, dist.AllToAllOptions()).wait()


def _as_bytes(x: Tensor) -> Tensor:
    """The same memory as bytes: gloo moves those of every dtype. Flat; of one element torch may say any stride, and then refuse this view."""
    return x.as_strided(x.shape, (1,)).view(torch.uint8)


def _group(comm: Communicator, x: Tensor) -> Any:
    """The ranks' process group, once all have made the same call, on tensors of which there are numbers."""
    check_numbers(x)
    dissemination_barrier(comm, "same call?")
    return comm.native_group()
