"""A run of a schedule, laid over its plan: the computations of a trace that are named like actions.

    plan       0F0 0 to 1    0F1 1 to 2    0B0 5 to 7
    measured   0F0 0 to 1.0  0F1 1.0 to 2.1  0B0 5.2 to 7.2       seconds of the run over the seconds of a unit

The run's first computation is put where the plan's is: at 0. A browser gets the measured computations as they happen. Of a rehearsal
they are computations of a stated length; of `pk.PipelineParallel`, spans around the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from partkit.figures.encoding import pack
from partkit.figures.studio_rivals import Measures
from partkit.pipeline_parallel.measure import ACTION_NAME, bubble_share
from partkit.tracing import KIND_CODE, Trace


class Measured(NamedTuple):
    """One computation of a run."""

    rank: int
    name: str
    start: float
    """Seconds of the run."""
    end: float


def computations(trace: Trace, first: int = 0) -> Iterator[Measured]:
    """Those of a trace that are named like actions, from event number ``first`` on.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, simulate
        >>> list(computations(simulate(gpipe(1, 1))))
        [Measured(rank=0, name='0F0', start=0.0, end=1.0), Measured(rank=0, name='0B0', start=1.0, end=3.0)]
    """
    rows = trace.columns[first:]
    rows = rows[(rows["kind"] == KIND_CODE["compute"]) | (rows["kind"] == KIND_CODE["span"])]
    for rank, tag, start, end in zip(*(rows[name].tolist() for name in ("rank", "tag", "start", "end")), strict=True):
        if ACTION_NAME.fullmatch(trace.strings[tag]):
            yield Measured(rank, trace.strings[tag], start, end)


def in_units(trace: Trace, unit: float) -> list[Measured]:
    """The same in units of the plan, the first at 0.

    Args:
        trace: of the run.
        unit: seconds of one unit.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, simulate
        >>> in_units(simulate(gpipe(1, 1)), 0.5)[1]
        Measured(rank=0, name='0B0', start=2.0, end=6.0)
    """
    found = list(computations(trace))
    begin = min((one.start for one in found), default=0.0)
    return [Measured(one.rank, one.name, (one.start - begin) / unit, (one.end - begin) / unit) for one in found]


def measures(trace: Trace, unit: float, peak: float) -> Measures:
    """Makespan and bubble of a run; what is kept is as in the plan.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, simulate
        >>> measures(simulate(gpipe(2, 2)), 1.0, 2.0)
        Measures(makespan=9.0, bubble=0.33333333333333337, peak=2.0)
    """
    return Measures(max((one.end for one in in_units(trace, unit)), default=0.0), bubble_share(trace), peak)


class MeasuredEncoder:
    """Turns a growing trace into blocks for a browser, each with the computations that are new; no columns.

    Args:
        trace: may grow between calls.

    Attributes:
        num_events: computations so far.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, simulate
        >>> encoder = MeasuredEncoder(simulate(gpipe(2, 2)))
        >>> len(encoder.encode()) > 0, encoder.num_events, encoder.encode()
        (True, 8, b'')
    """

    note = ""
    """Nothing is left out."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.num_events = 0
        self._seen = 0

    def encode(self) -> bytes:
        """What is new since the last call, as one block; empty if nothing is."""
        first, self._seen = self._seen, len(self.trace)
        found = [list(one) for one in computations(self.trace, first)] if self._seen > first else []
        self.num_events += len(found)
        return pack({"n": len(found), "rows": found}, ()) if found else b""
