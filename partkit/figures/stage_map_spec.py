"""What a browser needs to draw a cut: numbers and words, nothing that it would have to work out but places on the screen. Pure.

look     never changes: names of the layers, what each takes, colours of stages
chart    changes with the cut: where stages begin, on which rank, what ranks have in all, words, and the planned schedule
"""

from __future__ import annotations

from typing import Any

from partkit.figures.palette import PAGE, Theme, ink
from partkit.figures.stage_map import PANELS, Layer, Stage, amount, by_rank, headline, sums
from partkit.figures.stage_map_picture import COLUMNS, rows
from partkit.figures.stage_map_session import MEASURES, Session
from partkit.figures.stepper_still import RANK_COLORS
from partkit.figures.studio_look import mix
from partkit.pipeline_parallel.action import Action
from partkit.tracing import KIND_CODE, Trace

SHADES = (0.45, 0.75)
"""Of neighbouring layers of a stage, parts of its hue; a forward of the plan has the first, a backward the whole hue."""
MOST_BARS = 3_000
"""Actions of a plan that are drawn; more would be too narrow to tell apart."""
THEMES: tuple[Theme, Theme] = ("light", "dark")


def look(layers: tuple[Layer, ...]) -> dict[str, Any]:
    """What never changes, as JSON.

    Example:
        >>> found = look((Layer("a", 0.002, 10, 5),))
        >>> found["layers"], found["words"][0]
        ([['a', 0.002, 10, 5]], ['2 ms', '10 bytes', '5 bytes'])
    """
    return {
        "layers": [list(layer) for layer in layers],
        "words": [[amount(value, panel) for panel, value in enumerate(layer[1:])] for layer in layers],
        "measures": [[measure, panel] for measure, panel in zip(MEASURES, PANELS, strict=True)],
        "colors": [[_shades(hues[number], theme) for hues in RANK_COLORS] for number, theme in enumerate(THEMES)],
    }


def _shades(hue: str, theme: Theme) -> list[list[str]]:
    """Filling and ink of a stage's even layers, of its odd ones, and of its backwards."""
    fills = [*(mix(hue, PAGE[theme].fill, part) for part in SHADES), hue]
    return [[fill, ink(fill)] for fill in fills]


def chart(session: Session) -> dict[str, Any]:
    """What changes with the cut, as JSON.

    Example:
        >>> found = chart(Session([("a", 0.002, 10, 5), ("b", 0.001, 10, 5)], [1]))
        >>> found["cut"], found["totals"], found["means"]
        ([1], [[0.002, 10, 5], [0.001, 10, 5]], [0.0015, 10.0, 5.0])
    """
    split = session.split
    totals = [sums(own) for own in by_rank(split.stages)]
    undo, redo = session.undoable
    return {
        "cut": list(split.cut),
        "stages": [_stage(stage) for stage in split.stages],
        "totals": [list(own) for own in totals],
        "words": [[amount(value, panel) for panel, value in enumerate(own)] for own in totals],
        "means": (means := [sum(own[panel] for own in totals) / len(totals) for panel in range(len(PANELS))]),
        "mean_words": [amount(value, panel) for panel, value in enumerate(means)],
        "line": headline(split.stages),
        "plan": split.line(session.even),
        "bars": bars(split.plan),
        "table": [list(COLUMNS), *(list(row) for row in rows(split.stages))],
        "undo": undo,
        "redo": redo,
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {"number": stage.number, "rank": stage.rank, "size": len(stage.layers), "flight": stage.in_flight, "share": stage.share}


def bars(plan: Trace) -> list[list[float]]:
    """The actions of a plan: rank, stage, whether it is a forward, start and end; none if they are too many to draw.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b, simulate
        >>> bars(simulate(one_f_one_b(1, 1)))
        [[0, 0, 1, 0.0, 1.0], [0, 0, 0, 1.0, 3.0]]
    """
    found = plan.columns[plan.columns["kind"] == KIND_CODE["compute"]]
    if len(found) > MOST_BARS:
        return []
    named = {tag: Action.parse(plan.strings[tag]) for tag in set(found["tag"].tolist())}
    parts = zip(*(found[name].tolist() for name in ("rank", "tag", "start", "end")), strict=True)
    return [[rank, named[tag].stage, int(named[tag].kind == "F"), start, end] for rank, tag, start, end in parts]
