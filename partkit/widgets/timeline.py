"""`Timeline`: first version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from partkit.figures.palette import style_specs
from partkit.figures.units import CLOCK_NAMES
from partkit.widgets.feed import Feed, Pump

_STATIC = Path(__file__).parent / "static"


class Timeline(anywidget.AnyWidget):
    _esm = (_STATIC / "timeline.js").read_text(encoding="utf-8")
    _css = (_STATIC / "timeline.css").read_text(encoding="utf-8")

    meta = traitlets.Dict().tag(sync=True)
    snapshot = traitlets.Bytes().tag(sync=True)
    selected = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, source: Any, *, height: int | None = None, title: str = "") -> None:
        self._feed = Feed(source)
        self._options = {"title": title, "height": height}
        block = self._feed.encoder.encode()
        self._blocks = [block]
        super().__init__(meta=self._meta(live=not self._feed.finished), snapshot=block)
        self._pump = None
        if not self._feed.finished or self._feed.endless:
            self._pump = Pump(self._feed, self)
            self._pump.start()

    def _meta(self, live: bool) -> dict[str, Any]:
        trace = self._feed.trace
        return {**self._options, "size": trace.size, "clock": CLOCK_NAMES[trace.clock], "live": live, "run": self._feed.run,
                "total": self._feed.encoder.num_events, "kinds": style_specs(), "note": ""}

    def began(self):
        self._blocks = []
        self.meta = self._meta(live=True)

    def grew(self, block, first):
        self._blocks.append(block)
        self.send({"type": "bars", "run": self._feed.run, "first": first}, [block])

    def ended(self):
        self.meta = self._meta(live=False)
        self.snapshot = b"".join(self._blocks)

    def close(self):
        if self._pump is not None:
            self._pump.stop()
        super().close()
