"""`ScheduleOverlay`: one schedule by several clocks: planned, executed, in virtual time.

    pk.ScheduleOverlay({"plan": pk.pipeline_parallel.simulate(schedule), "executed": world.trace, "virtual": simulated.trace})

What is drawn: `partkit.figures.schedule_overlay`. It needs no browser's help: a picture, a table and a text, which also is what is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partkit.figures.schedule_overlay import Row, bundle, overlay
from partkit.tracing import Trace


class ScheduleOverlay:
    """Traces of one schedule, laid under each other rank by rank.

    Args:
        traces: by name, in the order in which they are drawn; of as many ranks each. Computations named like actions are drawn (``2F0``).
        units: by name, seconds of a trace that are one unit of the axis. By default a unit of the first trace is 1 of its own, and the
            others are scaled so that their computations together are as long: what differs then is waiting.
        title: shown above it.

    Attributes:
        rows: each trace in units, with its makespan and bubble.

    Raises:
        ValueError: a trace has no such computation, or they differ in ranks.

    Example:
        >>> from partkit.pipeline_parallel import Costs, gpipe, one_f_one_b, simulate
        >>> ScheduleOverlay({"plan": simulate(gpipe(4, 8)), "twice as fast": simulate(gpipe(4, 8), Costs(0.5, 0.5, 0.5))})
        trace          clock         a unit is  makespan, in units  bubble
        plan           planned time  1          33                  27 %
        twice as fast  planned time  0.5        33                  27 %
    """

    def __init__(self, traces: Mapping[str, Trace], *, units: Mapping[str, float] | None = None, title: str = "") -> None:
        self.rows: tuple[Row, ...] = overlay(traces, units)
        self._title = title

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return bundle(self.rows, self._title)

    def __repr__(self) -> str:
        return bundle(self.rows, self._title)["text/plain"]
