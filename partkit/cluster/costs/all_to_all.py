"""What each all-to-all costs. p ranks, n bytes on each:

    all_to_all    messages per rank    bytes per rank       time
    pairwise      p - 1                (p - 1) / p n        (p - 1) (alpha + n / (p beta))
    bruck         ceil(log2(p))        log2(p) / 2 n        log2(p) (alpha + n / (2 beta))

where n / p stands for the largest block if p does not divide n, and (p - 1) / p n for all blocks but the rank's own; the last two
columns of bruck are for powers of two that divide n. Where rows of several elements are cut, a row counts as one element:
``numel`` rows of ``itemsize`` bytes. With sizes of the caller's own: `all_to_all_v`.

References: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.4; Bruck,
Ho, Kipnis, Upfal and Weathersby 1997, "Efficient algorithms for all-to-all communications in multiport message-passing systems".
"""

from __future__ import annotations

from collections.abc import Sequence

from partkit.cluster.cost import Cost, CostFunction
from partkit.cluster.costs.rounds import Rounds
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.partition import block_sizes


def pairwise_all_to_all(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every block goes straight to its rank. Whoever gets the largest blocks gets one in every step, which sets the time.

    Example:
        >>> pairwise_all_to_all(10, 4, size=4)[:3]
        ((3, 3, 3, 3), (28, 28, 32, 32), 3)
    """
    blocks, steps = [itemsize * n for n in block_sizes(numel, size)], size - 1
    return Cost((steps,) * size, tuple(sum(blocks) - block for block in blocks), steps, steps * link.seconds(max(blocks)))


def bruck_all_to_all(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """In step k every block whose number has bit k travels, so about half of them.

    A block's number is how far it had to go from the start; what is left of that, from here, says for whom it is.

    Example:
        >>> bruck_all_to_all(8, 1, size=4)[:3]
        ((2, 2, 2, 2), (8, 8, 8, 8), 2)
    """
    blocks, rounds = [itemsize * n for n in block_sizes(numel, size)], []
    for far in (2**k for k in range((size - 1).bit_length())):
        left = [i // far * far for i in range(size) if i & far]
        rounds.append([(rank, (rank + far) % size, sum(blocks[(rank + i) % size] for i in left)) for rank in range(size)])
    return Cost.of_rounds(rounds, size, link)


def all_to_all_v(counts: Sequence[Sequence[int]], itemsize: int, link: Link = LOOPBACK, ask: bool = False) -> Cost:
    """The cost of an all-to-all with sizes of the caller's own.

    Args:
        counts: ``counts[i][j]``: how many elements rank i sends to rank j.
        itemsize: bytes of an element.
        link: the link between any two ranks.
        ask: whether the receivers are told the counts first, 8 bytes for each.

    Example:
        >>> all_to_all_v([[1, 5], [0, 2]], itemsize=4)[:3]
        ((1, 1), (20, 0), 1)
        >>> all_to_all_v([[1, 5], [0, 2]], itemsize=4, ask=True)[:3]
        ((2, 2), (28, 8), 2)
    """
    size = len(counts)
    first = _pairwise([[8] * size] * size) if ask else []
    return Cost.of_rounds([*first, *_pairwise([[itemsize * count for count in row] for row in counts])], size, link)


def _pairwise(nbytes: Sequence[Sequence[int]]) -> Rounds:
    size = len(nbytes)
    return [[(rank, (rank + step) % size, nbytes[rank][(rank + step) % size]) for rank in range(size)] for step in range(1, size)]


ALL_TO_ALL: dict[str, CostFunction] = {"pairwise": pairwise_all_to_all, "bruck": bruck_all_to_all}
"""The cost of each explicit all-to-all, by the name of its algorithm."""
