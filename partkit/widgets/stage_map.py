"""`StageMap`: which layers lie on which rank, with time, parameters and activations.

    pk.StageMap([("embed", 1e-3, 4e6, 1e6), ("block 0", 3e-3, 8e6, 2e6), ("head", 1e-3, 4e6, 1e6)], cut=[1])
    pk.StageMap(layers, cut=[3, 6, 9], schedule=pk.pipeline_parallel.one_f_one_b(4, 8))      activations of all micro-batches in flight

What is drawn: `partkit.figures.stage_map`. It needs no browser's help: a picture, a table and a text, which is also what is saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partkit.figures.stage_map import Stage, bundle, layers_of, stages
from partkit.pipeline_parallel.schedule import Schedule


class StageMap:
    """A cut of a model's layers in stages on ranks.

    Args:
        layers: (name, seconds, bytes of parameters, bytes of activations) for each layer, in order; seconds and activations of one
            micro-batch.
        cut: numbers of the layers at which a new stage begins, as `partkit.pipeline_parallel.balance.balance` gives them.
        schedule: says which rank a stage lies on, and how many micro-batches are in flight on it; without it stage s lies on rank s.
        title: shown above it.

    Attributes:
        stages: each with its number, rank, layers and totals.

    Raises:
        ValueError: the cut leaves a stage empty, or does not fit the schedule.

    Example:
        >>> StageMap([("embed", 0.001, 4e6, 1e6), ("block", 0.003, 8e6, 2e6), ("head", 0.002, 4e6, 1e6)], cut=[2])
        3 layers in 2 stages on 2 ranks; rank 0 is the slowest: 4 ms for a micro-batch, 1.33 times the mean
        stage  rank        layers  time  parameters  in flight  activations
            0     0  embed, block  4 ms       12 MB          1         3 MB
            1     1          head  2 ms        4 MB          1         1 MB
    """

    def __init__(self, layers: Sequence[tuple[str, float, float, float]], cut: Sequence[int], *, schedule: Schedule | None = None, title: str = "") -> None:
        self.stages: tuple[Stage, ...] = stages(layers, cut, schedule)
        self._title = title

    @classmethod
    def of(cls, pieces: Any, costs: Mapping[str, tuple[float, float]] | None = None, *, schedule: Schedule | None = None, title: str = "") -> StageMap:
        """The map of a model that `partkit.pipeline_parallel.execution.cut.cut_module` has cut.

        Args:
            pieces: what it gave.
            costs: seconds and bytes of activations by the layer's name, measured or counted.
            schedule: as above.
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
        return cls(layers, cut, schedule=schedule, title=title)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return bundle(self.stages, self._title)

    def __repr__(self) -> str:
        return bundle(self.stages, self._title)["text/plain"]
