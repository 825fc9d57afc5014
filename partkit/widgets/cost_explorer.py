"""`CostExplorer`: what every algorithm of a collective costs, with sliders, and what it took here.

    pk.CostExplorer("all_reduce")                                the model: curves, crossovers, the fastest for each size
    pk.CostExplorer("all_reduce", pk.CostExplorer.measure(world))      and the dots of this machine on the curves
    pk.CostExplorer("all_reduce", world)                         the dots of whatever a world runs, as it runs

Curves come from the closed forms in `partkit.cluster`; dots from collectives in a trace (`partkit.figures.cost_points`). The sliders
are the traits `ranks`, `nbytes`, `latency`, `bandwidth` and `channels`: moving one has Python compute the curves anew, and setting one in
Python moves the slider. How it is shown and stored: `partkit.widgets.live`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import traitlets

from partkit.cluster import COSTS, LOOPBACK, Link
from partkit.figures.cost_explorer import Model, model, spec
from partkit.figures.cost_picture import DASHES, View, bundle
from partkit.figures.cost_points import Point, PointEncoder, fit
from partkit.figures.curve_picture import SHAPES
from partkit.figures.palette import LINES, MARKERS, ink
from partkit.tracing import Trace
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed
from partkit.widgets.live import LiveView
from partkit.widgets.showing import Bundle

STOPS = (*range(2, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Numbers of ranks that the slider goes through."""


