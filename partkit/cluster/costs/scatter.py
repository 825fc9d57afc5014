"""What each scatter costs. p ranks, n bytes on rank 0, one block of about n / p for each:

    scatter    messages of the root    bytes of the root    time
    flat       p - 1                   (p - 1) / p n        (p - 1) alpha + (p - 1) / p n / beta
    tree       ceil(log2(p))           (p - 1) / p n        ceil(log2(p)) alpha + (p - 1) / p n / beta

where (p - 1) / p n stands for all blocks but the root's own if p does not divide n. The tree pays with work of the ranks in
between: about n / 2 bytes travel in each of its rounds. Empty blocks are sent too.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
section 4; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from partkit.cluster.cost import Cost, CostFunction
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.partition import block_sizes
from partkit.trees import binomial_children, binomial_span


def flat_scatter(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """The root sends each rank its block, one after the other.

    Example:
        >>> flat_scatter(10, 4, size=4)[:3]
        ((3, 0, 0, 0), (28, 0, 0, 0), 3)
    """
    others, sent = size - 1, itemsize * sum(block_sizes(numel, size)[1:])
    return Cost((others,) + (0,) * others, (sent,) + (0,) * others, others, others * link.latency + sent / link.bandwidth)


def tree_scatter(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every rank hands on the blocks of the ranks below it. The root has most to send, and sends it without a pause.

    Example:
        >>> tree_scatter(10, 4, size=4)[:3]
        ((2, 0, 1, 0), (28, 0, 8, 0), 2)
    """
    blocks, rounds = [itemsize * n for n in block_sizes(numel, size)], (size - 1).bit_length()
    messages = tuple(len(binomial_children(rank, size)) for rank in range(size))
    sent = tuple(sum(blocks[rank + 1 : rank + binomial_span(rank, size)]) for rank in range(size))
    return Cost(messages, sent, rounds, rounds * link.latency + sent[0] / link.bandwidth)


def tree_scatter_ends(blocks: Sequence[int], link: Link) -> list[float]:
    """When each rank has received and handed on what it has to, in a scatter along the tree.

    Args:
        blocks: bytes of each rank's block.
        link: between any two ranks.

    Example:
        >>> tree_scatter_ends([4, 4, 4, 4, 4], Link(latency=1.0, bandwidth=4.0))
        [7.0, 7.0, 7.0, 7.0, 2.0]
    """
    size, ends = len(blocks), [0.0] * len(blocks)
    for rank in range(size):
        for child in reversed(binomial_children(rank, size)):
            ends[rank] += link.seconds(sum(blocks[child : child + binomial_span(child, size)]))
            ends[child] = ends[rank]
    return ends


SCATTER: dict[str, CostFunction] = {"flat": flat_scatter, "tree": tree_scatter}
"""The cost of each explicit scatter, by the name of its algorithm."""
