"""What every live view of a run has in common: it follows a source, feeds its canvas, and leaves a still picture behind.

What is on the screen and what is stored are two things. On the screen is a canvas that a kernel feeds: what is new travels in
binary blocks, at most 20 a second, written by one thread. Stored is a still picture with a table and a text, which needs neither
kernel nor trust. A widget stored in a notebook would show as "Error displaying widget: model not found" in a JupyterLab without
its kernel, and storing its state would need megabytes. So the output is replaced:

    a long trace is shown                 first what the first picture needs (`partkit.figures.sketch`), then everything, unasked
    a run ends                            Python replaces the output by the still picture
    a finished trace is shown             the browser reports that it is on the screen; then the same
    JupyterLab, Notebook                  the canvas takes its seat inside the still picture: it goes on working
    elsewhere, or with the kernel gone    the still picture stays; showing the view again shows a finished run as a new view
    PARTKIT_STATIC=1                      the still picture only, once the run is over (nobody watches, and tools that run notebooks
                                          drop what comes after the cell); after a minute as it is, brought up to date once

The same script (``static/model.js``) keeps the canvas in its seat when the world's next run replaces the picture, and reports when
the last place is gone: then the widget closes itself. It also does when its cell runs again, so that reruns leave nothing behind,
however fast they follow each other.
"""

from __future__ import annotations

import threading
from typing import Any

from partkit.figures.units import CLOCK_NAMES
from partkit.tracing import Trace
from partkit.widgets.feed import Feed, Pump
from partkit.widgets.showing import Bundle, Outputs, is_static, widget_bundle

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise ImportError("a live view needs anywidget: pip install 'partkit[notebook]' (still pictures need nothing: see partkit.figures)") from missing


PATIENCE = 60.0
"""Seconds for which a still picture waits for the end of its run."""
FIRST_SIGHT = 1.0
"""Seconds after which everything follows a sketch, if no browser has said before that it shows that."""


