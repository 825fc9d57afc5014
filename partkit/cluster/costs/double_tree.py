"""What an all-reduce over two trees costs, and in how many segments it should travel. p ranks, n bytes on each.

Up the trees and down again takes 2 (f + 2 s - 1) steps: f until the last edge has something to do, `partkit.double_tree.fill`,
and two steps for each of the s segments of a tree, each n / (2 s) long:

    double_tree    2 (f - 1 + 2 s) (alpha + n / (2 s beta))

For long tensors that comes near 2 n / beta, the ring's time; with f about 2 log2(p) it needs far fewer latencies than the ring.
The best number of segments in all, 2 s, is that of a chain with f - 1 steps to fill it (`partkit.cluster.segments`).

Reference: Sanders, Speck and Träff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", section 3.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from partkit.cluster.cost import Cost, nothing
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.cluster.segments import num_segments
from partkit.double_tree import fill, hops
from partkit.partition import block_sizes

MOST_SEGMENTS = 256
"""Of a tree. More would save little: filling the trees, f steps of 512 and more, is then a few percent of the time."""


def segments_of_tree(numel: int, itemsize: int, size: int, link: Link) -> int:
    """How many segments travel through each of the two trees. Algorithm and cost both ask here.

    Example:
        >>> segments_of_tree(1_000_000, 4, size=8, link=Link(latency=1e-4, bandwidth=1e9))
        6
    """
    both = num_segments(numel, itemsize, fill(size) - 1, link)
    return min((both + 1) // 2, MOST_SEGMENTS)


def double_tree_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Half of the tensor goes up one tree, half up the other, in segments; then all goes down again.

    Example:
        >>> double_tree_all_reduce(8, 1, size=3, link=Link(latency=1.0, bandwidth=1.0))[:3]
        ((6, 4, 6), (12, 8, 12), 10)
    """
    return _walked(numel, itemsize, size, segments_of_tree(numel, itemsize, size, link), link)


@lru_cache(maxsize=1024)
def _walked(numel: int, itemsize: int, size: int, segments: int, link: Link) -> Cost:
    """The steps of `partkit.double_tree.messages`, each as rows of an array."""
    if size == 1:
        return nothing(size)
    nbytes = itemsize * np.array(block_sizes(numel, 2 * segments))
    parent, child, tree, start = np.array(hops(size)).T
    down = []
    for step in range(fill(size) + 2 * segments - 1):
        number, waits = np.divmod(step - start, 2)
        at = (waits == 0) & (number >= 0) & (number < segments)
        down.append(np.stack([parent[at], child[at], nbytes[tree[at] * segments + number[at]]], axis=1))
    up = [step[:, [1, 0, 2]] for step in reversed(down)]
    return Cost.of_rounds([*up, *down], size, link)
