"""The same schedule by several clocks, one laid under the other: as planned, as it ran, as it ran in virtual time.

    rank 0  plan      |F0|F1|F2|   |B0  |B1  |             a group of rows a rank, a row a trace, one axis for all
            executed  |F0 |F1 |F2|    |B0   |B1   |
            virtual   |F0|F1|F2|    |B0  |B1  |

Clocks count in units of their own: a plan in the unit of its costs, a run in seconds of this machine. So each trace has a unit, by
default such that the computations of all ranks together are as long as those of the first trace. What then sticks out is waiting, which
is what a schedule is about; how long a unit is stands beside the name. Only computations named like actions (``2F0``) are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from partkit.figures.bundle import figure, table
from partkit.figures.palette import PAGE
from partkit.figures.studio_bars import PATTERNS, Bar, drawing, legend
from partkit.figures.studio_look import HEIGHTS, KINDS
from partkit.figures.studio_measured import Measured, computations, in_units
from partkit.figures.units import CLOCK_NAMES, round_numbers, seconds
from partkit.pipeline_parallel.action import Action
from partkit.tracing import Trace

WIDTH, TOP, FOOT, RIGHT, GAP = 960, 30, 34, 12, 8
MOST_BARS = 40_000


class Row(NamedTuple):
    """One trace, in units."""

    name: str
    unit: float
    """Seconds of its clock that are one unit of the axis."""
    clock: str
    """In words."""
    size: int
    bars: tuple[Measured, ...]

    @property
    def makespan(self) -> float:
        """From the start of the first computation to the end of the last, in units."""
        return max((bar.end for bar in self.bars), default=0.0)

    @property
    def bubble(self) -> float:
        """The share of that in which ranks compute nothing."""
        return 1.0 - sum(bar.end - bar.start for bar in self.bars) / (self.size * self.makespan) if self.makespan else 0.0

    @property
    def label(self) -> str:
        """How long a unit is, in words; a plan's costs have no unit of their own."""
        return f"{self.unit:.3g}" if self.clock == CLOCK_NAMES["planned"] else seconds(self.unit)


def overlay(traces: Mapping[str, Trace], units: Mapping[str, float] | None = None) -> tuple[Row, ...]:
    """Several traces of one schedule, each in its units.

    Args:
        traces: by name; of as many ranks each.
        units: by name, seconds of a trace that are one unit of the axis; of the first trace 1 by default, of others what makes their
            computations together as long as the first trace's.

    Raises:
        ValueError: there is no trace, a trace has no computation named like an action, they differ in ranks, a unit is not above 0 or has
            no trace, or there are too many bars to tell apart.

    Example:
        >>> from partkit.pipeline_parallel import Costs, one_f_one_b, simulate
        >>> plan, slow = simulate(one_f_one_b(2, 4)), simulate(one_f_one_b(2, 4), Costs(0.02, 0.02, 0.02))
        >>> [(row.name, round(row.unit, 3), round(row.makespan, 3)) for row in overlay({"plan": plan, "run": slow})]
        [('plan', 1.0, 15.0), ('run', 0.02, 15.0)]
    """
    given = dict(units or {})
    if not traces or set(given) - set(traces):
        raise ValueError(f"ScheduleOverlay({', '.join(traces) or 'no trace'}): give at least one trace, and units only for traces; units={given}")
    found = {name: list(computations(trace)) for name, trace in traces.items()}
    sizes = {name: trace.size for name, trace in traces.items()}
    for name, bars in found.items():
        if not bars:
            raise ValueError(f"ScheduleOverlay: the trace {name!r} has no computation named like an action, such as 2F0")
    if len(set(sizes.values())) > 1:
        raise ValueError(f"ScheduleOverlay: the traces differ in ranks: {sizes}")
    if not all(unit > 0 for unit in given.values()) or sum(map(len, found.values())) > MOST_BARS:
        raise ValueError(f"ScheduleOverlay: units are above 0, and there are at most {MOST_BARS:,} computations; units={given}")
    work = {name: sum(bar.end - bar.start for bar in bars) for name, bars in found.items()}
    first = next(iter(traces))
    base = work[first] / given.get(first, 1.0)
    unit = {name: given.get(name, (work[name] / base if base and work[name] else 1.0) if name != first else 1.0) for name in traces}
    return tuple(Row(name, unit[name], CLOCK_NAMES[trace.clock], trace.size, tuple(in_units(trace, unit[name]))) for name, trace in traces.items())


# -- the picture -----------------------------------------------------------------------------------------------------