class LiveView(anywidget.AnyWidget):
    """A widget that follows a `Feed`. A subclass says how it looks alive (``_esm``, ``_css``) and still (`_picture`).

    Args:
        feed: what is followed.
        look: what the browser gets once: styles, the elements of a view.
        title: shown above it.
        height: of the picture in pixels; None for what fits.

    Raises:
        ValueError: ``height`` is not a sensible number of pixels.
    """

    look = traitlets.Dict().tag(sync=True)
    """What never changes: styles, the elements of a view."""
    meta = traitlets.Dict().tag(sync=True)
    """What changes with a run's beginning and end."""
    snapshot = traitlets.Bytes().tag(sync=True)
    """All blocks, for those who come late: set when the run ends, or when a browser has missed some."""

    _pump: Pump | None = None
    _seen = False
    """A browser has said that it shows the run, which is over."""

    def __init__(self, feed: Feed, look: dict[str, Any], *, title: str = "", height: int | None = None, **traits: Any) -> None:
        if height is not None and not 40 <= height <= 10_000:
            raise ValueError(f"{type(self).__name__}(height={height!r}): height is a number of pixels from 40 to 10000")
        self._feed, self._title, self._height = feed, title, height
        self._outputs = Outputs(self.close)
        self._changing = threading.RLock()  # of what the browser was told: a pump and a reader may both change it
        finished = feed.finished
        self._opening, self._sketched = self._sketch()
        self._blocks = [] if self._opening else [feed.encoder.encode()]
        super().__init__(look=look, meta=self._describe(live=not finished), snapshot=self._everything(), **traits)
        self.on_msg(lambda _, message, __: self._hear(message))
        self._start()

    @property
    def trace(self) -> Trace:
        """The trace that is shown."""
        return self._feed.trace

    def close(self) -> None:
        """Stop following and free everything; the outputs stay as they are."""
        if self._pump is not None:
            self._pump.stop()
        if hasattr(self, "_outputs"):  # else its making has failed
            self._outputs.forget()
        super().close()
        self.layout.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.trace!r})"

    # -- showing -------------------------------------------------------------------------------------------------

    def _sketch(self) -> tuple[bytes, int]:
        """What gives the first picture of a long trace sooner than all of it, and of how many events it is; by default nothing."""
        return b"", 0

    def _picture(self) -> Bundle:
        """The still twin."""
        raise TypeError(f"{type(self).__name__} has no still twin: define _picture")

    def _still(self) -> Bundle:
        """What is shown beside the canvas before the run is over: the still twin, or what takes less time to make."""
        return self._picture()

    def _repr_mimebundle_(self, **options: Any) -> Bundle:  # type: ignore[override]  # its parent promises metadata that no view has
        still = self._still()
        return still if is_static() else widget_bundle(self.model_id, still)

    def _ipython_display_(self, **options: Any) -> None:
        if is_static():
            self._feed.wait(PATIENCE)
            self._outputs.show(self._picture(), replaceable=not self._feed.finished)
            return
        if self.comm is None:  # closed when its last view was gone
            self.layout.open()
            self.open()
            self._start()
        self._outputs.show(widget_bundle(self.model_id, self._still()), replaceable=True)

    def _freeze(self) -> None:
        if len(self._outputs):
            self._tell_frozen()
            self._outputs.replace(self._picture)
        if is_static():
            self._outputs.forget()

    def _tell_frozen(self) -> None:
        with self._changing:
            self.meta = {**self._describe(live=False), "frozen": True}

    def _hear(self, message: dict[str, str]) -> None:
        """What a browser reports."""
        kind = message.get("type")
        if kind == "shown" and not self.meta["live"]:
            self._seen = True
            if self._sketched and self._pump is not None:
                self._pump.hurry()  # the still picture comes after the details
            else:
                self._freeze()
        elif kind == "resend":
            self._send_all()
        elif kind == "gone":
            self.close()

    # -- following -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self.meta["live"] or self._feed.endless or self._sketched:  # by what the browser was told: the run may have ended since
            self._pump = Pump(self._feed, self, FIRST_SIGHT if self._sketched else 0.0)
            self._pump.start()

    def began(self) -> None:
        """The source has started another run."""
        with self._changing:
            self._blocks, self._opening, self._sketched = [], b"", 0
            self.meta = self._describe(live=True)

    def grew(self, block: bytes, first: int) -> None:
        """Send what is new to all browsers; after a sketch everything follows as one snapshot."""
        self._blocks.append(block)
        if not self._sketched:
            self.send({"type": "events", "run": self._feed.number, "size": self.trace.size, "first": first}, [block])

    def ended(self) -> None:
        """The run is over: keep everything for those who come late, and store the still picture.

        Of a run that was over before, the picture is stored as soon as a browser shows it.
        """
        freezing = (self.meta["live"] or self._seen) and len(self._outputs) > 0
        with self.hold_sync():  # told at once: a browser that hears first of the end only would ask for a second picture
            self._send_all()
            if freezing:
                self._tell_frozen()
        if freezing or is_static():
            self._freeze()

    def _send_all(self) -> None:
        with self._changing, self.hold_sync():
            snapshot = self._everything()
            self.meta = self._describe(live=not self._feed.finished)
            self.snapshot = snapshot

    def _everything(self) -> bytes:
        """All blocks so far; until there are any, the sketch."""
        if self._blocks:
            self._sketched = 0
        return b"".join(self._blocks) or self._opening

    def _describe(self, *, live: bool) -> dict[str, Any]:
        trace, encoder = self._feed.trace, self._feed.encoder
        return {
            "title": self._title,
            "height": self._height,
            "size": trace.size,
            "clock": CLOCK_NAMES[trace.clock],
            "live": live,
            "frozen": not live and self.meta.get("frozen", False),
            "run": self._feed.number,
            "sketch": self._sketched,
            "total": len(trace) if self._sketched else encoder.num_events,
            "note": encoder.note,
        }
