"""What each all-reduce costs. p ranks, n bytes on each; q ranks in a node; f and s: `partkit.cluster.costs.double_tree`:

    all_reduce             messages per rank    bytes per rank       time
    naive                  p - 1                (p - 1) n            (p - 1) (alpha + n / beta)
    reduce_broadcast       log2(p)              log2(p) n            2 log2(p) (alpha + n / beta)
    ring                   2 (p - 1)            2 (p - 1) / p n      2 (p - 1) (alpha + n / (p beta))
    recursive_doubling     log2(p)              log2(p) n            log2(p) (alpha + n / beta)
    halving_doubling       2 log2(p)            2 (p - 1) / p n      2 log2(p) alpha + 2 (p - 1) / p n / beta
    hierarchical           2 (q + p / q - 2)    2 (p - 1) / p n      2 (q + p / q - 2) alpha + 2 (p - 1) / p n / beta
    double_tree            up to 4 s            up to 2 n            2 (f - 1 + 2 s) (alpha + n / (2 s beta))

The rows are for powers of two that divide n; naive and ring hold for all numbers of ranks, with the largest chunk in place of
n / p. Of reduce_broadcast it is rank 0 that is counted. The functions are for all numbers of ranks and elements.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 3-7; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", sections 3 and 4.
"""

from __future__ import annotations

from math import isqrt

from partkit.butterfly import teams
from partkit.cluster.cost import Cost, CostFunction, nothing
from partkit.cluster.costs.double_tree import double_tree_all_reduce
from partkit.cluster.costs.rounds import all_gather_ring, doubling, firsts, fold, halving, reduce_scatter_ring, side_by_side, unfold
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.partition import block_sizes
from partkit.trees import binomial_children


def naive_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Everyone sends all it has to everyone.

    Example:
        >>> naive_all_reduce(10, 4, size=4).bytes_sent
        (120, 120, 120, 120)
    """
    if size == 1:
        return nothing(size)
    nbytes = numel * itemsize
    return Cost((size - 1,) * size, ((size - 1) * nbytes,) * size, size - 1, (size - 1) * link.seconds(nbytes))


def reduce_broadcast_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Up the binomial tree and down again: each rank sends once up, and once down to each of its children.

    Example:
        >>> reduce_broadcast_all_reduce(10, 4, size=6)[:3]
        ((3, 1, 2, 1, 2, 1), (120, 40, 80, 40, 80, 40), 6)
    """
    nbytes, steps = numel * itemsize, 2 * (size - 1).bit_length()
    messages = tuple(len(binomial_children(rank, size)) + (rank > 0) for rank in range(size))
    return Cost(messages, tuple(count * nbytes for count in messages), steps, steps * link.seconds(nbytes))


def ring_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Chunks go round the ring twice: summed on the first round, copied on the second.

    Rank r sends every chunk but its own (r) on the first round, every chunk but (r + 1) on the second. The largest chunk is
    on the way in every step, so it alone sets the time.

    Example:
        >>> ring_all_reduce(10, 4, size=4)[:3]
        ((6, 6, 6, 6), (56, 60, 64, 60), 6)
    """
    if size == 1:
        return nothing(size)
    chunks = [itemsize * n for n in block_sizes(numel, size)]
    sent = tuple(2 * sum(chunks) - chunks[r] - chunks[(r + 1) % size] for r in range(size))
    steps = 2 * (size - 1)
    return Cost((steps,) * size, sent, steps, steps * link.seconds(max(chunks)))


def recursive_doubling_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """log2 exchanges of everything among the first ranks of all teams; with teams of two one step before and one after.

    Example:
        >>> recursive_doubling_all_reduce(10, 4, size=6)[:3]
        ((3, 1, 3, 1, 2, 2), (120, 40, 120, 40, 80, 80), 4)
    """
    nbytes, every = numel * itemsize, teams(size)
    exchanges = len(every).bit_length() - 1
    messages = tuple(count for team in every for count in ([exchanges] if len(team) == 1 else [exchanges + 1, 1]))
    steps = exchanges + 2 * (len(every) < size)
    return Cost(messages, tuple(count * nbytes for count in messages), steps, steps * link.seconds(nbytes))


def halving_doubling_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Chunks, as many as there are teams, go through the butterfly backwards and then forwards.

    Example:
        >>> halving_doubling_all_reduce(8, 1, size=4)[:3]
        ((4, 4, 4, 4), (12, 12, 12, 12), 4)
    """
    all_of_it, ranks = [numel * itemsize] * size, firsts(size)
    chunks = [itemsize * n for n in block_sizes(numel, len(ranks))]
    rounds = [*fold(all_of_it, size), *halving(chunks, ranks), *doubling(chunks, ranks), *unfold(all_of_it, size)]
    return Cost.of_rounds(rounds, size, link)


