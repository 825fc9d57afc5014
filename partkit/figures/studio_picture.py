"""A studio as a still picture with tables and a text: what stays of it in a saved notebook.

    rank 0 |F0|F1|F2|F3|      |B0  |F4|B1  |       a row a rank: the plan
           |F0|F1|F2|F3|       |B0  |F4|B1  |      lower, under it: the same as it was measured, if it ran

How bars are drawn: `partkit.figures.studio_bars`. Colours are for white paper, since an image cannot know its page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from partkit.figures.bundle import figure, table
from partkit.figures.palette import PAGE
from partkit.figures.studio import Board
from partkit.figures.studio_bars import PATTERNS, Bar, drawing, legend
from partkit.figures.studio_look import HEIGHTS, KINDS
from partkit.figures.studio_measured import in_units
from partkit.figures.studio_session import Session
from partkit.figures.studio_spec import HEAD, Overlay, headline, rows
from partkit.figures.units import round_numbers
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.picture import grid, labels

WIDTH, TOP, FOOT, RIGHT = 960, 30, 34, 12
MOST_COLUMNS = 120


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
    drawn = drawing(bars)
    height, page = TOP + ranks * tall + FOOT, PAGE["light"]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" font-family="sans-serif" '
        f'font-size="12" fill="{page.edge}"><defs>{PATTERNS}</defs><rect width="{WIDTH}" height="{height:.0f}" fill="{page.fill}"/>'
    )
    return "".join([head, *_legend(bars, bool(run)), *_rows(board, frame), *_axis(frame, height), *drawn, "</svg>"])


def _legend(bars: Sequence[Bar], measured: bool) -> Iterator[str]:
    yield from legend(bars)
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
