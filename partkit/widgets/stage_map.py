"""`StageMap`: which layers lie on which rank, with time, parameters and activations; cuts can be moved.

    pk.StageMap([("embed", 1e-3, 4e6, 1e6), ("block 0", 3e-3, 8e6, 2e6), ("head", 1e-3, 4e6, 1e6)], cut=[1])
    stage_map = pk.StageMap(layers, cut=[3, 6, 9], schedule=pk.pipeline_parallel.one_f_one_b(4, 8))     with makespan and bubble
    stage_map.move(2, "block 5")    stage_map.balance()    stage_map.undo()
    pk.PipelineParallel(model, comm, schedule=schedule, cut=stage_map.cut)

What a move does is in `partkit.figures.stage_map_session`, what is drawn in `partkit.figures.stage_map_spec`. A browser draws what it
gets and sends what its reader wants; everything is decided here, so a map is the same without a browser. How it is shown and stored:
`partkit.widgets.live`; the stored picture is renewed when the reader leaves the view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import traitlets

from partkit.figures.curve import CurveEncoder
from partkit.figures.stage_map import Stage, layers_of
from partkit.figures.stage_map_picture import bundle
from partkit.figures.stage_map_session import MEASURES, Measure, Session
from partkit.figures.stage_map_spec import chart, look
from partkit.pipeline_parallel.schedule import Schedule
from partkit.tracing import Trace
from partkit.widgets.assets import read, script
from partkit.widgets.feed import Feed
from partkit.widgets.interactive import InteractiveView
from partkit.widgets.showing import Bundle


class StageMap(InteractiveView):
    """A cut of a model's layers in stages on ranks: drag a cut, and see what the slowest rank and the bubble become.

    Args:
        layers: (name, seconds, bytes of parameters, bytes of activations) for each layer, in order; seconds and activations of one
            micro-batch.
        cut: numbers of the layers at which a new stage begins, as `partkit.pipeline_parallel.balance.balance` gives them.
        schedule: says which rank a stage lies on, how many micro-batches are in flight on it, and what the bubble is; without it stage s
            lies on rank s, and there is no bubble.
        measure: what bars show first: "time", "parameters" or "activations".
        title: shown above it.

    Attributes:
        measure: may be set, also by the reader.

    Raises:
        ValueError: the cut leaves a stage empty, or does not fit the schedule; ``measure`` is none of the possible ones.

    Example:
        >>> stage_map = StageMap([("embed", 0.001, 4e6, 1e6), ("block", 0.003, 8e6, 2e6), ("head", 0.002, 4e6, 1e6)], cut=[2])
        >>> stage_map
        3 layers in 2 stages on 2 ranks; rank 0 is the slowest: 4 ms for a micro-batch, 1.33 times the mean
        stage  rank        layers  time  parameters  in flight  activations
            0     0  embed, block  4 ms       12 MB          1         3 MB
            1     1          head  2 ms        4 MB          1         1 MB
        >>> stage_map.move(1, "block")
        'stage 1 begins at block: slowest is rank 1 with 5 ms, before rank 0 with 4 ms'
        >>> stage_map.cut, stage_map.cut_names
        ([1], ['block'])
        >>> stage_map.balance(), stage_map.cut
        ('stage 1 begins at head: slowest is rank 0 with 4 ms, before rank 1 with 5 ms', [2])
        >>> stage_map.close()
    """

    _esm = script("common.js", "furnish.js", "stage_store.js", "stage_paint.js", "stage.js", "model.js")
    _css = read("view.css") + read("stage.css")

    measure = traitlets.Unicode("time").tag(sync=True)

    def __init__(
        self,
        layers: Sequence[tuple[str, float, float, float]],
        cut: Sequence[int],
        *,
        schedule: Schedule | None = None,
        measure: Measure = "time",
        title: str = "",
    ) -> None:
        self._session = Session(layers, cut, schedule)
        feed = Feed(Trace.from_events([]), "StageMap", CurveEncoder)
        super().__init__(feed, {**look(self._session.split.layers), "html": read("stage.html")}, title=title, measure=measure)
        self._show()

    @classmethod
    def of(
        cls,
        pieces: Any,
        costs: Mapping[str, tuple[float, float]] | None = None,
        *,
        schedule: Schedule | None = None,
        measure: Measure = "time",
        title: str = "",
    ) -> StageMap:
        """The map of a model that `partkit.pipeline_parallel.execution.cut.cut_module` has cut.

        Args:
            pieces: what it gave.
            costs: seconds and bytes of activations by the layer's name, measured or counted.
            schedule: as above.
            measure: as above.
            title: as above.

        Example:
            >>> from torch import nn
            >>> from partkit.pipeline_parallel.execution.cut import cut_module
            >>> StageMap.of(cut_module(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), 2, [2]))
            3 layers in 2 stages on 2 ranks
            stage  rank  layers  time  parameters  in flight  activations
                0     0    0, 1   0 s    96 bytes          1      0 bytes
                1     1       2   0 s    72 bytes          1      0 bytes
        """
        layers, cut = layers_of(pieces, costs)
        return cls(layers, cut, schedule=schedule, measure=measure, title=title)

    @traitlets.validate("measure")
    def _check_measure(self, proposal: dict[str, Any]) -> str:
        value: str = proposal["value"]
        if value not in MEASURES:
            raise ValueError(f"StageMap(measure={value!r}): measure is one of {', '.join(MEASURES)}")
        return value

    # -- what there is -------------------------------------------------------------------------------------------

    @property
    def cut(self) -> list[int]:
        """Numbers of the layers at which stages 1, 2, ... begin: what `PipelineParallel` takes for a sequence of these layers."""
        return list(self._session.split.cut)

    @property
    def cut_names(self) -> list[str]:
        """The names of these layers: what `PipelineParallel` takes for any other module, if they are those of its submodules."""
        return [self._session.split.layers[place].name for place in self.cut]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Each with its number, rank, layers and totals."""
        return self._session.split.stages

    @property
    def trace(self) -> Trace:
        """The schedule on paper with the times of these stages; empty without a schedule."""
        return self._session.split.plan

    @property
    def bubble(self) -> float:
        """The share of all ranks' time in which they compute nothing; 0 without a schedule."""
        return self._session.split.bubble

    # -- what can be done ----------------------------------------------------------------------------------------

    def move(self, stage: int, layer: int | str) -> str:
        """Let a stage begin at another layer.

        Args:
            stage: from 1; the first stage begins at the first layer.
            layer: its number or name.

        Returns:
            What has become of the slowest rank and of the bubble.

        Raises:
            ValueError: there is no such stage or layer, or a stage would be left without layers.
        """
        return self._do(lambda: self._session.move(stage, layer))

    def balance(self, by: Measure = "time") -> str:
        """Cut anew, so that the stage that has most of something has as little as can be; what has changed, in words.

        Args:
            by: "time", "parameters" or "activations".

        Raises:
            ValueError: it is none of these.
        """
        return self._do(lambda: self._session.balance(by))

    def undo(self) -> str:
        """One step back, if there is one."""
        return self._do(self._session.undo)

    def redo(self) -> str:
        """One step forward again, if one was undone."""
        return self._do(self._session.redo)

    def _do(self, what: Callable[[], str]) -> str:
        text = what()
        self._show()
        self._answer(text)
        return text

    # -- what a view needs ---------------------------------------------------------------------------------------

    def _show(self) -> None:
        self._shown(chart(self._session))

    def _grant(self, wish: dict[str, Any]) -> str:
        what = wish["what"]
        if what == "move":
            return self._do(lambda: self._session.move(wish["stage"], wish["to"], wish.get("gesture")))
        if what == "balance":
            return self.balance(wish["by"])
        return self.undo() if what == "undo" else self.redo()

    def _picture(self) -> Bundle:
        split = self._session.split
        return dict(bundle(split.stages, self._title, split.line(self._session.even)))

    def __repr__(self) -> str:
        return str(self._picture()["text/plain"])
