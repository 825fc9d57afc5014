"""`ClusterView`: a cluster as a map; slow a rank or a link down, kill one, and see what that does to a run.

    pk.ClusterView(pk.clusters.H100_NODES)                       ranks, nodes, links and their figures
    view = pk.ClusterView(pk.clusters.H100_NODES, step, batch, ranks=64)      and a function that is run on simulated ranks
    view.slow("wire 8", 4)    view.kill("rank 3")    view.undo()    view.reset()    view.cluster    view.trace

After each change the function runs anew on as many simulated ranks; what is shown is when each rank is done, before and after. What
can be done to what: `partkit.figures.cluster_trouble`; what is drawn: `partkit.figures.cluster_map`, `partkit.figures.cluster_picture`.
A browser shows what it gets and sends what its reader wants; everything is decided here, so a view is the same without a browser. How it is
shown and stored: `partkit.widgets.live`; the stored picture is renewed when the reader leaves the view.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Literal

from partkit.cluster import Cluster, Device, Islands, LinkMatrix, Torus
from partkit.figures.cluster_map import layout
from partkit.figures.cluster_picture import CHART, LEGEND, Outcome, bundle, chart_markup, headline, map_markup, marks_markup, outcome
from partkit.figures.cluster_trouble import Session
from partkit.figures.curve import CurveEncoder
from partkit.figures.units import seconds
from partkit.tracing import Trace
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed
from partkit.widgets.interactive import InteractiveView
from partkit.widgets.showing import Bundle

WIDTHS = (960, 620, 360)
"""Pixels for which the map is laid out; a browser takes the widest that fits."""


class ClusterView(InteractiveView):
    """A map of a cluster, on which ranks and links can be slowed down or killed, and what a function takes on it then.

    Args:
        cluster: `Cluster`, with or without conditions of its own.
        fn: ``fn(comm, *args)``, as for `SimulatedWorld`; it runs again after each change. None for the map alone.
        *args: for ``fn``.
        ranks: how many; by default as many as a torus, a matrix or a list of devices has, two nodes, or else 8.
        compute: how long computations take: "stated" or "counted" (`SimulatedWorld`).
        numbers: False moves shapes only.
        title: shown above it.

    Attributes:
        before: when each rank was done on the cluster as it is; None without a function.
        after: the same with all trouble; None without trouble.

    Raises:
        TypeError: ``cluster`` is none.
        ValueError: it has no room for so many ranks.
        RankError: ``fn`` fails on the cluster as it is.

    Example:
        >>> import torch, partkit as pk
        >>> view = ClusterView(pk.clusters.H100_NODES, lambda comm: pk.all_reduce(torch.ones(10**6), comm, algorithm="ring"), ranks=16)
        >>> view.slow("wire 2", 4)
        >>> print(view)
        8 x H100 a node, 16 ranks: makespan 300 us; with out of ranks 0-7: 4 times as slow: 1.2 ms, 4 times as long
        >>> view.undo()
        >>> view.after is None
        True
        >>> view.close()
    """

    _esm = script("common.js", "furnish.js", "cluster_store.js", "cluster.js", "model.js")
    _css = read("view.css") + read("cluster.css")

    def __init__(
        self,
        cluster: Cluster,
        fn: Callable[..., Any] | None = None,
        *args: Any,
        ranks: int | None = None,
        compute: Literal["stated", "counted"] = "stated",
        numbers: bool = True,
        title: str = "",
    ) -> None:
        if not isinstance(cluster, Cluster):
            raise TypeError(f"ClusterView({cluster!r}): give a Cluster, such as pk.clusters.H100_NODES; this is a {type(cluster).__name__}")
        size = _usual_size(cluster) if ranks is None else ranks
        if size < 1:
            raise ValueError(f"ClusterView(ranks={ranks!r}): at least 1")
        cluster.network(size)  # raises if the ranks do not fit
        self._cluster, self._work = cluster, (fn, args, compute, numbers)
        sheets = [layout(cluster, size, wide) for wide in WIDTHS]
        self._session, self._sheets = Session(cluster, size, sheets[0]), sheets
        self._trace = Trace.from_events([], size=size, clock="virtual")
        self.before = self._run(cluster, strict=True)
        self.after: Outcome | None = None
        maps = [
            {"wide": max(s.wide, w), "high": s.high + LEGEND, "svg": map_markup(s, w), "places": _places(s.places)} for s, w in zip(sheets, WIDTHS, strict=True)
        ]
        look = {"html": read("cluster.html"), "maps": maps, "chart": CHART, "wires": len(sheets[0].wires), "runs": fn is not None}
        super().__init__(Feed(Trace.from_events([]), "ClusterView", CurveEncoder), look, title=title)
        self._show()

    # -- what there is -------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """The cluster with all that has been done to it, to run things on."""
        return self._session.cluster

    @property
    def trace(self) -> Trace:
        """Of the last run; empty without a function."""
        return self._trace

    @property
    def targets(self) -> dict[str, str]:
        """What can be slowed down, and what it is: every rank, every link of the map; also ``links 0`` and ``pair 0 1``."""
        names = [f"rank {rank}" for rank in range(self._session.size)] + [f"wire {k}" for k in range(len(self._session.sheet.wires))]
        return {name: self._session.facts(name) for name in names}

    # -- what can be done ----------------------------------------------------------------------------------------

    def slow(self, target: str, factor: float = 4.0) -> None:
        """Let a rank or a link take ``factor`` times as long, and run again; 1 for as fast as before.

        Args:
            target: "rank 3", "links 3" for all messages to and from it, "pair 3 5", "wire 2" (see `targets`).
            factor: above 0.

        Raises:
            ValueError: there is no such target or factor.
        """
        self._do(lambda: self._session.slow(target, factor))

    def kill(self, target: str, at: float | None = None) -> None:
        """Let a rank die, and run again.

        Args:
            target: "rank 3".
            at: seconds since the start of the run; half of the run by default.

        Raises:
            ValueError: it is no rank, or the moment is before the run.
        """
        half = 0.0 if self.before is None else self.before.makespan / 2
        self._do(lambda: self._session.kill(target, half if at is None else at))

    def heal(self, target: str) -> None:
        """End all trouble of a target, and run again."""
        self._do(lambda: self._session.heal(target))

    def undo(self) -> None:
        """One step back, if there is one."""
        self._do(self._session.undo)

    def reset(self) -> None:
        """End all trouble; can be undone."""
        self._do(self._session.reset)

    def _do(self, what: Callable[[], None]) -> None:
        troubles = self._session.troubles
        what()
        if self._session.troubles != troubles:
            if self._work[0] is not None and self._session.troubles:
                self.chart = {**self.chart, "running": True}
            self.after = self._run(self.cluster) if self._session.troubles else None
        self._show()
        self._answer("")

    def _run(self, cluster: Cluster, *, strict: bool = False) -> Outcome | None:
        fn, args, compute, numbers = self._work
        if fn is None:
            return None
        from partkit.worlds.errors import RankError
        from partkit.worlds.simulated import SimulatedWorld

        error = ""
        with SimulatedWorld(self._session.size, cluster, numbers, compute=compute) as world:
            try:
                world.run(fn, *args)
            except RankError as problem:
                if strict:
                    raise
                error = str(problem.args[0]).splitlines()[0].rstrip(":")
            self._trace = world.trace
        return outcome(world.trace, error)

    # -- what a view needs ---------------------------------------------------------------------------------------

    def _show(self) -> None:
        """What is wrong, how the runs ended, as words and as pieces of SVG."""
        session, before, after = self._session, self.before, self.after
        self._shown(
            {
                "running": False,
                "head": headline(self._cluster.name, session, before, after),
                "told": [[trouble.target, words] for trouble, words in zip(session.troubles, session.told, strict=True)],
                "marks": [marks_markup(session, sheet) for sheet in self._sheets],
                "ends": [chart_markup(before, after, wide) for wide in WIDTHS] if before is not None else [],
                "ranks": [session.facts(f"rank {rank}") + self._done(rank) for rank in range(session.size)],
                "wires": [session.facts(f"wire {k}") for k in range(len(session.sheet.wires))],
                "undo": session.can_undo,
                "span": 0.0 if before is None else before.makespan,
            }
        )

    def _done(self, rank: int) -> str:
        if self.before is None:
            return ""
        late = "" if self.after is None else f", with trouble {'stopped ' if self.after.error else ''}after {seconds(self.after.ends[rank])}"
        return f"; done after {seconds(self.before.ends[rank])}{late}"

    def _grant(self, wish: dict[str, Any]) -> str:
        what, target = wish["what"], str(wish.get("target", ""))
        if what == "slow":
            self.slow(target, float(wish["factor"]))
        elif what == "kill":
            self.kill(target, float(wish["part"]) * (0.0 if self.before is None else self.before.makespan))
        elif what == "heal":
            self.heal(target)
        elif what in ("undo", "reset"):
            getattr(self, what)()
        return ""

    def _picture(self) -> Bundle:
        return dict(bundle(self._cluster.name, self._session, self.before, self.after, self._title))

    def __repr__(self) -> str:
        return headline(self._cluster.name, self._session, self.before, self.after)


def _places(places: Any) -> list[list[float]]:
    """The middle of each rank, for a browser to find the next one in a direction."""
    return [[round(place.x + place.side / 2, 1), round(place.y + place.side / 2, 1)] for place in places]


def _usual_size(cluster: Cluster) -> int:
    if not isinstance(cluster.device, Device):
        return len(cluster.device)
    topology = cluster.topology
    if isinstance(topology, Torus):
        return prod(topology.shape)
    if isinstance(topology, LinkMatrix):
        return len(topology.rows)
    return 2 * topology.levels[0][0] if isinstance(topology, Islands) else 8
