"""`CommMatrix`: who sends how much to whom, live, for any phase of the run.

    pk.CommMatrix(world)                          follows the newest run of a world
    pk.CommMatrix(trace, phase="all_reduce")      what the all-reduces of a trace sent
    pk.CommMatrix(trace, unit="messages")         counts instead of bytes

A ring is a diagonal, a tree a few far cells, an all-to-all a full square, a mesh blocks and stripes: the algorithm can be
seen. What a phase is, and what the blocks hold: `partkit.figures.comm_matrix`. How it is shown and stored: `partkit.widgets.live`.
"""

from __future__ import annotations

from typing import Any

import traitlets

from partkit.figures.comm_matrix import EVERYTHING, MatrixEncoder, Unit, measure
from partkit.figures.comm_matrix_picture import LEVELS, bundle
from partkit.figures.palette import amounts, ink
from partkit.widgets.assets import elements, read, script
from partkit.widgets.feed import Feed
from partkit.widgets.live import LiveView
from partkit.widgets.showing import Bundle


class CommMatrix(LiveView):
    """A square of ranks by ranks: a row for each sender, a column for each receiver; grows while the run goes on.

    Args:
        source: a `Trace`, or anything whose ``trace`` is one: a world (its newest run is followed), a run.
        unit: "bytes" or "messages".
        phase: the name of a span, or of a collective, or "group tp" for what went along an axis, or "no span" for what was sent
            outside of any; all messages by default. While a run goes on it may be a name that is still to come.
        log: colours on a logarithmic scale.
        height: of the picture, in pixels; by default it fits the number of ranks.
        title: shown above it.

    Attributes:
        unit: may be set, also by the reader.
        phase: the same.
        log: the same.

    Raises:
        TypeError: ``source`` has no trace.
        ValueError: ``unit``, ``phase`` or ``height`` is none of the possible ones.

    Example:
        >>> from partkit.tracing import Event, Trace
        >>> trace = Trace.from_events([Event(0, "send", 0, 1, peer=1, nbytes=8000, span="step"), Event(1, "send", 0, 1, peer=0, nbytes=500)])
        >>> matrix = CommMatrix(trace, phase="step")
        >>> print(matrix._repr_mimebundle_()["text/plain"])
        bytes sent, step, 2 ranks: 8,000 bytes in 1 message
        from / to  0      1   sent
                0  .  8,000  8,000
                1  .      .      0
         received  0  8,000  8,000
        >>> matrix.close()
    """

    _esm = script("common.js", "furnish.js", "blocks.js", "matrix_store.js", "matrix.js", "model.js")
    _css = read("view.css")

    unit = traitlets.Unicode("bytes").tag(sync=True)
    phase = traitlets.Unicode(EVERYTHING).tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)

    def __init__(self, source: Any, *, unit: Unit = "bytes", phase: str = EVERYTHING, log: bool = False, height: int | None = None, title: str = "") -> None:
        feed = Feed(source, "CommMatrix", MatrixEncoder)
        if feed.finished and not feed.endless:
            _check_phase(feed, phase)
        colors = {theme: amounts(theme, LEVELS) for theme in ("light", "dark")}
        look = {**colors, **{f"{theme}_ink": [ink(color) for color in own] for theme, own in colors.items()}, "html": elements("matrix.html")}
        super().__init__(feed, look, title=title, height=height, unit=unit, phase=phase, log=log)

    @traitlets.validate("unit")
    def _check_unit(self, proposal: dict[str, Any]) -> str:
        value: str = proposal["value"]
        if value not in ("bytes", "messages"):
            raise ValueError(f'CommMatrix(unit={value!r}): unit is "bytes" or "messages"')
        return value

    def _picture(self) -> Bundle:
        unit: Unit = "messages" if self.unit == "messages" else "bytes"
        return dict(bundle(self.trace, self.phase, unit, log=self.log, title=self._title))


def _check_phase(feed: Feed, phase: str) -> None:
    """Refuse what no message of a finished run is in."""
    known = [found.label for found in measure(feed.trace).phases()]
    if phase not in known:
        others = ", ".join(map(repr, known[1:13])) + (", ..." if len(known) > 13 else "")
        raise ValueError(f"CommMatrix(phase={phase!r}): no message of this run is in it; there are {others or 'no messages at all'}")
