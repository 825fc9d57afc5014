"""All-reduce: every rank ends with the combination, the sum for example, of all ranks' tensors.

From the obvious way to those that are used. p ranks, n bytes on each; a message of k bytes takes alpha + k / beta:

    algorithm              messages per rank    bytes per rank       time
    naive                  p - 1                (p - 1) n            (p - 1) (alpha + n / beta)
    reduce_broadcast       log2(p)              log2(p) n            2 log2(p) (alpha + n / beta)
    ring                   2 (p - 1)            2 (p - 1) / p n      2 (p - 1) (alpha + n / (p beta))
    recursive_doubling     log2(p)              log2(p) n            log2(p) (alpha + n / beta)
    halving_doubling       2 log2(p)            2 (p - 1) / p n      2 log2(p) alpha + 2 (p - 1) / p n / beta
    hierarchical           2 (q + p / q - 2)    2 (p - 1) / p n      2 (q + p / q - 2) alpha + 2 (p - 1) / p n / beta
    double_tree            up to 4 s            up to 2 n            2 (f - 1 + 2 s) (alpha + n / (2 s beta))
    native                 as torch.distributed does it: gloo, or NCCL on GPUs

The rows are for powers of two that divide n, and q ranks in a node; reduce_broadcast counts rank 0, which sends most. f and s of
the last row: `partkit.double_tree`. For every number of ranks and of bytes: `partkit.cluster.COSTS["all_reduce"]`, to the byte.

No algorithm can move less than 2 (p - 1) / p n bytes per rank, nor end in less than log2(p) latencies. Recursive doubling has the
fewest latencies, for small tensors; the ring, halving and doubling, and the two trees share the work evenly, for large ones.

The ring, for p = 3. The tensor is cut in p chunks. On the first round a chunk collects one more rank's share at each step;
on the second the finished chunks are handed on:

    step     rank 0            rank 1            rank 2
     1       sends c2          sends c0          sends c1           reduce-scatter: rank r sends c_(r - step) to r + 1
             adds to c1        adds to c2        adds to c0         and adds its own share to c_(r - step - 1), which comes in
     2       sends c1          sends c2          sends c0
             adds to c0: done  adds to c1: done  adds to c2: done   rank r now owns the finished c_r
    3, 4     sends c0, c2      sends c1, c0      sends c2, c1       all-gather: the same ring, nothing added any more

The others in a few words: **reduce_broadcast**: up a binomial tree to rank 0, and down again. **recursive_doubling**: exchange
all there is with partners 1, 2, 4, ... away. **halving_doubling** (Rabenseifner): the same with halves, quarters, ... and then
backwards. **hierarchical**: in a node, reduce-scatter; then each chunk is all-reduced by the ranks that own it in each node; then
all-gather in the node. Only n / q bytes of each rank travel between nodes, where links are slow. **double_tree**: two trees, each
for half of the tensor, in segments. Pictures: `partkit.trees`, `partkit.butterfly`, `partkit.double_tree`.

Which dtypes can be combined how: `partkit.collectives.reducing`.

References: Patarasu and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"; Thakur,
Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", section 4; Rabenseifner 2004,
"Optimization of collective reduction operations"; Sanders, Speck and Träff 2009, "Two-tree algorithms for full bandwidth
broadcast, reduction and scan".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from partkit.cluster.costs.all_reduce import ranks_per_node_by_default
from partkit.cluster.costs.double_tree import segments_of_tree
from partkit.collectives.all_gather import ring_all_gather
from partkit.collectives.blocks import Blocks, front
from partkit.collectives.broadcast import tree_broadcast
from partkit.collectives.calling import check_tensor, pick
from partkit.collectives.halving_doubling import Team, double, fold, halve, unfold
from partkit.collectives.native import native_all_reduce
from partkit.collectives.reduce import tree_reduce
from partkit.collectives.reduce_scatter import ring_reduce_scatter
from partkit.collectives.reducing import COMBINE, Op, check_op
from partkit.communicator import Communicator, Exchange
from partkit.double_tree import backwards, messages
from partkit.partition import block_sizes


def all_reduce(x: Tensor, comm: Communicator, op: Op = "sum", algorithm: str = "auto", ranks_per_node: int | None = None) -> Tensor:
    """Combine the ranks' tensors; every rank gets the whole result.

    Args:
        x: any shape, dtype and layout, the same shape and dtype on each rank of ``comm``. Not modified.
        comm: the ranks that take part.
        op: "sum", "mean" (the sum divided by the number of ranks), "product", "min" or "max".
        algorithm: "naive", "reduce_broadcast", "ring", "recursive_doubling", "halving_doubling", "hierarchical", "double_tree",
            "native" (torch.distributed's own), or "auto".
        ranks_per_node: of "hierarchical": so many neighbouring ranks are a node; must divide the number of ranks. By default
            the last axis of the world's mesh, if ``comm`` is a world with a mesh; else, and if "auto" has chosen, the largest
            divisor not above the square root of the number of ranks, which is what the closed form reckons with.

    Returns:
        A new, contiguous tensor of the shape of ``x``. The explicit algorithms give the same bits on every rank.

    Raises:
        TypeError: ``x`` is no tensor.
        ValueError: ``op`` or ``algorithm`` is unknown, the dtype cannot be combined that way, or ``ranks_per_node`` does not fit.

    Example:
        >>> import partkit as pk
        >>> with pk.World(3) as world:
        ...     world.run(lambda comm: pk.all_reduce(torch.arange(4.0) * comm.rank, comm))[1]
        tensor([0., 3., 6., 9.])
    """
    check_tensor("all_reduce", x)
    if ranks_per_node is not None and algorithm != "hierarchical":
        raise ValueError(f"all_reduce(ranks_per_node={ranks_per_node!r}, algorithm={algorithm!r}): only algorithm='hierarchical' has nodes")
    if algorithm == "auto":
        ranks_per_node = ranks_per_node_by_default(comm.size)
    algorithm = pick("all_reduce", algorithm, ALGORITHMS, comm, x.nbytes)
    check_op("all_reduce", x, op, algorithm)
    run, detail = ALGORITHMS[algorithm], f"{op}, {algorithm}"
    if algorithm == "hierarchical":
        node = _check_node(ranks_per_node, comm)
        run, detail = partial(hierarchical_all_reduce, ranks_per_node=node), f"{detail} in nodes of {node}"
    with comm.collective("all_reduce", x, detail):
        flat = front(x, 0)
        total = run(flat, comm, op) if comm.size > 1 else flat.clone()
        result = total if x.dim() == 1 else total.view(x.shape)
        return result.div_(comm.size) if op == "mean" else result


def naive_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Everyone sends all of ``x`` to everyone, and adds up what comes in.

    In step s, rank r sends to r + s and receives from r - s: every rank sends one message and receives one. The parts are
    added in the order of ranks on every rank, so all ranks get the same bits.
    """
    parts, steps = [x if rank == comm.rank else torch.empty_like(x) for rank in range(comm.size)], []
    for step in range(1, comm.size):
        dst, src = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        steps.append(Exchange(x, dst, parts[src], src, tag=f"naive {step}"))
    comm.sendrecv_all(steps)
    total = parts[0].clone()
    for part in parts[1:]:
        COMBINE[op](total, part)
    return total


def reduce_broadcast_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Up a binomial tree to rank 0, which then sends the result down again: it alone adds, so all ranks get the same bits."""
    total = x.clone()
    tree_reduce(total, comm, op)
    tree_broadcast(total, comm)
    return total


def ring_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Pass chunks round the ring twice.

    Each chunk is added up by one chain of ranks, in one order, and then copied: all ranks get the same bits.
    """
    sizes, total = block_sizes(x.numel(), comm.size), torch.empty_like(x)
    sums = Blocks(total, sizes)
    ring_reduce_scatter(Blocks(x, sizes), sums, comm, op)
    ring_all_gather(sums, comm)
    return total


def recursive_doubling_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Exchange all there is with partners farther and farther away.

    Partners add what comes from the lower place first, so both get the same bits: with -0 and 0 it matters which comes first.
    """
    team = Team.of(comm)
    folded = fold(x, team, comm, op)
    if folded is None:
        return unfold(torch.empty_like(x), team, comm)
    total, inbox, far = folded.clone(), torch.empty_like(x), 1
    while far < len(team.all):
        peer = team.first(team.place ^ far)
        comm.sendrecv(total, peer, inbox, peer, tag=f"doubling {far}")
        total, inbox = (total, inbox) if comm.rank < peer else (inbox, total)
        COMBINE[op](total, inbox)
        far *= 2
    return unfold(total, team, comm)


def halving_doubling_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Reduce-scatter by halving, all-gather by doubling (Rabenseifner).

    Each chunk is finished on one rank and then copied: all ranks get the same bits.
    """
    team = Team.of(comm)
    total, folded = torch.empty_like(x), fold(x, team, comm, op)
    if folded is not None:
        sums = Blocks(total, block_sizes(x.numel(), len(team.all)))
        halve(sums.like(folded), sums, team, comm, op)
        double(sums, team, comm)
    return unfold(total, team, comm)


def hierarchical_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum", ranks_per_node: int = 1) -> Tensor:
    """Two levels, for links that are fast inside a node and slow between nodes.

    ranks 0-5, 3 in a node       [1] in the node      [2] between nodes     [3] in the node
        node 0:  0  1  2         reduce-scatter:      all-reduce of c_k     all-gather
        node 1:  3  4  5         rank k owns c_k      by 0-3, 1-4, 2-5
    """
    place, node = comm.rank % ranks_per_node, comm.rank // ranks_per_node
    inside = comm.subgroup(range(node * ranks_per_node, (node + 1) * ranks_per_node), name=f"node {node}")
    across = comm.subgroup(range(place, comm.size, ranks_per_node), name=f"place {place} of each node")
    sums = Blocks(torch.empty_like(x), block_sizes(x.numel(), ranks_per_node))
    ring_reduce_scatter(sums.like(x), sums, inside, op)
    sums[place].copy_(ring_all_reduce(sums[place], across, op))
    ring_all_gather(sums, inside)
    return sums.flat


def double_tree_all_reduce(x: Tensor, comm: Communicator, op: Op = "sum") -> Tensor:
    """Up two trees, and down again, in segments: `partkit.double_tree` says who sends what to whom in which step.

    Each segment is finished at the root of its tree and then copied: all ranks get the same bits.
    """
    segments = segments_of_tree(x.numel(), x.element_size(), comm.size, comm.cluster.link)
    total = Blocks(x.clone(), block_sizes(x.numel(), 2 * segments))
    down = messages(comm.size, segments, comm.rank)
    for way, steps, combine in (("up", backwards(down), COMBINE[op]), ("down", down, None)):
        for step in steps:
            under_way = [
                comm.irecv(total[segment], src, f"{way} {segment}", combine) if dst == comm.rank else comm.isend(total[segment], dst, f"{way} {segment}")
                for src, dst, segment in step
            ]
            for message in under_way:
                message.wait()
    return total.flat


def _check_node(ranks_per_node: int | None, comm: Communicator) -> int:
    """How many ranks are a node."""
    if ranks_per_node is None:
        on_mesh = comm.mesh is not None and comm.mesh.size == comm.size
        return list(comm.mesh.axes.values())[-1] if comm.mesh is not None and on_mesh else ranks_per_node_by_default(comm.size)
    if isinstance(ranks_per_node, bool) or not isinstance(ranks_per_node, int) or ranks_per_node < 1 or comm.size % ranks_per_node:
        raise ValueError(f"all_reduce(ranks_per_node={ranks_per_node!r}): nodes are of one size, so it must divide the number of ranks, {comm.size}")
    return ranks_per_node


ALGORITHMS: dict[str, Callable[[Tensor, Communicator, Op], Tensor]] = {
    "naive": naive_all_reduce,
    "reduce_broadcast": reduce_broadcast_all_reduce,
    "ring": ring_all_reduce,
    "recursive_doubling": recursive_doubling_all_reduce,
    "halving_doubling": halving_doubling_all_reduce,
    "hierarchical": hierarchical_all_reduce,
    "double_tree": double_tree_all_reduce,
    "native": native_all_reduce,
}
"""The algorithms by name: ``x`` is flat, one block of memory, only read; the result is new memory of the same size. Two ranks or more."""
