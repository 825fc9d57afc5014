"""What each broadcast costs. p ranks, n bytes, from rank 0; s segments (`partkit.cluster.segments`):

    broadcast             messages of the root    bytes of the root    time
    flat                  p - 1                   (p - 1) n            (p - 1) (alpha + n / beta)
    tree                  ceil(log2(p))           ceil(log2(p)) n      ceil(log2(p)) (alpha + n / beta)
    chain                 s                       n                    (p - 2 + s) (alpha + n / (s beta))
    scatter_all_gather    log2(p) + p - 1         2 (p - 1) / p n      (log2(p) + p - 1) alpha + 2 (p - 1) / p n / beta

The last row is for powers of two with chunks of one size; for the others the function below follows the ring step by step. Where s does
not divide n, the first n mod s segments have one element more, and it is the largest that fills the pipeline.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 4 and 6; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

import numpy as np

from partkit.cluster.cost import Cost, CostFunction, nothing
from partkit.cluster.costs.scatter import tree_scatter, tree_scatter_ends
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.cluster.segments import num_segments
from partkit.partition import block_sizes
from partkit.trees import binomial_children


def flat_broadcast(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """The root sends all of it to one rank after the other.

    Example:
        >>> flat_broadcast(10, 4, size=4)[:3]
        ((3, 0, 0, 0), (120, 0, 0, 0), 3)
    """
    nbytes, others = numel * itemsize, size - 1
    return Cost((others,) + (0,) * others, (others * nbytes,) + (0,) * others, others, others * link.seconds(nbytes))


def tree_broadcast(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """In each round every rank that has it sends it to one that has not.

    Example:
        >>> tree_broadcast(10, 4, size=6)[:3]
        ((3, 0, 1, 0, 1, 0), (120, 0, 40, 0, 40, 0), 3)
    """
    nbytes, rounds = numel * itemsize, (size - 1).bit_length()
    messages = tuple(len(binomial_children(rank, size)) for rank in range(size))
    return Cost(messages, tuple(count * nbytes for count in messages), rounds, rounds * link.seconds(nbytes))


def chain_broadcast(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Segments move from rank to rank, one behind the other; the first, which is the largest, fills the pipeline.

    Example:
        >>> chain_broadcast(1000, 4, size=4, link=Link(latency=1.0, bandwidth=1000.0))[:3]
        ((3, 3, 3, 0), (4000, 4000, 4000, 0), 5)
    """
    if size == 1:
        return nothing(size)
    segments, fill = num_segments(numel, itemsize, size - 2, link), size - 2
    largest = block_sizes(numel, segments)[0] * itemsize
    seconds = fill * link.seconds(largest) + segments * link.latency + numel * itemsize / link.bandwidth
    return Cost((segments,) * (size - 1) + (0,), (numel * itemsize,) * (size - 1) + (0,), fill + segments, seconds)


def scatter_all_gather_broadcast(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Chunks go down a tree, one to each rank; then they go round a ring until everyone has all.

    Example:
        >>> scatter_all_gather_broadcast(8, 1, size=4)[:3]
        ((5, 3, 4, 3), (12, 6, 8, 6), 5)
    """
    if size == 1:
        return nothing(size)
    chunks = [itemsize * n for n in block_sizes(numel, size)]
    down, ring = tree_scatter(numel, itemsize, size, link), size - 1
    messages = tuple(count + ring for count in down.messages)
    sent = tuple(nbytes + numel * itemsize - chunks[(rank + 1) % size] for rank, nbytes in enumerate(down.bytes_sent))
    return Cost(messages, sent, down.steps + ring, _ring_end(tree_scatter_ends(chunks, link), [link.seconds(chunk) for chunk in chunks]))


def _ring_end(ready: list[float], seconds: list[float]) -> float:
    """When chunks have gone round the ring: rank r comes at ``ready[r]`` with the chunk that takes ``seconds[r]``."""
    free, on_the_way = np.array(ready), np.array(seconds)
    for _ in range(len(ready) - 1):
        end = np.maximum(free, np.roll(free, -1)) + on_the_way  # of the message from r to r + 1, which begins when both are there
        free, on_the_way = np.maximum(end, np.roll(end, 1)), np.roll(on_the_way, 1)  # next, r sends what has come to it
    return float(free.max())


BROADCAST: dict[str, CostFunction] = {
    "flat": flat_broadcast,
    "tree": tree_broadcast,
    "chain": chain_broadcast,
    "scatter_all_gather": scatter_all_gather_broadcast,
}
"""The cost of each explicit broadcast, by the name of its algorithm."""
