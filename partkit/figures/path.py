"""The critical path as something to draw and to read: outlines over bars, and a line of words. Pure."""

from __future__ import annotations

from partkit.figures.units import count, seconds
from partkit.tracing.critical_path import CriticalPath

MAX_STEPS = 2_000
"""Steps that are outlined, counted from the end of the run; the words tell of all."""
Outline = list[list[float]]
"""``[row of trace.columns, start, end]`` for each stretch of a bar."""


def outline(path: CriticalPath) -> Outline:
    """What lies over which bars: of a message both its sides.

    Example:
        >>> from partkit.tracing import Event, Trace
        >>> from partkit.tracing.critical_path import critical_path
        >>> trace = Trace.from_events([Event(0, "send", 0, 3, peer=1), Event(1, "compute", 0, 2), Event(1, "recv", 2, 3, peer=0)])
        >>> outline(critical_path(trace))
        [[1, 0.0, 2.0], [0, 2.0, 3.0], [2, 2.0, 3.0]]
    """
    shown = [step for step in path.steps[-MAX_STEPS:] if step.row >= 0]
    return [[row, step.start, step.end] for step in shown for row in (step.row, step.other) if row >= 0]


def path_note(path: CriticalPath) -> str:
    """How long, how many steps, and what they are; empty for an empty path.

    Example:
        >>> from partkit.tracing import Event, Trace
        >>> from partkit.tracing.critical_path import critical_path
        >>> path_note(critical_path(Trace.from_events([Event(0, "compute", 0, 2), Event(0, "compute", 3, 4)])))
        'critical path: 3 steps, 4 s: 75% computing, 25% between events'
    """
    if not path.steps:
        return ""
    names = (("compute", "computing"), ("message", "messages"), ("gap", "between events"))
    parts = ", ".join(f"{path.share(kind):.0%} {name}" for kind, name in names if path.seconds(kind))  # type: ignore[arg-type]
    shown = f" (the last {MAX_STEPS:,} outlined)" if len(path.steps) > MAX_STEPS else ""
    return f"critical path: {count(len(path.steps), 'step')}{shown}, {seconds(path.length)}: {parts}"
