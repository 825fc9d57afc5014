"""`Timeline`: a run's trace, live, to zoom and to ask.

    pk.Timeline(world)         follows the newest run of a world
    run = world.start(fn)
    pk.Timeline(run)           follows one run
    pk.Timeline(trace)         a trace that was measured, simulated, planned or loaded

What is on the screen and what is stored are two things. On the screen is a canvas that a kernel feeds: events travel in binary
blocks (12 bytes each, `partkit.figures.encoding`), at most 20 a second, written by one thread. Stored is a still picture with a
table and a text, which needs neither kernel nor trust. A widget stored in a notebook would show as "Error displaying widget:
model not found" in a JupyterLab without its kernel, and storing its state would need megabytes. So the output is replaced:

    a run ends                            Python replaces the output by the still picture
    a finished trace is shown             the browser reports that it is on the screen; then the same
    JupyterLab, Notebook                  the canvas takes its seat inside the still picture: it goes on working
    elsewhere, or with the kernel gone    the still picture stays; `Timeline.replay` shows a finished run as a new view

The same script keeps the canvas in its seat when the world's next run replaces the picture, and reports when the last place is
gone (the cell was run again, say): then the widget closes itself, so that reruns leave nothing behind.
"""

from __future__ import annotations

from typing import Any

from partkit.figures.bundle import numbers_bundle, timeline_bundle
from partkit.figures.palette import style_specs
from partkit.figures.units import CLOCK_NAMES, count
from partkit.tracing import Event, Trace
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed, Pump
from partkit.widgets.showing import Bundle, Outputs, is_static, widget_bundle

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise ImportError(
        "pk.Timeline is a live view and needs anywidget: pip install 'partkit[notebook]' (a still picture needs nothing: partkit.figures.bundle.timeline(trace))"
    ) from missing

_QUICK_PICTURE = 100_000
"""Events up to which the still picture is drawn before the widget is shown; drawing it later makes the first sight faster."""


class Timeline(anywidget.AnyWidget):  # type: ignore[misc]
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
        >>> plan = Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="forward")], clock="planned")
        >>> timeline = Timeline(plan)
        >>> timeline.selected = 0
        >>> timeline.selected_event.tag
        'forward'
        >>> timeline.close()
    """

    _esm = script("store.js", "paint.js", "view.js", "model.js")
    _css = read("timeline.css")

    look = traitlets.Dict().tag(sync=True)
    """What never changes: the kinds' styles, the elements of a view."""
    meta = traitlets.Dict().tag(sync=True)
    """What changes with a run's beginning and end."""
    snapshot = traitlets.Bytes().tag(sync=True)
    """All events, for those who come late: set when the run ends, or when a browser has missed some."""
    selected = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, source: Any, *, height: int | None = None, title: str = "") -> None:
        if height is not None and not 40 <= height <= 10_000:
            raise ValueError(f"Timeline(height={height!r}): height is a number of pixels from 40 to 10000")
        self._source, self._height, self._title = source, height, title
        self._feed = Feed(source)
        self._outputs = Outputs()
        finished = self._feed.finished
        self._blocks = [self._feed.encoder.encode()]
        super().__init__(look={"kinds": style_specs(), "html": read("timeline.html")}, meta=self._describe(live=not finished), snapshot=self._blocks[0])
        self.on_msg(lambda _, message, __: self._hear(message))
        self._pump: Pump | None = None
        self._start()

    @property
    def trace(self) -> Trace:
        """The trace that is shown."""
        return self._feed.trace

    @property
    def selected_event(self) -> Event | None:
        """The selected event, or None."""
        if self.selected is None or not 0 <= self.selected < len(self.trace):
            return None
        return self.trace.event(self.trace.columns[self.selected])

    def replay(self) -> Timeline:
        """A new view of the same source."""
        return Timeline(self._source, height=self._height, title=self._title)

    def close(self) -> None:
        """Stop following and free everything; the outputs stay as they are."""
        if self._pump is not None:
            self._pump.stop()
        self._outputs.forget()
        super().close()

    # -- showing -------------------------------------------------------------------------------------------------

    def _repr_mimebundle_(self, **options: Any) -> Bundle:
        still = self._still()
        return still if is_static() else widget_bundle(self.model_id, still)

    def _ipython_display_(self, **options: Any) -> None:
        if is_static():
            self._outputs.show(timeline_bundle(self.trace, self._title), replaceable=False)
            return
        if self.comm is None:  # closed when its last view was gone
            self.open()
            self._start()
        self._outputs.show(widget_bundle(self.model_id, self._still()), replaceable=True)

    def _still(self) -> Bundle:
        make = timeline_bundle if len(self.trace) <= _QUICK_PICTURE else numbers_bundle
        return dict(make(self.trace, self._title))

    def _freeze(self) -> None:
        if len(self._outputs):
            self.meta = {**self._describe(live=False), "frozen": True}
            self._outputs.replace(lambda: timeline_bundle(self.trace, self._title))

    def _hear(self, message: dict[str, str]) -> None:
        """What a browser reports."""
        kind = message.get("type")
        if kind == "shown" and not self.meta["live"]:
            self._freeze()
        elif kind == "resend":
            self._send_all()
        elif kind == "gone":
            self.close()

    def __repr__(self) -> str:
        return f"Timeline({self.trace!r})"

    # -- following -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        running = not self._feed.finished or self._feed.endless
        if running:
            self._pump = Pump(self._feed, self)
            self._pump.start()

    def began(self) -> None:
        """The source has started another run."""
        self._blocks = []
        self.meta = self._describe(live=True)

    def grew(self, block: bytes, first: int) -> None:
        """Send new events to all browsers."""
        self._blocks.append(block)
        self.send({"type": "events", "run": self._feed.number, "size": self.trace.size, "first": first}, [block])

    def ended(self) -> None:
        """The run is over: keep everything for those who come late, and store the still picture."""
        self._send_all()
        self._freeze()

    def _send_all(self) -> None:
        with self.hold_sync():
            self.meta = self._describe(live=not self._feed.finished)
            self.snapshot = b"".join(self._blocks)

    def _describe(self, *, live: bool) -> dict[str, Any]:
        trace, encoder = self._feed.trace, self._feed.encoder
        notes = [
            f"{count(encoder.num_plain, 'event')} without details" if encoder.num_plain else "",
            f"{count(encoder.num_left_out, 'event')} of further ranks left out" if encoder.num_left_out else "",
        ]
        return {
            "title": self._title,
            "height": self._height,
            "size": trace.size,
            "clock": CLOCK_NAMES[trace.clock],
            "live": live,
            "frozen": False,
            "run": self._feed.number,
            "total": encoder.num_events,
            "note": ", ".join(filter(None, notes)),
        }
