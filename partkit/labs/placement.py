"""Exercise: place the ranks of a ring so that the slow links between nodes are crossed as little as possible.

Eight ranks on two nodes, as a scheduler may have dealt them out: even ranks on node a, odd ranks on node b.

    ring                     crossings between nodes
    0 1 2 3 4 5 6 7          8      every message goes from one node to the other
    0 2 4 6 1 3 5 7          2      there and back: the least, with two nodes

A ring that visits k nodes has to leave each of them once, so it crosses k times at least, and not at all if there is one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import torch

from partkit.cluster import Cluster, Link, LinkMatrix
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.labs.verdict import Finding, Verdict
from partkit.worlds.simulated import SimulatedWorld

FAST, SLOW = Link(2e-6, 100e9), Link(20e-6, 5e9)
CASES = ("abababab", "aabbaabb", "abcabcabc", "aaaa", "abcd", "abbbbbba", "abacaba", "a")
"""The node of each rank, as a letter."""
NUMEL = 100_000
Place = Callable[[Sequence[str]], Sequence[int]]


def check_placement(learner: Place) -> Verdict:
    """Judge ``learner(nodes)``, which gives the order of ranks in a ring.

    Args:
        learner: gets the node of each rank, ``["a", "b", "a", "b"]``, and returns all ranks in the order of the ring.

    Returns:
        A verdict: every rank once, the fewest crossings; if solved, what a ring all-reduce gains on simulated ranks.

    Raises:
        TypeError: ``learner`` can't be called.

    Example:
        >>> from partkit.labs import check_placement
        >>> check_placement(lambda nodes: range(len(nodes)))
        ring over nodes: not yet
          look  nodes a b a b a b a b: the ring 0 1 2 3 4 5 6 7 crosses 8 times from node to node, 2 times are enough
    """
    if not callable(learner):
        raise TypeError(f"learner={learner!r}: give the function itself, my_function, not what it returns")
    for case in CASES:
        try:
            told = list(_wrong(list(case), learner(list(case))))
        except Exception as error:
            told = [f"your function raised {type(error).__name__}: {error}"]
        if told:
            return Verdict("ring over nodes", [Finding(False, f"nodes {' '.join(case)}: {text}") for text in told])
    before, after = (_makespan(CASES[0], order) for order in (range(len(CASES[0])), learner(list(CASES[0]))))
    facts = (
        f"every rank once and as few crossings as there are nodes, for {', '.join(CASES)}",
        f"a ring all-reduce of {4 * NUMEL:,} bytes on {CASES[0]} takes {before / after:.3g} times as long in the order of ranks as in yours",
    )
    return Verdict("ring over nodes", [Finding(True, text) for text in facts])


def _wrong(nodes: Sequence[str], order: Sequence[int]) -> Iterator[str]:
    ranks = list(order)
    if sorted(ranks) != list(range(len(nodes))):
        yield f"you return {ranks}; it must be each of the ranks 0 to {len(nodes) - 1} once"
        return
    crossings, fewest = count_crossings(nodes, ranks), len(set(nodes)) if len(set(nodes)) > 1 else 0
    if crossings > fewest:
        yield f"the ring {' '.join(map(str, ranks))} crosses {crossings} times from node to node, {fewest} times are enough"


def count_crossings(nodes: Sequence[str], order: Sequence[int]) -> int:
    """How often a ring goes from one node to another, its way back to the start included.

    Example:
        >>> count_crossings("abab", [0, 1, 2, 3]), count_crossings("abab", [0, 2, 1, 3]), count_crossings("aa", [0, 1])
        (4, 2, 0)
    """
    stays = [node for node, _ in groupby(nodes[rank] for rank in order)]
    return len(stays) - (len(stays) > 1 and stays[0] == stays[-1]) if len(set(stays)) > 1 else 0


def _makespan(nodes: Sequence[str], order: Sequence[int]) -> float:
    """Of a ring all-reduce in this order, in seconds."""
    links = LinkMatrix([[FAST if one == other else SLOW for other in nodes] for one in nodes])

    def reduce(comm: Communicator) -> None:
        all_reduce(torch.ones(NUMEL), comm.subgroup(list(order)), algorithm="ring")

    with SimulatedWorld(len(nodes), Cluster(topology=links)) as world:
        world.run(reduce)
        return world.trace.makespan