class _Frame(NamedTuple):
    """Where things are."""

    left: float
    scale: float
    """Pixels a unit."""
    tall: float
    """Of one trace of one rank."""
    num_rows: int

    def y(self, rank: int, row: int = 0) -> float:
        return TOP + rank * (self.num_rows * self.tall + GAP) + row * self.tall

    def bar(self, row: int, one: Measured, stages: Sequence[int]) -> Bar:
        """The rectangle of a computation; of the second of its rank's two stages the letter is small."""
        action = Action.parse(one.name)
        kind, chunk = KINDS.index(action.kind), stages.index(action.stage)
        height = (self.tall - 3) * HEIGHTS[kind]
        x, bottom = self.left + one.start * self.scale, self.y(one.rank, row) + self.tall - 1
        short = f"{KINDS[kind][0].lower() if chunk else KINDS[kind][0]}{action.microbatch}" if len(stages) <= 2 else one.name
        return Bar(kind, action.microbatch or 0, x, bottom - height, (one.end - one.start) * self.scale, height, "" if row else short, chunk)


def _stages(row: Row) -> list[list[int]]:
    """By rank: the stages that it has, in rising order."""
    found: list[set[int]] = [set() for _ in range(row.size)]
    for one in row.bars:
        found[one.rank].add(Action.parse(one.name).stage)
    return [sorted(own) for own in found]


def picture(rows: tuple[Row, ...]) -> str:
    """The picture, for white paper.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, simulate
        >>> picture(overlay({"plan": simulate(gpipe(2, 2))}))[:4]
        '<svg'
    """
    size, page, end = rows[0].size, PAGE["light"], max(row.makespan for row in rows) or 1.0
    left = 74 + 6.6 * max(len(row.name) for row in rows)
    frame = _Frame(left, (WIDTH - left - RIGHT) / end, 19.0 if size <= 8 else 14.0, len(rows))
    bars = [frame.bar(number, one, own[one.rank]) for number, row in enumerate(rows) for own in [_stages(row)] for one in row.bars]
    height = frame.y(size) + FOOT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" font-family="sans-serif" '
        f'font-size="12" fill="{page.edge}"><defs>{PATTERNS}</defs><rect width="{WIDTH}" height="{height:.0f}" fill="{page.fill}"/>'
    )
    return "".join([head, *legend(bars), *_names(rows, frame), *_axis(frame, end, height), *drawing(bars), "</svg>"])


def _names(rows: tuple[Row, ...], frame: _Frame) -> Iterator[str]:
    for rank in range(rows[0].size):
        top = frame.y(rank)
        yield f'<text x="8" y="{top + frame.tall * len(rows) / 2 + 4:.1f}" font-weight="600">rank {rank}</text>'
        yield f'<path d="M8 {frame.y(rank + 1) - GAP / 2:.1f}H{WIDTH - RIGHT}" stroke="#1f2328" opacity=".3"/>'
        for number, row in enumerate(rows):
            yield f'<text x="{frame.left - 6:.1f}" y="{frame.y(rank, number) + frame.tall - 5:.1f}" text-anchor="end" font-size="11">{escape(row.name)}</text>'


def _axis(frame: _Frame, end: float, height: float) -> Iterator[str]:
    bottom = height - FOOT
    for time in round_numbers(0.0, end, end / 12):
        x = frame.left + time * frame.scale
        yield f'<path d="M{x:.1f} {TOP}V{bottom + 4:.1f}" stroke="#1f2328" opacity=".13"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 17:.1f}" text-anchor="middle" font-size="11">{time:g}</text>'
    yield f'<text x="8" y="{bottom + 17:.1f}" font-size="11">units</text>'


# -- the bundle ------------------------------------------------------------------------------------------------------

COLUMNS = ("trace", "clock", "a unit is", "makespan, in units", "bubble")


def cells(rows: tuple[Row, ...]) -> list[tuple[str, ...]]:
    """The table: a row a trace.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, simulate
        >>> cells(overlay({"plan": simulate(gpipe(2, 2))}))
        [('plan', 'planned time', '1', '9', '33 %')]
    """
    return [(row.name, row.clock, row.label, f"{row.makespan:.4g}", f"{100 * row.bubble:.0f} %") for row in rows]


def plain_text(rows: tuple[Row, ...]) -> str:
    """The table in letters."""
    lines = [COLUMNS, *cells(rows)]
    wide = [max(len(line[k]) for line in lines) for k in range(len(COLUMNS))]
    return "\n".join("  ".join(f"{cell:{width}}" for cell, width in zip(line, wide, strict=True)).rstrip() for line in lines)


def bundle(rows: tuple[Row, ...], title: str = "") -> dict[str, str]:
    """The mimebundle of an overlay.

    Example:
        >>> from partkit.pipeline_parallel import gpipe, simulate
        >>> sorted(bundle(overlay({"plan": simulate(gpipe(2, 2))})))
        ['text/html', 'text/plain']
    """
    line = "; ".join(f"{row.name}: {row.clock}, a unit is {row.label}, bubble {100 * row.bubble:.0f} %" for row in rows)
    html = figure(picture(rows), f"The same schedule by several clocks. {line}", line, [table(COLUMNS, cells(rows), "A row a trace")], title)
    return {"text/html": html, "text/plain": (f"{title}\n" if title else "") + plain_text(rows)}
