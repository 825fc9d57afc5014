"""`Timeline`: a run's trace, live, to zoom and to ask.

    pk.Timeline(world)         follows the newest run of a world
    run = world.start(fn)
    pk.Timeline(run)           follows one run
    pk.Timeline(trace)         a trace that was measured, simulated, planned or loaded

Events travel to a canvas at 12 bytes each (`partkit.figures.encoding`). What is on the screen, what is stored, and how the one
becomes the other: `partkit.widgets.live`.
"""

from __future__ import annotations

from typing import Any

import traitlets

from partkit.figures.bundle import numbers_bundle, timeline_bundle
from partkit.figures.palette import style_specs
from partkit.tracing import Event
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed
from partkit.widgets.live import LiveView
from partkit.widgets.showing import Bundle

_QUICK_PICTURE = 20_000
"""Events up to which the still picture is drawn before the widget is shown; drawing it later makes the first sight faster."""


class Timeline(LiveView):
    """Rows of ranks, a bar an event, an arrow a message; grows while the run goes on.

    Args:
        source: a `Trace`, or anything whose ``trace`` is one: a world (its newest run is followed), a run.
        height: of the picture, in pixels; by default it fits the number of ranks.
        title: shown above it.

    Attributes:
        selected: number of the selected event in the order of ``trace.columns``, or None; may be set.

    Raises:
        TypeError: ``source`` has no trace.
        ValueError: ``height`` is not a sensible number of pixels.

    Example:
        >>> from partkit.tracing import Trace
        >>> plan = Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="forward")], clock="planned")
        >>> timeline = Timeline(plan)
        >>> timeline.selected = 0
        >>> timeline.selected_event.tag
        'forward'
        >>> timeline.close()
    """

    _esm = script("common.js", "store.js", "paint.js", "view.js", "model.js")
    _css = read("view.css")

    selected = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, source: Any, *, height: int | None = None, title: str = "") -> None:
        self._source = source
        super().__init__(
            Feed(source), {"kinds": style_specs(), "html": read("timeline.html").replace("<!-- legend -->", _legend())}, title=title, height=height
        )

    @property
    def selected_event(self) -> Event | None:
        """The selected event, or None."""
        if self.selected is None or not 0 <= self.selected < len(self.trace):
            return None
        return self.trace.event(self.trace.columns[self.selected])

    def replay(self) -> Timeline:
        """A new view of the same source."""
        return Timeline(self._source, height=self._height, title=self._title)

    def _picture(self) -> Bundle:
        return dict(timeline_bundle(self.trace, self._title))

    def _still(self) -> Bundle:
        return self._picture() if len(self.trace) <= _QUICK_PICTURE else dict(numbers_bundle(self.trace, self._title))


def _legend() -> str:
    """The letter and the name of each kind, with its colours on light and on dark pages as CSS variables."""
    chips = []
    for style in style_specs():
        paints = {f"{theme}-{part}": color for theme in ("light", "dark") for part, color in zip(("fill", "edge", "ink"), style[theme], strict=True)}
        variables = ";".join(f"--{name}:{color}" for name, color in paints.items())
        chips.append(f'<span><i style="{variables}">{style["letter"]}</i> {style["name"]}</span>')
    return "".join(chips)
