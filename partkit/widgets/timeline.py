"""`Timeline`: a run's trace, live, to zoom and to ask.

    pk.Timeline(world)                       follows the newest run of a world
    run = world.start(fn)
    pk.Timeline(run)                         follows one run
    pk.Timeline(trace)                       a trace that was measured, simulated, planned or loaded
    pk.Timeline(trace, clock="virtual")      live ranks without the crowd on this machine's cores
    pk.Timeline(trace, critical_path=True)   what determines how long it takes

Events travel to a canvas at 10 to 12 bytes each (`partkit.figures.encoding`); of a long trace a sketch goes ahead that looks the same
(`partkit.figures.sketch`). What is on the screen, what is stored, and how the one
becomes the other: `partkit.widgets.live`. The reader switches clocks and turns the dials of a link; Python answers with the run in
that clock (`partkit.figures.clocks`). While a run goes on, its own clock is shown: retiming it then would take the cores on which its
ranks run.
"""

from __future__ import annotations

from typing import Any

import traitlets

from partkit.cluster import Cluster, clusters
from partkit.figures.bundle import EVENT_HEAD, numbers_bundle, timeline_bundle
from partkit.figures.clocks import FEWEST_EXPONENT, MOST_EXPONENT, NAMES, PRESETS, Dials, clocks_of, dials, in_clock, turned
from partkit.figures.encoding import Encoder
from partkit.figures.palette import style_specs
from partkit.figures.path import outline, path_note
from partkit.figures.sketch import encode_sketch, worthwhile
from partkit.figures.units import clock_name, seconds
from partkit.figures.waits import because, idle_of, idle_table
from partkit.tracing import Event, Trace
from partkit.tracing.critical_path import CriticalPath, critical_path
from partkit.tracing.idle import IdleTime
from partkit.tracing.replay import Durations
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed
from partkit.widgets.live import LiveView
from partkit.widgets.showing import Bundle, is_static

_QUICK_PICTURE = 20_000
"""Events up to which the still picture is drawn before the widget is shown; drawing it later makes the first sight faster."""


