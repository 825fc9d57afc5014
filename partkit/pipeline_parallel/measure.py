"""What a timeline says about a schedule: busy time, spans, bubble. Of a planned trace or of a measured one, by the same functions.

    rank 0  F0 F1  .  . B0 --  . B1 --        span of rank 0: 9    busy: 6    bubble inside its span: 3
    rank 1   . F0 B0 -- F1 B1 --  .  .        span of rank 1: 6    busy: 6    bubble inside its span: 0

Two bubbles are in use, and they differ where ranks neither begin nor end together:

    `bubble_share`       idle time of all ranks over all of the makespan, up to the last end anywhere
    `bubble_inside`      idle time of a rank between its own first start and its own last end; zero-bubble papers count this one

Of a trace on paper, actions are its computations. Of a step of `partkit.PipelineParallel`, they are the spans that are named like actions
(0F0), which begin when everything that the action needs is there: computations inside of them, where a world notes some, are not
counted twice, and what an optimizer or a loss does outside of them is not an action.

Source: Narayanan et al. 2021 (Megatron-LM) for the first; Qi et al. 2023, section 2, for the second.
"""

from __future__ import annotations

import re

import numpy as np

from partkit.tracing import KIND_CODE, Trace
from partkit.tracing.events import Columns

ACTION_NAME = re.compile(r"\d+(F|B|I|W|STEP)\d+")
"""Of a computation or a span that is one action; STEP too, which takes time."""


def actions(trace: Trace) -> Columns:
    """The events of a trace that are actions.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> len(actions(simulate(one_f_one_b(2, 2))))
        8
    """
    rows = trace.columns
    spans = rows[rows["kind"] == KIND_CODE["span"]]
    named = [number for number in np.unique(spans["tag"]).tolist() if ACTION_NAME.fullmatch(trace.strings[number])]
    chosen: Columns = spans[np.isin(spans["tag"], named)] if named else rows[rows["kind"] == KIND_CODE["compute"]]
    return chosen


def _by_rank(trace: Trace) -> list[Columns]:
    rows = actions(trace)
    return [rows[rows["rank"] == rank] for rank in range(trace.size)]


def busy(trace: Trace) -> tuple[float, ...]:
    """By rank: time spent in actions.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> busy(simulate(one_f_one_b(2, 2)))
        (6.0, 6.0)
    """
    return tuple(float((rows["end"] - rows["start"]).sum()) for rows in _by_rank(trace))


def spans(trace: Trace) -> tuple[float, ...]:
    """By rank: time from the start of its first action to the end of its last.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> spans(simulate(one_f_one_b(2, 2)))
        (9.0, 6.0)
    """
    return tuple(float(rows["end"].max() - rows["start"].min()) if len(rows) else 0.0 for rows in _by_rank(trace))


def bubble_share(trace: Trace) -> float:
    """The share of all ranks' time, from the first start to the last end, in which they run no action; 0 for an empty trace.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> bubble_share(simulate(one_f_one_b(4, 8)))  # (p - 1) / (m + p - 1)
        0.2727272727272727
    """
    rows = actions(trace)
    if not len(rows):
        return 0.0
    length = float(rows["end"].max() - rows["start"].min())
    return 1.0 - float(np.sum(rows["end"] - rows["start"])) / (trace.size * length) if length else 0.0


def bubble_inside(trace: Trace) -> float:
    """The longest idle time of a rank between its own first start and its own last end.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate, zb_h2
        >>> bubble_inside(simulate(one_f_one_b(4, 8))), bubble_inside(simulate(zb_h2(4, 8)))
        (9.0, 0.0)
    """
    return max((span - work for span, work in zip(spans(trace), busy(trace), strict=True)), default=0.0)
