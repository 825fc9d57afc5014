"""A studio as plain JSON for ``static/studio.js``: bars, what can be placed next, sliders, words, and the table of schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from partkit.figures.studio import Board
from partkit.figures.studio_controls import CONTROLS
from partkit.figures.studio_look import KINDS, THEMES, WORDS, looks, narrow
from partkit.figures.studio_measured import measures as measures_of_run
from partkit.figures.studio_rivals import Measures, known, measures, order
from partkit.figures.studio_session import Session
from partkit.figures.studio_state import FORWARD, SPLIT
from partkit.figures.units import count
from partkit.pipeline_parallel import SCHEDULES
from partkit.pipeline_parallel.picture import labels
from partkit.tracing import Trace

OFFERS = 8
"""Most buttons for one rank; anything else can be written."""


class Overlay(NamedTuple):
    """A run of what is on the board."""

    trace: Trace
    unit: float
    """Seconds that one unit of the plan took."""
    where: str
    """``4 live ranks``"""


HEAD = ("schedule", "stages a rank", "makespan", "bubble", "most kept")


def headline(session: Session) -> str:
    """Everything in a line.

    Example:
        >>> print(headline(Session("one_f_one_b", 4, 8)))
        1F1B: 4 ranks, 8 micro-batches; makespan 33, bubble 27 %, at most 4 micro-batches kept on a rank
    """
    found, board = measures(session.board), session.board
    left = f"; {count(board.num_left, 'action')} left to place" if board.num_left else ""
    m = board.schedule.num_microbatches
    size = f"{count(board.schedule.num_ranks, 'rank')}, {m} micro-batch{'' if m == 1 else 'es'}"
    unit = f" micro-batch{'' if found.peak == 1 else 'es'}" if board.costs.memory == 1.0 else ""
    bubble = f"bubble {100 * found.bubble:.0f} %"
    return f"{session.name}: {size}; makespan {found.makespan:.4g}, {bubble}, at most {found.peak:.4g}{unit} kept on a rank{left}"


def rows(session: Session, overlay: Overlay | None = None) -> list[tuple[str, ...]]:
    """The table: what is on the board, its run if there was one, the known schedules.

    Example:
        >>> rows(Session("gpipe", 2, 2))[0]
        ('on the board', '1', '9', '33 %', '2')
    """
    board, found = session.board, measures(session.board)
    lines = [_row("on the board", board, found)]
    if overlay is not None:
        lines.append(_row(f"the same on {overlay.where}", board, measures_of_run(overlay.trace, overlay.unit, found.peak)))
    own = order(board.schedule)
    for other in session.rivals:
        same = not board.num_left and other.order == own and other.board.schedule.placement == board.schedule.placement
        lines.append(_row(other.name + (" (as on the board)" if same else ""), other.board, other.measures))
    return lines


def _row(name: str, board: Board, found: Measures) -> tuple[str, ...]:
    per_rank = len(board.schedule.placement) // board.schedule.num_ranks
    return name, str(per_rank), f"{found.makespan:.4g}", f"{100 * found.bubble:.0f} %", f"{found.peak:.4g}"


def look() -> dict[str, Any]:
    """What the browser gets once: colours, letters, sliders, names of the known schedules."""
    return {
        "looks": looks(),
        "narrow": [[narrow(kind, theme) for kind in range(len(KINDS))] for theme in THEMES],
        "kinds": [[kind[0], words] for kind, words in zip(KINDS, WORDS, strict=True)],
        "controls": [{"key": one.key, "label": one.label, "hint": one.hint, "texts": [one.say(stop) for stop in one.stops]} for one in CONTROLS],
        "schedules": [(key, known(key, 4, 8).name) for key in SCHEDULES],
    }


def spec(session: Session, overlay: Overlay | None = None, can_run: bool = False) -> dict[str, Any]:
    """The studio as JSON.

    Args:
        session: the studio.
        overlay: a run of what is on the board.
        can_run: whether there is a world to run it on.

    Example:
        >>> found = spec(Session("gpipe", 2, 1))
        >>> found["bars"]["label"], found["bars"]["start"]
        (['F0', 'B0', 'F0', 'B0'], [0.0, 4.0, 1.0, 2.0])
    """
    board = session.board
    offers = [board.possible(rank) for rank in range(board.schedule.num_ranks)]
    return {
        "rows": [_stages(board, rank) for rank in range(board.schedule.num_ranks)],
        "bars": bars(board),
        "end": board.plan.makespan,
        "horizon": max((other.measures.makespan for other in session.rivals), default=0.0) if board.num_left else 0.0,
        "offers": [[str(action) for action in own[:OFFERS]] for own in offers],
        "more": [max(0, len(own) - OFFERS) for own in offers],
        "ghosts": [board.stage_costs.seconds(own[0], board.schedule.num_stages) if own else 0.0 for own in offers],
        "controls": {one.key: [one.place(session), one.text(session)] for one in CONTROLS},
        "chosen": session.entry.key or "",
        "split": None if board.kinds == FORWARD else board.kinds == SPLIT,
        "undo": session.can_undo,
        "redo": session.can_redo,
        "left": board.num_left,
        "run": can_run and not board.num_left,
        "unit": overlay.unit if overlay else 0.0,
        "where": overlay.where if overlay else "",
        "line": headline(session),
        "table": [HEAD, *rows(session, overlay)],
        "keys": [""] * (2 if overlay else 1) + [other.key for other in session.rivals],
    }


def _stages(board: Board, rank: int) -> str:
    """A row's name, with its stages if they are not just its own."""
    own = board.schedule.stages_of(rank)
    return f"rank {rank}" if own == (rank,) else f"rank {rank}: {', '.join(map(str, own[:3]))}{'...' if len(own) > 3 else ''}"


def bars(board: Board) -> dict[str, Sequence[Any]]:
    """The plan in columns, a value a bar, ranks one after the other and each in its order."""
    label = labels(board.schedule) if board.made else {}

    def column() -> Iterator[tuple[Any, ...]]:
        for rank, line in enumerate(board.lines):
            stages = board.schedule.stages_of(rank)
            for action, start, end in line:
                yield rank, KINDS.index(action.kind), action.microbatch, start, end, str(action), label[str(action)], stages.index(action.stage)

    names = ("rank", "kind", "microbatch", "start", "end", "name", "label", "chunk")
    found = list(zip(*column(), strict=True)) or [()] * len(names)
    return {name: list(values) for name, values in zip(names, found, strict=True)}