class Timeline(LiveView):
    """Rows of ranks, a bar an event, an arrow a message; grows while the run goes on.

    Args:
        source: a `Trace`, or anything whose ``trace`` is one: a world (its newest run is followed), a run.
        height: of the picture, in pixels; by default it fits the number of ranks.
        title: shown above it.
        clock: in which the run is shown once it is over: "wall", "virtual", "replayed" (live ranks); "virtual", "replayed" (simulated
            ranks); "planned" (a plan). By default the run's own. The picture that is stored with the notebook is in this clock too: what
            the reader switches to later is on the screen only.
        cluster: for the virtual time of live ranks, and where replays begin; by default the world's own, or else ``pk.clusters.LAPTOP``.
        durations: how long computations of live ranks take in virtual time: "stated", "cpu", "measured"
            (`partkit.tracing.replay`); by default "stated" if the run states any, else "cpu".
        critical_path: outline what determines how long the run takes.

    Attributes:
        selected: number of the selected event in the order of ``trace.columns``, or None; may be set.
        clock: may be set, also by the reader.
        preset: name of the cluster of replays; the same.
        critical_path: the same.
        trace: the run in the clock that is shown.

    Raises:
        TypeError: ``source`` has no trace.
        ValueError: ``height`` is not a sensible number of pixels, or the run has no such ``clock``.

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
    clock = traitlets.Unicode().tag(sync=True)
    preset = traitlets.Unicode().tag(sync=True)
    latency_dial = traitlets.CFloat().tag(sync=True)
    """Power of ten: of seconds."""
    bandwidth_dial = traitlets.CFloat().tag(sync=True)
    """Power of ten: of bytes per second."""
    critical_path = traitlets.Bool(False).tag(sync=True)
    outlined: traitlets.List[Any] = traitlets.List().tag(sync=True)
    """The critical path, if it is shown (`partkit.figures.path`)."""
    asked = traitlets.Int(-1).tag(sync=True)
    """The event that a reader points at."""
    answers = traitlets.Dict().tag(sync=True)
    """By number of an event, selected or pointed at: for whom its rank waited."""
    sums = traitlets.Unicode().tag(sync=True)
    """HTML under the table of events, made when a reader opens that: where the time of each rank went."""

    def __init__(
        self,
        source: Any,
        *,
        height: int | None = None,
        title: str = "",
        clock: str | None = None,
        cluster: Cluster | None = None,
        durations: Durations | None = None,
        critical_path: bool = False,
    ) -> None:
        self._source, self._durations = source, durations
        self._retimed: Encoder | None = None
        self._num_switches, self._problem = 0, ""
        self._path = CriticalPath(())
        self._waits: tuple[Trace, IdleTime | None] | None = None
        feed = Feed(source)
        self._as_it_is = clock in (None, feed.trace.clock) and not critical_path
        self._base = cluster or getattr(source, "cluster", None) or clusters.LAPTOP
        self._clusters = {known.name: known for known in (self._base, *PRESETS)}
        self._dialed: Cluster | None = None
        latency, bandwidth = dials(self._base, feed.trace.size)
        chosen = {"clock": clock or feed.trace.clock, "preset": self._base.name, "latency_dial": latency, "bandwidth_dial": bandwidth}
        html = read("timeline.html").replace("<!-- legend -->", _legend()).replace("<!-- clocks -->", _controls(feed.trace, list(self._clusters)))
        super().__init__(feed, {"kinds": style_specs(), "head": EVENT_HEAD, "html": html}, title=title, height=height, critical_path=critical_path, **chosen)
        self.observe(self._chosen, ["clock", "preset", "critical_path"])
        self.observe(self._turned, ["latency_dial", "bandwidth_dial"])
        self.observe(self._answer, ["selected", "asked"])
        if critical_path or self.clock != feed.trace.clock:
            self._send_all()

    @property
    def trace(self) -> Trace:
        """The run in the clock that is shown; while it goes on, in its own."""
        return self._feed.trace if self._retimed is None else self._retimed.trace

    @property
    def cluster(self) -> Cluster:
        """What virtual time and replays are on."""
        return self._base if self.clock == "virtual" else self._dialed or self._clusters[self.preset]

    @property
    def selected_event(self) -> Event | None:
        """The selected event, or None."""
        if self.selected is None or not 0 <= self.selected < len(self.trace):
            return None
        return self.trace.event(self.trace.columns[self.selected])

    def replay(self) -> Timeline:
        """A new view of the same source."""
        options: dict[str, Any] = {"clock": self.clock, "cluster": self._base, "durations": self._durations, "critical_path": self.critical_path}
        return Timeline(self._source, height=self._height, title=self._title, **options)

    def _sketch(self) -> tuple[bytes, int]:
        trace = self._feed.trace
        wanted = self._feed.finished and self._as_it_is and not is_static()
        return encode_sketch(trace) if wanted and worthwhile(trace) else (b"", 0)

    def _picture(self) -> Bundle:
        return dict(timeline_bundle(self.trace, self._title, self._path, self._idle()))

    def _still(self) -> Bundle:
        return self._picture() if len(self.trace) <= _QUICK_PICTURE else dict(numbers_bundle(self.trace, self._title))

    # -- clocks --------------------------------------------------------------------------------------------------

    @traitlets.validate("clock", "preset")
    def _check(self, proposal: dict[str, Any]) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        possible = clocks_of(self._feed.trace) if name == "clock" else tuple(self._clusters)
        if value not in possible:
            raise ValueError(f"Timeline({name}={value!r}): {name} is one of {', '.join(map(repr, possible))}")
        return value

    def _chosen(self, change: Any) -> None:
        """Another clock, another cluster, with or without the path."""
        if change["name"] == "preset":
            self._dialed = None
            with self.hold_trait_notifications():
                self.latency_dial, self.bandwidth_dial = dials(self._clusters[self.preset], self.trace.size)
        self._send_all()

    def _turned(self, _: Any) -> None:
        """The reader turns a dial: all links are equal from now on."""
        wanted = Dials(self.latency_dial, self.bandwidth_dial)
        if wanted != dials(self._dialed or self._clusters[self.preset], self.trace.size):
            self._dialed = turned(self._clusters[self.preset], wanted)
            self._send_all()

    def began(self) -> None:
        """The source has started another run, which is shown in its own clock while it goes on."""
        self._retimed, self._path, self.outlined = None, CriticalPath(()), []
        super().began()

    def _send_all(self) -> None:
        """Everything, in the clock that is chosen."""
        with self._changing, self.hold_sync():
            finished = self._feed.finished
            self._retimed = self._retime() if finished else None
            self._path = critical_path(self.trace) if finished and self.critical_path else CriticalPath(())
            self._num_switches += 1
            block = self._everything() if self._retimed is None else self._retimed.encode()
            self.meta = self._describe(live=not finished)
            self.snapshot, self.outlined, self.sums = block, outline(self._path), ""
            self._answer()

    def _retime(self) -> Encoder | None:
        """The run in another clock than its own; None in its own, or if the cluster can't run it."""
        own, self._problem = self._feed.trace, ""
        if self.clock == own.clock:
            return None
        try:
            return Encoder(in_clock(own, self.clock, self.cluster, self._durations))  # type: ignore[arg-type]  # the trait was validated
        except ValueError as problem:
            self._problem = f"not replayed: {problem}"
            return None

    def _describe(self, *, live: bool) -> dict[str, Any]:
        told, trace = super()._describe(live=live), self.trace
        if self._retimed is not None:
            told.update(run=f"{told['run']}.{self._num_switches}", sketch=0, total=self._retimed.num_events or len(trace), note=self._retimed.note)
        notes = (told["note"], self._problem, path_note(self._path), self._lengths())
        told.update(clock=clock_name(trace), note=" · ".join(filter(None, notes)))
        return told

    def _lengths(self) -> str:
        """How long the run takes in this clock and in its own."""
        if self._retimed is None:
            return ""
        own = self._feed.trace
        return f"{seconds(self.trace.makespan)} in this clock, {seconds(own.makespan)} {'on the wall clock' if own.clock == 'wall' else 'as simulated'}"

    # -- questions -----------------------------------------------------------------------------------------------

    def _hear(self, message: dict[str, str]) -> None:
        if message.get("type") == "sums":  # the reader opens the table
            self.sums = idle_table(self.trace, self._idle())
        else:
            super()._hear(message)

    def _answer(self, _: Any = None) -> None:
        """For whom, and why, ranks waited in the events that the reader looks at."""
        trace = self.trace
        rows = [row for row in {self.selected, self.asked} if row is not None and 0 <= row < len(trace)]
        idle = self._idle() if rows else None
        waits = () if idle is None else (idle.wait(row) for row in rows)
        self.answers = {str(wait.row): because(trace, wait) for wait in waits if wait is not None}

    def _idle(self) -> IdleTime | None:
        """The waits of the trace that is shown, found once; None while it grows, and for a very long one."""
        trace = self.trace
        if not self._feed.finished:
            return None
        if self._waits is None or self._waits[0] is not trace:
            self._waits = trace, idle_of(trace)
        return self._waits[1]


