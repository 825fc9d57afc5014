"""What a live view gets to see: the events of a source, in blocks, while the source's run goes on.

    source.trace  --Encoder-->  block  --at most 20 a second-->  view

A `Feed` follows one source: a `Trace`, a run, or a world, whose ``trace`` becomes another one with each run. A `Pump` is the
only thread that writes to a view. It holds the view weakly, so that it never keeps one alive, and ends with the run (with the
view, if the source is a world, which may always start another run).
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Protocol

from partkit.figures.encoding import Encoder
from partkit.tracing import Trace

PERIOD = 0.05
"""Seconds between two blocks: at most 20 messages a second."""


class Feed:
    """Follows the newest trace of a source.

    Args:
        source: a `Trace`, or anything with a ``trace`` (a world, a run), which may be None before its first run.

    Raises:
        TypeError: it is neither.

    Attributes:
        run: number of the trace that is followed, from 0; grows by one when the source starts another run.
    """

    def __init__(self, source: Any) -> None:
        if not isinstance(source, Trace) and not hasattr(source, "trace"):
            raise TypeError(f"Timeline({source!r}): give a Trace, or something that has one as .trace: a World or a run")
        self._source = source
        self.run = 0
        self.encoder = Encoder(self._newest() or Trace(self._size()))

    @property
    def trace(self) -> Trace:
        return self.encoder.trace

    @property
    def finished(self) -> bool:
        """No more events will come from this trace."""
        return self._newest() is not None and self.trace.finished.is_set()

    @property
    def endless(self) -> bool:
        """Another run may come: the source is a world that is not closed."""
        return hasattr(self._source, "run") and callable(self._source.run) and not getattr(self._source, "closed", False)

    def renew(self) -> bool:
        """Go over to the source's newest trace, if there is a newer one."""
        newest = self._newest()
        if newest is None or newest is self.trace:
            return False
        self.run += 1
        self.encoder = Encoder(newest)
        return True

    def _newest(self) -> Trace | None:
        trace = self._source if isinstance(self._source, Trace) else self._source.trace
        return trace if isinstance(trace, Trace) else None

    def _size(self) -> int:
        return int(getattr(self._source, "size", 1))


class Watcher(Protocol):
    """What a `Pump` drives; all three are called from the pump's thread only."""

    def began(self) -> None: ...
    def grew(self, block: bytes, first: int) -> None: ...
    def ended(self) -> None: ...


class Pump(threading.Thread):
    """Moves events from a feed to a watcher until the feed or the watcher ends."""

    def __init__(self, feed: Feed, watcher: Watcher) -> None:
        super().__init__(name="partkit timeline", daemon=True)
        self._feed = feed
        self._watcher = weakref.ref(watcher, lambda _: self.stop())
        self._stop = threading.Event()

    def stop(self) -> None:
        """End soon; the view gets nothing more."""
        self._stop.set()

    def run(self) -> None:
        ended = False
        while not self._stop.is_set():
            if self._feed.renew():
                self._tell("began")
                ended = False
            if not ended:
                finished = self._feed.finished  # asked before the events are taken, so that none is missed
                first = self._feed.encoder.num_events
                block = self._feed.encoder.encode()
                if block:
                    self._tell("grew", block, first)
                if finished:
                    self._tell("ended")
                    ended = True
            if ended and not self._feed.endless:
                return
            self._rest(ended)

    def _tell(self, what: str, *arguments: Any) -> None:
        watcher = self._watcher()
        if watcher is not None and not self._stop.is_set():
            getattr(watcher, what)(*arguments)

    def _rest(self, ended: bool) -> None:
        self._stop.wait(PERIOD)
