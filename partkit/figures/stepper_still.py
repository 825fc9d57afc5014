"""A run message by message as a still picture: a storyboard. Rows are ranks, columns are moments, arrows the messages between.

            start               after round 1          after round 2
    rank 0  [1 2 3 4]  --.      [1 2 3 4+8]   --.      ...
    rank 1  [5 6 7 8]    '-->   [1+5 6 7 8]     '-->

Under each element lie layers, one a rank, filled where that rank's data is in it: the uppermost layer is rank 0's. So the place of a
layer says what its colour says, and an element of which all ranks are part is filled from top to bottom. A run that was not
recorded shows its messages only. Of many rounds some are chosen, of many ranks the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

from partkit.figures.palette import PAGE
from partkit.figures.stepper import Board, Story
from partkit.tracing import Strip

WIDTH, LEFT, HEAD, GAP = 960, 74, 30, 64
MOST_COLUMNS, MOST_PLAIN_COLUMNS, MOST_ROWS, MOST_STRIPS, MOST_ARROWS = 6, 12, 16, 3, 400
TEXT = 15
"""Height of a line of values, and pixels of a digit."""
DIGIT = 6.2
RANK_COLORS: tuple[tuple[str, str], ...] = (
    ("#0072B2", "#4ba3db"),
    ("#E69F00", "#E69F00"),
    ("#009E73", "#1fb88d"),
    ("#CC79A7", "#CC79A7"),
    ("#D55E00", "#e8792f"),
    ("#56B4E9", "#a5d8f7"),
    ("#4d545c", "#c9ced6"),
)
"""Of rank 0, 1, ... on a light and on a dark page, then from the start again; the place of a layer tells the others apart."""


class _Grid(NamedTuple):
    """Where things are."""

    moments: tuple[int, ...]
    """For each column the number of rounds that have gone before."""
    num_rows: int
    wide: float
    """Of a column's boards; 0 if there are none."""
    gap: float
    """Between two columns, for the arrows."""
    tall: float
    """Of a row."""
    text: float
    """Height of a strip's values; 0 if there is no room for them."""
    layers: float
    """Height of a strip's layers."""

    def x(self, column: int) -> float:
        return LEFT + column * (self.wide + self.gap)

    def y(self, row: int) -> float:
        return HEAD + row * self.tall


def storyboard(story: Story) -> str:
    """The picture, for white paper.

    Example:
        >>> from partkit.figures.stepper import story
        >>> from partkit.tracing import Event, Trace
        >>> storyboard(story(Trace.from_events([Event(0, "compute", 0.0, 1.0)])))[:4]
        '<svg'
    """
    grid = _lay_out(story)
    height = HEAD + grid.num_rows * grid.tall + 8
    page = PAGE["light"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" font-family="sans-serif" '
        f'font-size="12" fill="{page.edge}"><rect width="{WIDTH}" height="{height:.0f}" fill="{page.fill}"/>'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>',
        *_frame(story, grid),
    ]
    for column, moment in enumerate(grid.moments):
        before = sum(step.round <= moment for step in story.steps)
        for row in range(grid.num_rows if story.boards else 0):
            board = board_at(story.boards[row], before)
            parts += _board(board, story.size, grid, grid.x(column), grid.y(row))
    return "".join([*parts, *_arrows(story, grid), "</svg>"])


def board_at(boards: tuple[Board, ...], before: int) -> tuple[Strip, ...]:
    """What a rank holds after ``before`` messages."""
    known = [board.strips for board in boards if board.since <= before]
    return known[-1] if known else ()


def _lay_out(story: Story) -> _Grid:
    most = MOST_COLUMNS if story.boards else MOST_PLAIN_COLUMNS
    last = story.num_rounds
    moments = tuple(sorted({round(i * last / (most - 1)) for i in range(most)}))
    num_rows = min(story.size, MOST_ROWS)
    if not story.boards:
        return _Grid(moments, num_rows, 0.0, min(110.0, (WIDTH - LEFT - 10) / max(1, len(moments) - 1)), 34.0, 0.0, 0.0)
    wide = min(240.0, (WIDTH - LEFT - 10 - (len(moments) - 1) * GAP) / len(moments))
    layers = max(20.0, 2.0 * story.size)
    shown = [board.strips[:MOST_STRIPS] for boards in story.boards[:num_rows] for board in boards]
    fits = all(_fits(strips, wide) for strips in shown)
    strips = max(map(len, shown), default=1)
    return _Grid(moments, num_rows, wide, GAP, max(1, strips) * (TEXT * fits + layers + 6) + 12, TEXT * fits, layers)


def _cell(strips: tuple[Strip, ...], wide: float) -> float:
    """Width of an element."""
    return min(46.0, wide / max((len(strip.values) for strip in strips), default=1))