def _controls(trace: Trace, names: list[str]) -> str:
    """The switch of clocks and the dials of a link, for a trace that has more than one clock."""
    choices = clocks_of(trace)
    if len(choices) == 1:
        return ""
    own = {"wall": "as measured", "virtual": "as simulated"}
    options = "".join(f'<option value="{choice}">{NAMES[choice]}{f", {own[choice]}" if choice == trace.clock else ""}</option>' for choice in choices)
    ends = (("latency", FEWEST_EXPONENT[0], MOST_EXPONENT[0]), ("bandwidth", FEWEST_EXPONENT[1], MOST_EXPONENT[1]))
    sliders = "".join(
        f'<label>{name} <input type="range" data-trait="{name}_dial" min="{low:g}" max="{high:g}" step="0.05"></label>' for name, low, high in ends
    )
    presets = "".join(f"<option>{name}</option>" for name in names)
    return (
        f'<label class="pk-choice">Clock <select data-trait="clock">{options}</select></label>'
        f'<label class="pk-choice pk-replay">on <select data-trait="preset">{presets}</select></label><span class="pk-choice pk-replay">{sliders}</span>'
    )


def _legend() -> str:
    """The letter and the name of each kind, with its colours on light and on dark pages as CSS variables."""
    chips = []
    for style in style_specs():
        paints = {f"{theme}-{part}": color for theme in ("light", "dark") for part, color in zip(("fill", "edge", "ink"), style[theme], strict=True)}
        variables = ";".join(f"--{name}:{color}" for name, color in paints.items())
        chips.append(f'<span><i style="{variables}">{style["letter"]}</i> {style["name"]}</span>')
    return "".join(chips)