class CostExplorer(LiveView):
    """Curves of all algorithms of a collective over the message size, sliders for what they depend on, dots of a run.

    Args:
        operation: a collective with a known cost: "all_reduce", ...
        measured: a `Trace` in which collectives were called, or anything whose ``trace`` is one (a world, a run); see `measure`.
        ranks: number of ranks; by default that of most of the dots, or 8.
        nbytes: bytes of the tensor that each rank passes in, for which the table lists the costs.
        link: between any two ranks; by default that of the cluster of ``measured``, or the numbers of `partkit.cluster.LOOPBACK`;
            each pair of ranks has its own, unless it is given with ``channels``.
        height: of the picture, in pixels.
        title: shown above it.

    Attributes:
        operation: may be set, also by the reader.
        ranks: the same.
        nbytes: the same.
        latency: the same; seconds.
        bandwidth: the same; bytes per second.
        channels: the same; 0 if each pair of ranks has its own link.

    Raises:
        TypeError: ``measured`` has no trace.
        ValueError: ``operation``, ``ranks``, ``nbytes``, the link or ``height`` is none of the possible ones.

    Example:
        >>> explorer = CostExplorer("barrier", ranks=8, nbytes=1000, link=Link(latency=1e-5, bandwidth=1e9))
        >>> explorer.ranks = 16
        >>> print(explorer._repr_mimebundle_()["text/plain"])
        model of barrier, 16 ranks, latency 10 us, bandwidth 1 GB/s
        fastest: dissemination at all sizes
        at 1 kB
            algorithm  messages  bytes  steps   time
        dissemination         4      4      4  40 us
        >>> explorer.close()
    """

    _esm = script("common.js", "furnish.js", "blocks.js", "cost_store.js", "cost.js", "model.js")
    _css = read("view.css")

    operation = traitlets.Unicode("all_reduce").tag(sync=True)
    ranks = traitlets.Int(8).tag(sync=True)
    nbytes = traitlets.Int(100_000).tag(sync=True)
    latency = traitlets.Float(LOOPBACK.latency).tag(sync=True)
    bandwidth = traitlets.Float(LOOPBACK.bandwidth).tag(sync=True)
    channels = traitlets.Int(0).tag(sync=True)
    chart = traitlets.Dict().tag(sync=True)
    """The curves and costs for these, as JSON; follows them."""

    def __init__(
        self,
        operation: str = "all_reduce",
        measured: Any = None,
        *,
        ranks: int | None = None,
        nbytes: int = 100_000,
        link: Link | None = None,
        height: int | None = None,
        title: str = "",
    ) -> None:
        feed = Feed(Trace.from_events([]) if measured is None else measured, "CostExplorer", PointEncoder)
        link = _own_link(measured) if link is None else link
        self._found: Model | None = None
        chosen = {"operation": operation, "nbytes": nbytes, "latency": link.latency, "bandwidth": link.bandwidth, "channels": link.channels or 0}
        super().__init__(feed, _look(), title=title, height=height, **chosen)
        self.ranks = self._usual_ranks() if ranks is None else ranks
        self._follow()

    # -- measuring -----------------------------------------------------------------------------------------------

    @staticmethod
    def measure(
        world: Any,
        operation: str = "all_reduce",
        *,
        algorithms: Sequence[str] | None = None,
        nbytes: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000),
        runs: int = 5,
    ) -> Trace:
        """Run every algorithm of a collective on the ranks of a world, by turns, a few times at each size.

        Args:
            world: live or simulated; its trace is replaced by that of this run.
            operation: the collective.
            algorithms: some of its algorithms, by name; by default all, also "native" if there is one.
            nbytes: sizes of the tensor that each rank passes in.
            runs: calls of each algorithm at each size, after one that is not counted.

        Returns:
            The trace of the calls, for `CostExplorer` or to save. The clock is that of the world, so times include recording.

        Example:
            >>> import partkit as pk
            >>> with pk.World(2) as world:
            ...     trace = CostExplorer.measure(world, algorithms=["ring"], nbytes=[1000], runs=3)
            >>> explorer = CostExplorer("all_reduce", trace)
            >>> [(point.algorithm, point.ranks, point.nbytes, point.runs) for point in explorer.points]
            [('ring', 2, 1000, 3)]
            >>> explorer.close()
        """
        from partkit.collectives.sweep import sweep

        world.run(sweep, operation, algorithms, tuple(nbytes), runs)
        trace: Trace = world.trace
        return trace

    @property
    def points(self) -> list[Point]:
        """The dots at the chosen operation and number of ranks."""
        return self._view().shown

    def fit(self) -> Link:
        """Move latency and bandwidth to where the model is nearest to the dots; gives the link.

        Raises:
            ValueError: fewer than two dots have a model.
        """
        link = fit(self.points, self.channels or None)
        if link is None:
            raise ValueError(f"fit(): a link has two numbers, so it takes two dots of {self.operation} on {self.ranks} ranks whose algorithm has a model")
        with self.hold_trait_notifications():
            self.latency, self.bandwidth = (float(f"{number:.3g}") for number in (link.latency, link.bandwidth))
        return self._link

    def _hear(self, message: dict[str, str]) -> None:
        if message.get("type") != "fit":
            super()._hear(message)
        elif fit(self.points) is not None:
            self.fit()

    # -- the model follows its traits ----------------------------------------------------------------------------

    @traitlets.validate("operation", "ranks", "nbytes", "latency", "bandwidth", "channels")
    def _check(self, proposal: dict[str, Any]) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        possible = {
            "operation": (value in COSTS, f"a collective with a known cost: {', '.join(map(repr, COSTS))}"),
            "ranks": (name != "ranks" or value >= 1, "at least 1"),
            "nbytes": (name != "nbytes" or value >= 1, "at least 1"),
            "latency": (name != "latency" or 0 <= value < math.inf, "in seconds, at least 0"),
            "bandwidth": (name != "bandwidth" or 0 < value < math.inf, "in bytes per second, above 0"),
            "channels": (name != "channels" or value >= 0, "the number that all ranks share, or 0 if each pair has its own link"),
        }
        holds, right = possible[name]
        if not holds:
            raise ValueError(f"CostExplorer({name}={value!r}): {name} is {right}")
        return value

    @traitlets.observe("operation", "ranks", "nbytes", "latency", "bandwidth", "channels")
    def _changed(self, _: Any) -> None:
        self._follow()

    def _follow(self) -> None:
        wanted = (self.operation, self.ranks, self._link)
        if self._found is None or self._found[:3] != wanted:
            self._found = model(*wanted)
        self.chart = spec(self._found, self.nbytes)

    @property
    def _link(self) -> Link:
        return Link(self.latency, self.bandwidth, self.channels or None)

    def _usual_ranks(self) -> int:
        """Of most dots of the operation; of the world if there are none yet."""
        counts = Counter(point.ranks for point in self._all_points() if point.operation == self.operation)
        return max(counts, key=lambda ranks: (counts[ranks], ranks)) if counts else self.trace.size or 8

    def _all_points(self) -> list[Point]:
        encoder = self._feed.encoder
        return sorted(encoder.points.all.values()) if isinstance(encoder, PointEncoder) else []

    def _view(self) -> View:
        if self._found is None:
            self._follow()
        assert self._found is not None
        return View(self._found, self._all_points(), self.nbytes, self.trace.clock)

    def _picture(self) -> Bundle:
        return dict(bundle(self._view(), self._title))


def _own_link(measured: Any) -> Link:
    """That of the cluster of a world that has one, for each pair of ranks by itself, as in virtual time."""
    link: Link = getattr(getattr(measured, "cluster", None), "link", LOOPBACK)
    return replace(link, channels=None)


def _look() -> dict[str, Any]:
    """What the browser gets once."""
    colors = {color: ink(color) for pair in LINES for color in pair}
    markers = [SHAPES[name] for name in MARKERS]
    return {"colors": LINES, "ink": colors, "dashes": DASHES, "markers": markers, "stops": STOPS, "operations": list(COSTS), "html": read("cost.html")}
