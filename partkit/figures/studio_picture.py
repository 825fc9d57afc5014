"""A studio as a still picture with tables and a text: what stays of it in a saved notebook.

    rank 0 |F0|F1|F2|F3|      |B0  |F4|B1  |       a row a rank: the plan
           |F0|F1|F2|F3|       |B0  |F4|B1  |      lower, under it: the same as it was measured, if it ran

Bars of one kind and hue are one path. Where bars are too narrow for numbers, hues stand for kinds, and a row's bars of one kind are one
dashed line: 16 ranks with 64 micro-batches stay under 100 kB. Colours are for white paper, since an image cannot know its page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple
from xml.sax.saxutils import escape

from partkit.figures.bundle import figure, table
from partkit.figures.palette import PAGE
from partkit.figures.studio import Board
from partkit.figures.studio_look import HEIGHTS, KIND_HUES, KINDS, WORDS, look
from partkit.figures.studio_measured import in_units
from partkit.figures.studio_session import Session
from partkit.figures.studio_spec import HEAD, Overlay, headline, rows
from partkit.figures.units import round_numbers
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.picture import grid, labels

WIDTH, TOP, FOOT, RIGHT = 960, 30, 34, 12
MOST_LABELS, MOST_COLUMNS, NARROW = 500, 120, 4.0
_PATTERNS = (
    '<pattern id="I" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M1 0v5" stroke="#ffffff" stroke-width="1.3"/></pattern>'
    '<pattern id="W" width="4" height="4" patternUnits="userSpaceOnUse"><path d="M1 0v4" stroke="#1f2328" stroke-width=".8" opacity=".55"/></pattern>'
)


class Bar(NamedTuple):
    """A rectangle in the picture, in pixels."""

    kind: int
    hue: int
    x: float
    y: float
    width: float
    height: float
    label: str
    chunk: int = 0
    """Which of its rank's stages, from 0."""

    @property
    def path(self) -> str:
        """As part of a path."""
        return f"M{self.x:.1f} {self.y:.1f}h{self.width:.1f}v{self.height:.1f}h{-self.width:.1f}z"


class Frame(NamedTuple):
    """Where things are."""

    left: float
    scale: float
    """Pixels a unit."""
    tall: float
    """Of a row."""
    plan: float
    """Of a bar of the plan; what is left under it is for the run."""
    end: float

    def x(self, time: float) -> float:
        """Where a time is."""
        return self.left + time * self.scale

    def bar(self, rank: int, action: Action, times: Sequence[float], label: str, *, chunk: int = 0, measured: bool = False) -> Bar:
        """The rectangle of an action."""
        kind = KINDS.index(action.kind)
        room = (self.tall - self.plan - 7) if measured else self.plan
        ground = TOP + rank * self.tall + 2 + self.plan + (room + 1 if measured else 0)
        height = room * HEIGHTS[kind]
        return Bar(kind, action.microbatch or 0, self.x(times[0]), ground - height, (times[1] - times[0]) * self.scale, height, label, chunk)


def picture(board: Board, overlay: Overlay | None = None) -> str:
    """The picture, for white paper.

    Args:
        board: the schedule as far as it is built.
        overlay: a run of it.

    Example:
        >>> from partkit.pipeline_parallel import gpipe
        >>> picture(Board.of(gpipe(2, 2)))[:4]
        '<svg'
    """
    run = in_units(overlay.trace, overlay.unit) if overlay else []
    end = max([board.plan.makespan, *(one.end for one in run)]) or 10.0
    ranks = board.schedule.num_ranks
    tall = (40.0 if ranks <= 8 else 28.0) + (14.0 if overlay else 0.0)
    left = 70.0 if len(board.schedule.placement) == ranks else 104.0
    frame = Frame(left, (WIDTH - left - RIGHT) / end, tall, tall - 6 - (14.0 if overlay else 0.0), end)
    label = labels(board.schedule) if board.made else {}
    bars = [
        frame.bar(rank, action, times, label[str(action)], chunk=board.schedule.stages_of(rank).index(action.stage))
        for rank, line in enumerate(board.lines)
        for action, *times in line
    ]
    bars += [frame.bar(one.rank, Action.parse(one.name), (one.start, one.end), "", measured=True) for one in run if one.rank < ranks]
    drawn = [*_filled(bars), *_texts(bars)] if _readable(bars) else _strokes(bars)
    height, page = TOP + ranks * tall + FOOT, PAGE["light"]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" font-family="sans-serif" '
        f'font-size="12" fill="{page.edge}"><defs>{_PATTERNS}</defs><rect width="{WIDTH}" height="{height:.0f}" fill="{page.fill}"/>'
    )
    return "".join([head, *_legend(bars, bool(run)), *_rows(board, frame), *_axis(frame, height), *drawn, "</svg>"])