def ranks_per_node_by_default(size: int) -> int:
    """The largest divisor of ``size`` that is not above its square root.

    Example:
        >>> [ranks_per_node_by_default(size) for size in (1, 4, 6, 7, 12, 16)]
        [1, 2, 2, 1, 3, 4]
    """
    return next(q for q in range(isqrt(size), 0, -1) if size % q == 0)


def hierarchical_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Two levels over equal links, with `ranks_per_node_by_default`.

    Example:
        >>> hierarchical_all_reduce(8, 1, size=4)[:3]
        ((4, 4, 4, 4), (12, 12, 12, 12), 4)
    """
    return two_level_all_reduce(numel, itemsize, size, ranks_per_node_by_default(size), link, link)


def two_level_all_reduce(numel: int, itemsize: int, size: int, ranks_per_node: int, inside: Link, between: Link) -> Cost:
    """Reduce-scatter in each node, all-reduce of each chunk over the nodes, all-gather in each node.

    Args:
        numel: elements of the tensor that each rank passes in.
        itemsize: bytes of an element.
        size: number of ranks.
        ranks_per_node: divides ``size``; neighbours are in one node.
        inside: the link between two ranks of one node.
        between: the link between two ranks of different nodes.

    Example:
        >>> fast, slow = Link(latency=1e-6, bandwidth=1e11), Link(latency=1e-5, bandwidth=1e9)
        >>> two_level = two_level_all_reduce(1_000_000, 4, 8, 4, inside=fast, between=slow)
        >>> ring_all_reduce(1_000_000, 4, 8, slow).seconds / two_level.seconds > 5
        True
    """
    nodes = [range(first, first + ranks_per_node) for first in range(0, size, ranks_per_node)]
    chunks = block_sizes(numel, ranks_per_node)
    chunk_bytes = [itemsize * n for n in chunks]
    across = [(range(place, size, ranks_per_node), [itemsize * n for n in block_sizes(chunk, len(nodes))]) for place, chunk in enumerate(chunks)]
    rounds = [
        *side_by_side([reduce_scatter_ring(chunk_bytes, node) for node in nodes]),
        *side_by_side([reduce_scatter_ring(pieces, ranks) + all_gather_ring(pieces, ranks) for ranks, pieces in across]),
        *side_by_side([all_gather_ring(chunk_bytes, node) for node in nodes]),
    ]
    if inside == between:
        return Cost.of_rounds(rounds, size, inside)
    return Cost.of_rounds(rounds, size, lambda src, dst: inside if src // ranks_per_node == dst // ranks_per_node else between)


ALL_REDUCE: dict[str, CostFunction] = {
    "naive": naive_all_reduce,
    "reduce_broadcast": reduce_broadcast_all_reduce,
    "ring": ring_all_reduce,
    "recursive_doubling": recursive_doubling_all_reduce,
    "halving_doubling": halving_doubling_all_reduce,
    "hierarchical": hierarchical_all_reduce,
    "double_tree": double_tree_all_reduce,
}
"""The cost of each explicit all-reduce, by the name of its algorithm."""
