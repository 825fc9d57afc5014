"""`Curve`: the numbers that ranks note with ``comm.log``, live.

    pk.Curve(world)                      all metrics of the newest run of a world, a panel a metric
    pk.Curve(run, "loss", log=True)      one metric of one run
    pk.Curve(trace, x="seconds")         a trace that was measured, simulated or loaded, over its own clock

Ranks that note the same share a line, so four replicas in step are one line called "ranks 0-3"; a rank that drifts away becomes a
line of its own. What is drawn, and what is the same: `partkit.figures.curve`. How it is fed, shown and stored: `partkit.widgets.live`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import traitlets

from partkit.figures.curve import CurveEncoder
from partkit.figures.curve_picture import SHAPES, XAxis, bundle
from partkit.figures.palette import LINES, MARKERS
from partkit.widgets.assets import elements, read, script
from partkit.widgets.feed import Feed
from partkit.widgets.live import LiveView
from partkit.widgets.showing import Bundle


class Curve(LiveView):
    """A panel a metric, a line for all ranks that note the same; grows while the run goes on.

    Args:
        source: a `Trace`, or anything whose ``trace`` is one: a world (its newest run is followed), a run.
        *names: the metrics to show, in this order; by default all, as they appear.
        x: what a value's place is: "step", the count of numbers that its rank noted under this name, from 1; or "seconds" since
            the start of the run, in the clock of the trace.
        log: logarithmic scale upward; what is not above zero has no place on it.
        height: of the picture, in pixels; by default it fits the number of metrics.
        title: shown above it.

    Attributes:
        x: may be set, also by the reader.
        log: the same.

    Raises:
        TypeError: ``source`` has no trace, or a name is no string.
        ValueError: ``x`` or ``height`` is none of the possible ones.

    Example:
        >>> from partkit.tracing import Event, Trace
        >>> trace = Trace.from_events([Event(rank, "metric", t, t, tag="loss", value=1 / (1 + t)) for rank in (0, 1) for t in (0, 1)])
        >>> curve = Curve(trace, "loss")
        >>> print(curve._repr_mimebundle_()["text/plain"])
        loss, 4 values of 2 ranks
        metric      ranks  values  first  last  minimum  at step
          loss  ranks 0-1       2      1   0.5      0.5        2
        >>> curve.close()
    """

    _esm = script("common.js", "furnish.js", "blocks.js", "placing.js", "curve_lines.js", "curve_panel.js", "curve.js", "model.js")
    _css = read("view.css")

    x = traitlets.Unicode("step").tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)

    def __init__(self, source: Any, *names: str, x: XAxis = "step", log: bool = False, height: int | None = None, title: str = "") -> None:
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"Curve(..., {name!r}): the name of a metric is a string, as in comm.log; this is a {type(name).__name__}")
        self._names = names
        feed = Feed(source, "Curve", partial(CurveEncoder, names=names))
        look = {"colors": LINES, "markers": [SHAPES[name] for name in MARKERS], "html": elements("curve.html")}
        super().__init__(feed, look, title=title, height=height, x=x, log=log)

    @traitlets.validate("x")
    def _check_x(self, proposal: dict[str, Any]) -> str:
        value: str = proposal["value"]
        if value not in ("step", "seconds"):
            raise ValueError(f'Curve(x={value!r}): x is "step" or "seconds"')
        return value

    def _picture(self) -> Bundle:
        x: XAxis = "seconds" if self.x == "seconds" else "step"
        return dict(bundle(self.trace, self._names, x=x, log=self.log, title=self._title))