def _fits(strips: tuple[Strip, ...], wide: float) -> bool:
    """Whether there is room for the values of all elements."""
    return max((len(value) for strip in strips for value in strip.values), default=0) * DIGIT <= _cell(strips, wide) - 1


def _frame(story: Story, grid: _Grid) -> Iterator[str]:
    """Names of rows and columns."""
    for row in range(grid.num_rows):
        middle = grid.y(row) + grid.tall / 2 - 4
        if row % 2 == 0:
            yield f'<rect x="0" y="{grid.y(row):.1f}" width="{WIDTH}" height="{grid.tall:.1f}" opacity=".04"/>'
        yield f'<rect x="6" y="{middle - 9:.1f}" width="8" height="16" fill="{RANK_COLORS[row % len(RANK_COLORS)][0]}"/>'
        yield f'<text x="19" y="{middle + 4:.1f}" font-weight="600">rank {row}</text>'
        if not grid.wide:
            yield f'<path d="M{LEFT} {middle:.1f}H{WIDTH - 10}" stroke="#1f2328" opacity=".3"/>'
    for column, moment in enumerate(grid.moments):
        middle = grid.x(column) + grid.wide / 2
        name = "start" if moment == 0 else f"after round {moment}" if grid.wide else f"round {moment}"
        if moment or grid.wide:
            yield f'<text x="{middle - (0 if grid.wide else grid.gap / 2):.1f}" y="19" text-anchor="middle">{name}</text>'


def _board(strips: tuple[Strip, ...], size: int, grid: _Grid, x: float, y: float) -> Iterator[str]:
    """What one rank holds: values over layers, strip under strip."""
    cell = _cell(strips[:MOST_STRIPS], grid.wide)
    for index, strip in enumerate(strips[:MOST_STRIPS]):
        top = y + 6 + index * (grid.text + grid.layers + 6) + grid.text
        wide = cell * len(strip.values)
        for i, value in enumerate(strip.values if grid.text else ()):
            yield f'<text x="{x + (i + 0.5) * cell:.1f}" y="{top - 4:.1f}" font-size="11" text-anchor="middle">{escape(value)}</text>'
        yield from _layers(strip.who, size, cell, x, (top, grid.layers))
        marks = "".join(f"M{x + i * cell:.1f} {top:.1f}v{grid.layers:.1f}" for i in range(1, len(strip.values))) if cell >= 6 else ""
        yield f'<path d="M{x:.1f} {top:.1f}h{wide:.1f}v{grid.layers:.1f}h{-wide:.1f}z{marks}" stroke="#1f2328" stroke-width=".7" fill="none"/>'
    if len(strips) > MOST_STRIPS:
        yield f'<text x="{x + grid.wide:.1f}" y="{y + grid.tall - 2:.1f}" font-size="10" text-anchor="end">and {len(strips) - MOST_STRIPS} more</text>'


def _layers(who: tuple[int, ...], size: int, cell: float, x: float, band: tuple[float, float]) -> Iterator[str]:
    """One rectangle for each stretch of elements that a rank's data is in; ``band`` is top and height of all layers."""
    top, each = band[0], band[1] / size
    for rank in range(size):
        runs = _stretches([bool(one >> rank & 1) for one in who])
        path = "".join(f"M{x + first * cell:.1f} {top + rank * each:.1f}h{count * cell:.1f}v{each:.1f}h{-count * cell:.1f}z" for first, count in runs)
        if path:
            yield f'<path d="{path}" fill="{RANK_COLORS[rank % len(RANK_COLORS)][0]}"/>'


def _stretches(flags: list[bool]) -> Iterator[tuple[int, int]]:
    """First index and length of each run of True."""
    first = None
    for index, flag in enumerate([*flags, False]):
        if flag and first is None:
            first = index
        elif not flag and first is not None:
            yield first, index - first
            first = None


def _arrows(story: Story, grid: _Grid) -> Iterator[str]:
    """The messages between each column and the one before."""
    lines = []
    for column in range(1, len(grid.moments)):
        between = [step for step in story.steps if grid.moments[column - 1] < step.round <= grid.moments[column]]
        left, right = grid.x(column) - grid.gap + 8, grid.x(column) - 8
        for step in between:
            if max(step.src, step.dst) < grid.num_rows:
                ends = [grid.y(rank) + grid.tall / 2 - 4 + nudge for rank, nudge in ((step.src, 3), (step.dst, -3))]
                lines.append(f'<path d="M{left:.1f} {ends[0]:.1f}L{right:.1f} {ends[1]:.1f}"/>')
    if lines:
        yield f'<g stroke="#1f2328" stroke-width="1.3" fill="none" marker-end="url(#head)">{"".join(lines[:MOST_ARROWS])}</g>'
