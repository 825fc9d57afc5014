"""What a live view gets to see: the events of a source, in blocks, while the source's run goes on.

    source.trace  --Encoder-->  block  --at most 20 a second-->  view

A `Feed` follows one source: a `Trace`, a run, or a world, whose ``trace`` becomes another one with each run. A `Pump` is the
only thread that writes to a view. It holds the view weakly, so that it never keeps one alive, and ends with the run; with the
view or the world if the source is a world, which may always start another run.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from partkit.figures.encoding import Encoder
from partkit.tracing import Trace

PERIOD = 0.05
"""Seconds between two blocks: at most 20 messages a second."""


class Encodes(Protocol):
    """Turns a growing trace into blocks of bytes for one kind of view."""

    trace: Trace
    num_events: int
    """Encoded so far; a browser that counts along sees whether it has missed some."""

    @property
    def note(self) -> str:
        """What the blocks leave out, in words; empty if nothing."""

    def encode(self) -> bytes:
        """What is new since the last call, as one block; empty if nothing is."""


class Feed:
    """Follows the newest trace of a source.

    Args:
        source: a `Trace`, or anything with a ``trace``: a world, a run.
        view: whose source it is, for messages.
        make_encoder: from a trace to what turns it into blocks.

    Raises:
        TypeError: it is neither.

    Attributes:
        number: of the trace that is followed, from 0; one more whenever the source has started another run.
        encoder: of that trace.
    """

    def __init__(self, source: Any, view: str = "Timeline", make_encoder: Callable[[Trace], Encodes] = Encoder) -> None:
        if not isinstance(source, Trace) and not isinstance(getattr(source, "trace", None), Trace):
            raise TypeError(f"{view}(source={source!r}): source is a {type(source).__name__}; give a Trace, or what has one as .trace: a World or a Run")
        self._source = source
        self._make_encoder = make_encoder
        self.number = 0
        self.encoder = make_encoder(self._newest())

    @property
    def trace(self) -> Trace:
        """The trace that is followed."""
        return self.encoder.trace

    @property
    def finished(self) -> bool:
        """No more events will come from this trace."""
        return self.trace.finished.is_set()

    def wait(self, seconds: float) -> None:
        """Until the run is over, but no longer than ``seconds``."""
        deadline = time.monotonic() + seconds
        while not self.finished and time.monotonic() < deadline:
            self.trace.finished.wait(0.1)

    @property
    def endless(self) -> bool:
        """Another run may come: the source is a world that is not closed."""
        return callable(getattr(self._source, "run", None)) and not getattr(self._source, "closed", False)

    def renew(self) -> bool:
        """Go over to the source's newest trace, once something has happened in it; False if there is none."""
        newest = self._newest()
        if newest is self.trace or not (len(newest) or newest.finished.is_set()):
            return False
        self.number += 1
        self.encoder = self._make_encoder(newest)
        return True

    def _newest(self) -> Trace:
        trace: Trace = self._source if isinstance(self._source, Trace) else self._source.trace
        return trace


class Watcher(Protocol):
    """What a `Pump` drives, from the pump's thread."""

    def began(self) -> None:
        """Another run is followed now."""

    def grew(self, block: bytes, first: int) -> None:
        """A block of events, the first of which is the run's event number ``first``."""

    def ended(self) -> None:
        """The run is over, and all its events were given."""


class Pump(threading.Thread):
    """Moves events from a feed to a watcher until one of them ends.

    Args:
        feed: what is followed.
        watcher: who gets it.
        patience: seconds to wait before the first round, unless `hurry` is called: what is on its way to the screen goes first.
    """

    def __init__(self, feed: Feed, watcher: Watcher, patience: float = 0.0) -> None:
        super().__init__(name="partkit live view", daemon=True)
        self._feed = feed
        self._patience = patience
        self._hurry = threading.Event()
        self._watcher = weakref.ref(watcher, lambda _: self.stop())
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End soon; the watcher gets nothing more."""
        self._stopped.set()
        self._hurry.set()

    def hurry(self) -> None:
        """Begin now."""
        self._hurry.set()

    def run(self) -> None:
        """One round every `PERIOD`."""
        ended = False
        self._hurry.wait(self._patience)
        while not self._stopped.is_set():
            if self._feed.renew():
                self._tell("began")
                ended = False
            if not ended:
                ended = self._move()
            if ended and not self._feed.endless:
                return
            self._stopped.wait(PERIOD)

    def _move(self) -> bool:
        """Hand over what is new; True when that was the last."""
        finished = self._feed.finished  # asked before the events are taken, so that none is missed
        first = self._feed.encoder.num_events
        block = self._feed.encoder.encode()
        if block:
            self._tell("grew", block, first)
        if finished:
            self._tell("ended")
        return finished

    def _tell(self, what: str, *arguments: Any) -> None:
        watcher = self._watcher()
        if watcher is not None and not self._stopped.is_set():
            getattr(watcher, what)(*arguments)
