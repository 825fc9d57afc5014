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

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from partkit.cluster.cost import Cost, CostFunction, nothing
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
    blocks, ranks, rounds = itemsize * np.array(block_sizes(numel, size)), np.arange(size), []
    for far in (2**k for k in range((size - 1).bit_length())):
        left = ranks[ranks & far > 0] // far * far
        travels = blocks[(ranks[:, None] + left) % size].sum(axis=1)
        rounds.append(np.stack([ranks, (ranks + far) % size, travels], axis=1))
    return Cost.of_rounds(rounds, size, link)


def all_to_all_v(counts: Sequence[Sequence[int]], itemsize: int, link: Link = LOOPBACK, ask: bool = False) -> Cost:
    """The cost of an all-to-all with sizes of the caller's own.

    Args:
        counts: ``counts[i][j]``: how many elements rank i sends to rank j.
        itemsize: bytes of an element.
        link: the link between any two ranks.
        ask: whether the receivers are told the counts first, in a pairwise all-to-all of 8 bytes for each.

    Example:
        >>> all_to_all_v([[1, 5], [0, 2]], itemsize=4)[:3]
        ((1, 1), (20, 0), 1)
        >>> all_to_all_v([[1, 5], [0, 2]], itemsize=4, ask=True)[:3]
        ((2, 2), (28, 8), 2)
    """
    size, messages = len(counts), len(counts) - 1
    nbytes = [[itemsize * count for count in row] for row in counts]
    told = pairwise_all_to_all(size, 8, size, link) if ask else nothing(size)
    sent = tuple(sum(row) - row[rank] + told.bytes_sent[rank] for rank, row in enumerate(nbytes))
    return Cost(tuple(messages + n for n in told.messages), sent, messages + told.steps, told.seconds + _in_turn(nbytes, link))


def _in_turn(nbytes: Sequence[Sequence[int]], link: Link) -> float:
    """The time until all is there if everyone sends to the ranks after it, one after the other.

    Who finds a receiver busy stands in line for it; of two that come at the same moment the lower rank goes first. Events are
    ``(time, 0, dst)``: dst is free for the next in line; ``(time, 1, src)``: src turns to its next receiver.
    """
    size, now = len(nbytes), 0.0
    step, busy, line = [0] * size, [False] * size, [deque[int]() for _ in range(size)]
    events = [(0.0, 1, src) for src in range(size)]
    while events:
        now, what, who = heappop(events)
        if what == 1:
            step[who] += 1
            if step[who] == size:
                continue
            dst = (who + step[who]) % size
            line[dst].append(who)
        else:
            dst, busy[who] = who, False
        if line[dst] and not busy[dst]:
            src, busy[dst] = line[dst].popleft(), True
            end = now + link.seconds(nbytes[src][dst])
            heappush(events, (end, 0, dst))
            heappush(events, (end, 1, src))
    return now


ALL_TO_ALL: dict[str, CostFunction] = {"pairwise": pairwise_all_to_all, "bruck": bruck_all_to_all}
"""The cost of each explicit all-to-all, by the name of its algorithm."""
