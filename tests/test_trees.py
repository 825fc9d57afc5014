"""The binomial tree: one tree over all ranks, subtrees without gaps, and ceil(log2 p) rounds from the root to everyone."""

from __future__ import annotations

import re
from math import ceil, log2

from partkit import trees
from partkit.trees import binomial_children, binomial_parent, binomial_span

SIZES = range(1, 40)


def test_children_have_their_parent_and_every_rank_has_one() -> None:
    for size in SIZES:
        below = [(parent, child) for parent in range(size) for child in binomial_children(parent, size)]
        assert sorted(child for _, child in below) == list(range(1, size))
        assert all(binomial_parent(child) == parent for parent, child in below)


def test_a_subtree_is_one_range_of_ranks() -> None:
    def subtree(rank: int, size: int) -> set[int]:
        return {rank}.union(*(subtree(child, size) for child in binomial_children(rank, size)))

    assert all(subtree(rank, size) == set(range(rank, rank + binomial_span(rank, size))) for size in SIZES for rank in range(size))


def test_everyone_is_reached_in_as_few_rounds_as_can_be() -> None:
    """Each rank sends to one child in a round, the farthest first; nobody can do better than double those who know."""
    for size in SIZES:
        known = {0: 0}
        for rank in range(size):
            for number, child in enumerate(reversed(binomial_children(rank, size)), start=1):
                known[child] = known[rank] + number
        assert max(known.values()) == ceil(log2(size))


def test_the_table_in_the_documentation_is_the_tree() -> None:
    rows = re.findall(r" (\d) +(-|\d) +((?:\d )+) +(\d) (?:\.\.\. )?(\d)$", trees.__doc__ or "", re.MULTILINE)
    assert [row[0] for row in rows] == ["0", "2", "4"]
    for rank, parent, children, first, last in rows:
        assert binomial_children(int(rank), 6) == tuple(map(int, children.split()))
        assert (int(first), int(last)) == (int(rank), int(rank) + binomial_span(int(rank), 6) - 1)
        assert parent == "-" or binomial_parent(int(rank)) == int(parent)
