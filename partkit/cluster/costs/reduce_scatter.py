"""What each reduce-scatter costs. p ranks, n bytes on each:

    reduce_scatter       messages per rank    bytes per rank    time
    ring                 p - 1                (p - 1) / p n     (p - 1) (alpha + n / (p beta))
    recursive_halving    log2(p)              (p - 1) / p n     log2(p) alpha + (p - 1) / p n / beta

where n / p stands for the largest block if p does not divide n, and (p - 1) / p n for all blocks but the rank's own. Recursive
halving is for powers of two; otherwise the second rank of each team of two sends all it has first, and gets its block in the end.
Where rows of several elements are cut, a row counts as one element: ``numel`` rows of ``itemsize`` bytes.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 4 and 5; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.3.
"""

from __future__ import annotations

from partkit.butterfly import teams
from partkit.cluster.cost import Cost, CostFunction
from partkit.cluster.costs.rounds import firsts, fold, halving, unfold
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.partition import block_sizes


def ring_reduce_scatter(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every block is passed round the ring to its owner. The largest is on the way in every step, so it alone sets the time.

    Example:
        >>> ring_reduce_scatter(10, 4, size=4)[:3]
        ((3, 3, 3, 3), (28, 28, 32, 32), 3)
    """
    blocks, steps = [itemsize * n for n in block_sizes(numel, size)], size - 1
    sent = tuple(sum(blocks) - block for block in blocks)
    return Cost((steps,) * size, sent, steps, steps * link.seconds(max(blocks)))


def recursive_halving_reduce_scatter(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """The butterfly backwards among the first ranks of all teams, before it one step and after it one for teams of two.

    Example:
        >>> recursive_halving_reduce_scatter(8, 1, size=4)[:3]
        ((2, 2, 2, 2), (6, 6, 6, 6), 2)
        >>> recursive_halving_reduce_scatter(6, 1, size=3)[:3]
        ((2, 1, 1), (4, 6, 4), 3)
    """
    blocks = [itemsize * n for n in block_sizes(numel, size)]
    of_teams = [sum(blocks[rank] for rank in team) for team in teams(size)]
    rounds = [*fold([sum(blocks)] * size, size), *halving(of_teams, firsts(size)), *unfold(blocks, size)]
    return Cost.of_rounds(rounds, size, link)


REDUCE_SCATTER: dict[str, CostFunction] = {"ring": ring_reduce_scatter, "recursive_halving": recursive_halving_reduce_scatter}
"""The cost of each explicit reduce-scatter, by the name of its algorithm."""
