"""The numbers that ranks note with ``comm.log``, as lines: one line for all ranks that note the same.

    rank 0   loss  2.30  1.90  1.20  --.
    rank 1   loss  2.30  1.90  1.20  ---+-->  Line("loss", ranks=(0, 1, 2))   "ranks 0-2"
    rank 2   loss  2.30  1.90        --'      still on its way to the same number
    rank 3   loss  2.30  1.90  1.25  ------>  Line("loss", ranks=(3,))        "rank 3"

Same means bit for bit: replicas that drift apart by one rounding are two lines. The k-th number that a rank notes under a name is
its step k, from 1. While a run goes on some ranks are a little ahead; a rank belongs to a line as long as it agrees with the
line's lowest rank in all that both have noted. When the run is over it must have noted as many.

`CurveEncoder` turns what is new into blocks for a browser, 16 bytes a point of a line and nothing for the ranks that share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.diagnosis import name_ranks
from partkit.figures.alike import alike
from partkit.figures.encoding import pack
from partkit.figures.units import count
from partkit.tracing import KIND_CODE, Trace
from partkit.tracing.memory import PREFIX

Numbers = npt.NDArray[np.float64]


class Line(NamedTuple):
    """What some ranks noted under one name."""

    name: str
    ranks: tuple[int, ...]
    times: Numbers
    """Seconds since the start of the run, on the lowest rank. Shape (steps,)."""
    values: Numbers
    """Shape (steps,); may hold infinities and NaN."""

    @property
    def label(self) -> str:
        """``rank 3``, ``ranks 0-2``."""
        return name_ranks(self.ranks)


class Notes:
    """The metrics of a trace that may still grow.

    Args:
        trace: where ranks note numbers.
        names: the metrics to look at, in this order; none for all but those about memory, as they appear.

    Attributes:
        names: the metrics so far.
        num_notes: numbers so far, of all ranks.
    """

    def __init__(self, trace: Trace, names: tuple[str, ...] = ()) -> None:
        self.trace = trace
        self.names = list(dict.fromkeys(names))
        self.num_notes = 0
        self._all = not names
        self._taken = 0
        self._series: dict[str, dict[int, _Series]] = {}

    def update(self) -> int:
        """Look at what has come since the last call; gives the number of new notes."""
        rows = self.trace.columns[self._taken :]
        self._taken += len(rows)
        rows = rows[rows["kind"] == KIND_CODE["metric"]]
        new = sum(self._take(rows[rows["tag"] == tag]) for tag in dict.fromkeys(rows["tag"].tolist()))
        self.num_notes += new
        return new

    def _take(self, rows: npt.NDArray[Any]) -> int:
        """The new numbers of one metric."""
        name = self.trace.strings[rows["tag"][0]]
        if self._all and name not in self.names and not name.startswith(PREFIX):  # those have a view of their own
            self.names.append(name)
        if name not in self.names:
            return 0
        by_rank = self._series.setdefault(name, {})
        rows = rows[np.argsort(rows["rank"], kind="stable")]
        for own in np.split(rows, np.flatnonzero(np.diff(rows["rank"])) + 1):
            by_rank.setdefault(int(own["rank"][0]), _Series()).add(own["start"], own["value"])
        return len(rows)

    def lines(self) -> list[Line]:
        """The lines of each metric, by their lowest rank."""
        complete = self.trace.finished.is_set()
        out = []
        for name in self.names:
            by_rank = {rank: series.columns for rank, series in self._series.get(name, {}).items()}
            same = alike({rank: values for rank, (_, values) in by_rank.items()}, complete=complete)
            out += [Line(name, ranks, *by_rank[ranks[0]]) for ranks in same]
        return out

    def unknown(self) -> str:
        """A sentence about names that no rank has used; empty if there are none."""
        missing = [repr(name) for name in self.names if name not in self._series]
        seen = dict.fromkeys(self.trace.strings[tag] for tag in np.unique(self.trace.columns["tag"][self.trace.columns["kind"] == KIND_CODE["metric"]]))
        others = f", but as {', '.join(map(repr, seen))}" if seen else ""
        return f"nothing noted as {', '.join(missing)}{others}" if missing else ""


def lines(trace: Trace, *names: str) -> list[Line]:
    """The lines of a trace as it is now.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(rank, "metric", 1.0, 1.0, tag="loss", value=2.5) for rank in range(4)])
        >>> [(line.name, line.label, line.values) for line in lines(trace)]
        [('loss', 'ranks 0-3', array([2.5]))]
    """
    notes = Notes(trace, names)
    notes.update()
    return notes.lines()


class CurveEncoder:
    """Turns the metrics of a growing trace into blocks of bytes (`partkit.figures.encoding.pack`).

    A block's header holds the names of all metrics and all lines as ``[name, lowest rank, label, first, number]``, and its
    columns the times and the values of each line's points from ``first`` on, f8. A line that is not in it is no more: its
    ranks have joined another.

    Args:
        trace: may grow between calls.
        names: as for `Notes`.

    Attributes:
        num_events: notes so far, and changes of lines without a note.
    """

    def __init__(self, trace: Trace, names: tuple[str, ...] = ()) -> None:
        self.trace = trace
        self.num_events = 0
        self._notes = Notes(trace, names)
        self._sent: dict[tuple[str, int], int] = {}
        self._labels: list[tuple[str, ...]] | None = None

    @property
    def note(self) -> str:
        """What the lines do not show, in words; empty if nothing."""
        wild = sum(int((~np.isfinite(line.values)).sum()) for line in self._notes.lines())
        hidden = f"{count(wild, 'value')} not finite" if wild else ""
        return ", ".join(filter(None, (hidden, self._notes.unknown() if self.trace.finished.is_set() else "")))

    def encode(self) -> bytes:
        """What is new since the last call, as one block; empty if nothing is."""
        new = self._notes.update()
        found = self._notes.lines()
        labels = [tuple(self._notes.names), *((line.name, line.label) for line in found)]
        if not new and labels == self._labels:
            return b""
        head: list[tuple[str, int, str, int, int]] = []
        columns: list[Numbers] = []
        sent: dict[tuple[str, int], int] = {}
        for line in found:
            key, number = (line.name, line.ranks[0]), len(line.values)
            first = self._sent.get(key, 0)
            sent[key] = number
            head.append((*key, line.label, first, number - first))
            columns += [line.times[first:], line.values[first:]]
        weight = max(new, 1)
        self._sent, self._labels = sent, labels
        self.num_events += weight
        return pack({"n": weight, "names": self._notes.names, "lines": head}, columns)


class Columns(NamedTuple):
    """A line of many points in columns of pixels, each of shape (columns,)."""

    x: Numbers
    """The middle of each column's points."""
    low: Numbers
    mean: Numbers
    high: Numbers


