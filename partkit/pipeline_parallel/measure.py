"""What a timeline says about a schedule: busy time, spans, bubble. Of a planned trace or of a measured one, by the same functions.

    rank 0  F0 F1  .  . B0 --  . B1 --        span of rank 0: 9    busy: 6    bubble inside its span: 3
    rank 1   . F0 B0 -- F1 B1 --  .  .        span of rank 1: 6    busy: 6    bubble inside its span: 0

Two bubbles are in use, and they differ where ranks neither begin nor end together:

    `bubble_share`       idle time of all ranks over all of the makespan, up to the last end anywhere
    `bubble_inside`      idle time of a rank between its own first start and its own last end; zero-bubble papers count this one

Source: Narayanan et al. 2021 (Megatron-LM) for the first; Qi et al. 2023, section 2, for the second.
"""

from __future__ import annotations

import numpy as np

from partkit.tracing import KIND_CODE, Trace
from partkit.tracing.events import Columns


def _computing(trace: Trace, rank: int) -> Columns:
    rows = trace.columns
    chosen: Columns = rows[(rows["kind"] == KIND_CODE["compute"]) & (rows["rank"] == rank)]
    return chosen


def busy(trace: Trace) -> tuple[float, ...]:
    """By rank: time spent in actions.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> busy(simulate(one_f_one_b(2, 2)))
        (6.0, 6.0)
    """
    return tuple(float((rows["end"] - rows["start"]).sum()) for rows in (_computing(trace, rank) for rank in range(trace.size)))


def spans(trace: Trace) -> tuple[float, ...]:
    """By rank: time from the start of its first action to the end of its last.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> spans(simulate(one_f_one_b(2, 2)))
        (9.0, 6.0)
    """
    found = (_computing(trace, rank) for rank in range(trace.size))
    return tuple(float(rows["end"].max() - rows["start"].min()) if len(rows) else 0.0 for rows in found)


def bubble_share(trace: Trace) -> float:
    """The share of all ranks' time, from the first start to the last end, in which they run no action; 0 for an empty trace.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> bubble_share(simulate(one_f_one_b(4, 8)))  # (p - 1) / (m + p - 1)
        0.2727272727272727
    """
    rows = trace.columns
    computing = rows[rows["kind"] == KIND_CODE["compute"]]
    if not len(computing):
        return 0.0
    length = float(computing["end"].max() - computing["start"].min())
    return 1.0 - float(np.sum(computing["end"] - computing["start"])) / (trace.size * length) if length else 0.0


def bubble_inside(trace: Trace) -> float:
    """The longest idle time of a rank between its own first start and its own last end.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate, zb_h2
        >>> bubble_inside(simulate(one_f_one_b(4, 8))), bubble_inside(simulate(zb_h2(4, 8)))
        (9.0, 0.0)
    """
    return max((span - work for span, work in zip(spans(trace), busy(trace), strict=True)), default=0.0)