def _readable(bars: Sequence[Bar]) -> bool:
    """Whether most bars are wide enough to be told apart."""
    return not bars or median(bar.width for bar in bars) >= NARROW


def _strokes(bars: Sequence[Bar]) -> Iterator[str]:
    """One line for each row and kind, as thick as its bars, in the hue of the kind: ``m4 0h2`` skips 4 pixels and draws 2."""
    rows: dict[tuple[int, float, float], list[Bar]] = defaultdict(list)
    for bar in bars:
        rows[bar.kind, bar.y, bar.height].append(bar)
    for (kind, y, height), row in sorted(rows.items()):
        parts, at = [f"M0 {y + height / 2:.1f}"], 0.0
        for bar in row:
            skip, wide = round(bar.x - at, 1), round(bar.width, 1)
            parts.append(f"h{wide:g}" if skip == 0 else f"m{skip:g} 0h{wide:g}")
            at = round(at + skip + wide, 1)
        yield f'<path d="{"".join(parts)}" fill="none" stroke="{look(kind, KIND_HUES[kind]).fill}" stroke-width="{height:.1f}"/>'


def _legend(bars: Sequence[Bar], measured: bool) -> Iterator[str]:
    """Only the kinds that occur."""
    x, hues = 8.0, dict.fromkeys(range(len(KINDS)), 0) if _readable(bars) else dict(enumerate(KIND_HUES))
    for kind in sorted({bar.kind for bar in bars}):
        yield from _filled([Bar(kind, hues[kind], x, 8, 16, 14, "")])
        yield f'<text x="{x + 21:.0f}" y="19">{KINDS[kind][0]} {WORDS[kind]}</text>'
        x += 42 + 6.6 * len(WORDS[kind])
    if measured:
        yield f'<text x="{WIDTH - RIGHT}" y="19" text-anchor="end">upper: plan, lower: measured</text>'


def _rows(board: Board, frame: Frame) -> Iterator[str]:
    for rank in range(board.schedule.num_ranks):
        y, own = TOP + rank * frame.tall, board.schedule.stages_of(rank)
        more = "" if own == (rank,) else f": {', '.join(map(str, own[:3]))}"
        yield f'<text x="8" y="{y + 2 + frame.plan / 2 + 4:.1f}" font-weight="600">rank {rank}{more}</text>'
        yield f'<path d="M{frame.left:.1f} {y + frame.tall - 2:.1f}H{WIDTH - RIGHT}" stroke="#1f2328" opacity=".2"/>'


def _axis(frame: Frame, height: float) -> Iterator[str]:
    bottom = height - FOOT
    for time in round_numbers(0.0, frame.end, frame.end / 12):
        yield f'<path d="M{frame.x(time):.1f} {TOP}V{bottom + 4:.1f}" stroke="#1f2328" opacity=".13"/>'
        yield f'<text x="{frame.x(time):.1f}" y="{bottom + 17:.1f}" text-anchor="middle" font-size="11">{time:g}</text>'
    yield f'<text x="8" y="{bottom + 17:.1f}" font-size="11">time</text>'