def condense(x: Numbers, y: Numbers, width: int) -> Columns:
    """The lowest, the mean and the highest of the points that share a column, for a line with more points than pixels.

    Drawn as a band from low to high with the mean on it: whatever a single step did is inside, and where it goes is visible.

    Args:
        x: ascending. Shape (points,).
        y: Shape (points,). A column without a finite value is NaN.
        width: number of columns from the first x to the last.

    Example:
        >>> condense(np.arange(4.0), np.array([1.0, 3.0, 5.0, 9.0]), 2)
        Columns(x=array([0.5, 2.5]), low=array([1., 5.]), mean=array([2., 7.]), high=array([3., 9.]))
    """
    column = np.minimum((x - x[0]) * (width / ((x[-1] - x[0]) or 1.0)), width - 1).astype(np.int64)
    first = np.flatnonzero(np.diff(column, prepend=-1))
    finite = np.isfinite(y)
    number = np.add.reduceat(finite, first, dtype=np.int64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        middle = np.add.reduceat(x, first) / np.diff(np.append(first, len(x)))
        mean = np.add.reduceat(np.where(finite, y, 0.0), first) / number
    low, high = np.minimum.reduceat(np.where(finite, y, np.inf), first), np.maximum.reduceat(np.where(finite, y, -np.inf), first)
    return Columns(middle, np.where(number, low, np.nan), mean, np.where(number, high, np.nan))


class _Series:
    """What one rank noted under one name."""

    def __init__(self) -> None:
        self._parts: list[tuple[Numbers, Numbers]] = []

    def add(self, times: Numbers, values: Numbers) -> None:
        self._parts.append((times, values))

    @property
    def columns(self) -> tuple[Numbers, Numbers]:
        """Times and values."""
        if len(self._parts) > 1:
            self._parts = [(np.concatenate([times for times, _ in self._parts]), np.concatenate([values for _, values in self._parts]))]
        return self._parts[0]
