"""The name of a schedule that somebody has built: whichever known one has the same order on every rank.

Only order counts. Messages, pauses and overlapped pairs are taken away on both sides, and a B on one side is as good as an I with
its W behind it on the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from partkit.pipeline_parallel import SCHEDULES, make
from partkit.pipeline_parallel.action import COMPUTE
from partkit.pipeline_parallel.passes import split_backward
from partkit.pipeline_parallel.schedule import Schedule


def recognize(schedule: Schedule) -> str | None:
    """The name of a known schedule of the same size and order, or None.

    Args:
        schedule: any.

    Example:
        >>> from partkit.pipeline_parallel import gpipe
        >>> recognize(Schedule.parse("rank 0: 0F0 0F1 0B0 0B1\\nrank 1: 1F0 1B0 1F1 1B1"))
        '1F1B'
        >>> recognize(gpipe(1, 2).with_ranks([reversed(gpipe(1, 2).ranks[0])])) is None
        True
    """
    order = _order(schedule)
    return next((other.name for other in known(schedule) if _order(other) == order), None)


def _order(schedule: Schedule) -> Schedule:
    whole = split_backward(schedule)
    return whole.with_ranks((action for action in line if action.kind in COMPUTE) for line in whole.ranks)


def known(schedule: Schedule) -> Iterator[Schedule]:
    """Every schedule of the literature with the same stages on the same ranks and as many micro-batches.

    Example:
        >>> from partkit.pipeline_parallel import zb_v
        >>> [other.name for other in known(zb_v(2, 4))]
        ['ZB-V', 'DualPipe-V']
    """
    p, m, per_rank = schedule.num_ranks, schedule.num_microbatches, len(schedule.placement) // schedule.num_ranks
    for name in SCHEDULES:
        sizes = (p, m, per_rank) if name in ("interleaved", "breadth_first") else (p, m)
        try:
            made = make(name, *sizes)
        except ValueError:  # there is none of this size
            continue
        if made.placement == schedule.placement and made.replicas == schedule.replicas:
            yield made