def _filled(bars: Iterable[Bar]) -> Iterator[str]:
    """One path for each kind and hue, their patterns, their outlines."""
    shapes: dict[tuple[int, int], list[str]] = defaultdict(list)
    bars = list(bars)
    for bar in bars:
        shapes[bar.kind, bar.hue % 7].append(bar.path)
    for (kind, hue), paths in sorted(shapes.items()):
        path = "".join(paths)
        yield f'<path d="{path}" fill="{look(kind, hue).fill}" stroke="{PAGE["light"].edge}" stroke-width=".6"/>'
        if KINDS[kind] in ("I", "W"):
            yield f'<path d="{path}" fill="url(#{KINDS[kind]})"/>'
    marks = "".join(f"M{bar.x:.1f} {bar.y + bar.height - 1.5:.1f}h{bar.width:.1f}" for bar in bars if bar.chunk)
    if marks:
        yield f'<path d="{marks}" stroke="{PAGE["light"].edge}" stroke-width="3"/>'


def _texts(bars: Sequence[Bar]) -> Iterator[str]:
    """Labels that fit; on a plate of the filling, so that lines do not cross them."""
    fitting = [bar for bar in bars if bar.label and bar.width > 6.4 * len(bar.label) + 2]
    for bar in fitting if len(fitting) <= MOST_LABELS else ():
        own, middle = look(bar.kind, bar.hue), bar.x + bar.width / 2
        if KINDS[bar.kind] in ("I", "W"):
            wide = 6.6 * len(bar.label) + 2
            yield f'<rect x="{middle - wide / 2:.1f}" y="{bar.y + bar.height / 2 - 7:.1f}" width="{wide:.1f}" height="14" fill="{own.fill}"/>'
        yield f'<text x="{middle:.1f}" y="{bar.y + bar.height / 2 + 4:.1f}" text-anchor="middle" font-size="11" fill="{own.ink}">{escape(bar.label)}</text>'


# -- the bundle ------------------------------------------------------------------------------------------------------


def plain_text(session: Session, overlay: Overlay | None = None) -> str:
    """Everything in letters: the grid, if it is not too wide, else the lists.

    Example:
        >>> print(plain_text(Session("one_f_one_b", 2, 2)))  # doctest: +ELLIPSIS
        1F1B: 2 ranks, 2 micro-batches; makespan 9, bubble 33 %, at most 2 micro-batches kept on a rank
        rank 0  F0 F1  .  . B0 --  . B1 --
        rank 1   . F0 B0 -- F1 B1 --  .  .
        schedule                      stages a rank  makespan  bubble  most kept
        on the board                              1         9    33 %          2
        GPipe                                     1         9    33 %          2
        1F1B (as on the board)                    1         9    33 %          2
        ...
    """
    lines = [HEAD, *rows(session, overlay)]
    first, *others = [max(len(line[k]) for line in lines) for k in range(len(HEAD))]
    found = (f"{line[0]:{first}}" + "".join(f"  {cell:>{wide}}" for cell, wide in zip(line[1:], others, strict=True)) for line in lines)
    return "\n".join([headline(session), _in_letters(session.board), *found])


def _in_letters(board: Board) -> str:
    """A column for the shortest action, so that every action is there."""
    times = [end - start for line in board.lines for _, start, end in line if end > start]
    if not times or board.plan.makespan / min(times) > MOST_COLUMNS:
        return str(board.schedule)
    return grid(board.schedule, board.stage_costs, board.link, unit=min(times))


def bundle(session: Session, overlay: Overlay | None = None, title: str = "") -> dict[str, str]:
    """The mimebundle of a studio.

    Args:
        session: the studio.
        overlay: a run of what is on the board.
        title: shown above it.

    Example:
        >>> sorted(bundle(Session("gpipe", 2, 2)))
        ['text/html', 'text/plain']
    """
    line = headline(session)
    lists = [(rank, " ".join(map(str, actions))) for rank, actions in enumerate(session.schedule.ranks)]
    tables = [table(HEAD, rows(session, overlay), "Beside the known schedules"), table(("rank", "actions"), lists, "In order")]
    html = figure(picture(session.board, overlay), f"Pipeline schedule. {line}", line, tables, title)
    heading = f"{title}\n" if title else ""
    return {"text/html": html, "text/plain": heading + plain_text(session, overlay)}
