"""Chimera: two pipelines in opposite directions, each filling the other's bubbles.

Every stage lies on two ranks: stage s on rank s for micro-batches that go down, on rank p - 1 - s for those that go up. Each
direction runs at half speed, a forward every second slot, and p being even, one direction uses the even slots of a rank where
the other uses the odd ones.

chimera(4, 4), micro-batches 0 and 1 go down and 2 and 3 go up, F = B = 1:

    rank 0  0F0 0F1   . 7F2 7B2 7F3 7B3 0B0   . 0B1
    rank 1    . 1F0 6F2 1F1 6F3 6B2 1B0 6B3 1B1   .
    rank 2    . 5F2 2F0 5F3 2F1 2B0 5B2 2B1 5B3   .
    rank 3  4F2 4F3   . 3F0 3B0 3F1 3B1 4B2   . 4B3

With F = B = 1, micro-batch j of a unit of p/2 in its direction:

    F(s, j) runs in slot s + 2j              B(s, j) in slot 2p - 1 - s + 2j

and the next unit follows 2p slots later, into the gap that the unit has left. Where B takes longer than F, ranks keep this order.

    bubble              p - 2 slots of F = B, whatever m: a share of (p - 2) / (2m + p - 2)
                        with B = 2F and one unit (m = p): (p - 2) B, a share of (p - 2) / (3m/2 + p - 2)
    kept activations    from p/2 + 1 on the outer ranks to p on the middle ones
    weights             2 stages, where 1F1B has 1; both copies must be kept equal after the step

Source: Li and Hoefler 2021, "Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional Pipelines": its table of
bubbles and memory, with N = m micro-batches and D = p stages; units follow each other by "direct concatenation".
"""

from __future__ import annotations

from collections.abc import Iterator

from partkit.partition import block_range
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.checks import check


def chimera(num_ranks: int, num_microbatches: int) -> Schedule:
    """Two pipelines in opposite directions; two replicas.

    Args:
        num_ranks: p, even.
        num_microbatches: m, even; multiples of p leave the fewest gaps.

    Example:
        >>> print(chimera(2, 2))
        2 replicas
        rank 0: 0F0 3F1 3B1 0B0
        rank 1: 2F1 1F0 1B0 2B1
    """
    check("chimera", num_ranks, num_microbatches, even=True)
    p = num_ranks
    lines = []
    for rank in range(p):
        slots = [*_direction(p, num_microbatches, 0, rank), *_direction(p, num_microbatches, 1, p - 1 - rank)]
        lines.append(tuple(action for _, action in sorted(slots)))
    return Schedule(tuple(lines), (*range(p), *reversed(range(p))), num_microbatches, replicas=2, name="Chimera")


def _direction(p: int, m: int, replica: int, s: int) -> Iterator[tuple[int, Action]]:
    """Slot and action for everything that stage ``s`` of one replica does."""
    for count, i in enumerate(block_range(m, 2, replica)):
        unit, j = divmod(count, p // 2)
        yield 2 * p * unit + s + 2 * j, Action(replica * p + s, "F", i)
        yield 2 * p * unit + 2 * p - 1 - s + 2 * j, Action(replica * p + s, "B", i)
