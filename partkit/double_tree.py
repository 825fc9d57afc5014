"""Two trees over the same ranks that together use every rank's link fully, in both directions.

In one binary tree the leaves, half of the ranks, never send anything on: half of the links lie idle. So there are two trees,
each for one half of the tensor, in which the ranks have changed places; who is a leaf in one has children in the other. Both
are search trees over places in a row, below a root with one child; in the second tree everyone stands one place further on:

    p = 6, first tree                  second tree
        place = rank                       place = rank - 1
        0 -- 4 --+-- 2 --+-- 1             1 -- 5 --+-- 3 --+-- 2
                 |       +-- 3                      |       +-- 4
                 +-- 5                              +-- 0

Odd places are leaves, so nobody has more than two children in both trees together, and nobody more than two parents. Hence the
edges can be given two colours so that the edges from a rank to its children differ, and so do those to a rank from its parents:
each edge shares its sender with at most one other and its receiver with at most one other, so edges that must differ form
chains, which are coloured by turns. Edges of colour 0 work in even steps and those of colour 1 in odd steps: in any step a rank
sends at most one segment and receives at most one. A segment waits at a rank for one step, or for two:

    hop.start     step in which the tree's first segment passes; segment i follows in step start + 2 i

That is the way down, a broadcast. Backwards, each message turned round, it is the way up, a reduction.

Reference: Sanders, Speck and Träff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35, sections 2 and 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple


class Hop(NamedTuple):
    """An edge of one of the two trees, and when it is used on the way down."""

    parent: int
    child: int
    tree: int
    """0 or 1."""
    start: int
    """The step, from 0, in which the first segment of the tree passes."""


class Message(NamedTuple):
    """One segment on one edge."""

    src: int
    dst: int
    segment: int
    """Of all segments: those of tree 0 come first."""


@lru_cache(maxsize=64)
def hops(size: int) -> tuple[Hop, ...]:
    """The edges of both trees over ``size`` ranks, in each tree from the root down.

    Example:
        >>> hops(3)
        (Hop(parent=0, child=2, tree=0, start=0), Hop(parent=2, child=1, tree=0, start=2), \
Hop(parent=1, child=0, tree=1, start=0), Hop(parent=0, child=2, tree=1, start=1))
    """
    edges = [((parent + tree) % size, (child + tree) % size, tree) for tree in (0, 1) for parent, child in search_tree(size)]
    colours, came, found = _colours(edges), {(tree, tree % size): -1 for tree in (0, 1)}, []
    for edge in edges:
        parent, child, tree = edge
        earliest = came[tree, parent] + 1
        start = came[tree, child] = earliest + (earliest + colours[edge]) % 2
        found.append(Hop(parent, child, tree, start))
    return tuple(found)


def search_tree(size: int) -> list[tuple[int, int]]:
    """The edges (parent, child) of a search tree over the places 1, 2, ..., below place 0; parents first. Odd places are leaves.

    Example:
        >>> search_tree(6)
        [(0, 4), (4, 2), (2, 1), (2, 3), (4, 5)]
    """

    def below(parent: int, first: int, last: int) -> list[tuple[int, int]]:
        if first > last:
            return []
        child = first - 1 + (1 << ((last - first + 1).bit_length() - 1))
        return [(parent, child), *below(child, first, child - 1), *below(child, child + 1, last)]

    return below(0, 1, size - 1)


def messages(size: int, segments: int, rank: int | None = None) -> list[list[Message]]:
    """The messages of each step on the way down, of all ranks or of one.

    Args:
        size: number of ranks.
        segments: of each tree.
        rank: the one whose messages are wanted, at most one received and one sent in a step; None for all.

    Example:
        >>> messages(3, segments=1, rank=0)
        [[Message(src=0, dst=2, segment=0), Message(src=1, dst=0, segment=1)], [Message(src=0, dst=2, segment=1)]]
    """
    steps: defaultdict[int, list[Message]] = defaultdict(list)
    for parent, child, tree, start in hops(size):
        if rank in (None, parent, child):
            for i in range(segments):
                steps[start + 2 * i].append(Message(parent, child, tree * segments + i))
    return [steps[step] for step in sorted(steps)]


def backwards(down: Sequence[Sequence[Message]]) -> list[list[Message]]:
    """The way up: the way down from its end, each message turned round.

    Example:
        >>> backwards([[Message(0, 1, segment=0)], [Message(0, 2, segment=0)]])
        [[Message(src=2, dst=0, segment=0)], [Message(src=1, dst=0, segment=0)]]
    """
    return [[Message(dst, src, segment) for src, dst, segment in step] for step in reversed(down)]


def fill(size: int) -> int:
    """The start of the last hop: how many steps pass before every edge has something to do.

    Example:
        >>> [fill(size) for size in (2, 3, 6, 16)]
        [0, 2, 4, 6]
    """
    return max((hop.start for hop in hops(size)), default=0)


def _colours(edges: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int, int], int]:
    """0 or 1 for each edge, different for edges with the same parent, and for edges with the same child."""
    at: defaultdict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    for edge in edges:
        at["from", edge[0]].append(edge)
        at["to", edge[1]].append(edge)
    colours: dict[tuple[int, int, int], int] = {}
    for first in (edge for both in list(at.values()) for edge in both):
        chain = [] if first in colours else [(first, 0)]
        while chain:
            edge, colour = chain.pop()
            if edge not in colours:
                colours[edge] = colour
                chain += [(other, 1 - colour) for other in at["from", edge[0]] + at["to", edge[1]] if other != edge]
    return colours
