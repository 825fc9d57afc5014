"""Which layers lie on which rank, and what they cost there: time, parameters, activations. Pure.

    layers                   stage        rank 0  |embed|block 0|block 1|      time        |=====|         parameters   ...
    embed, block 0, block 1    0          rank 1  |block 2|block 3|            time      |===|             parameters   ...
    block 2, block 3           1          rank 2  |block 4|head     |          time         |==|           parameters   ...
    block 4, head              2

A pipeline is as fast as its slowest rank: the time that matters is the longest, and how much longer it is than the mean says what a
better cut could win at most. Activations are kept for as many micro-batches as the schedule has in flight on a stage
(`partkit.pipeline_parallel.memory.peak_microbatches`): 1F1B keeps p - s on stage s, so equal layers do not keep equally much.

What is drawn of it: `partkit.figures.stage_map_picture`; how a cut is moved: `partkit.figures.stage_map_session`.

Source: balancing stages, Huang et al. 2019 (GPipe), section 2.1; activations in flight, Narayanan et al. 2021 (Megatron-LM), section 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from partkit.figures.units import nbytes, seconds
from partkit.pipeline_parallel.memory import peak_microbatches
from partkit.pipeline_parallel.schedule import Schedule

PANELS = ("time of a micro-batch", "parameters", "activations kept")


class Layer(NamedTuple):
    """One layer of a model."""

    name: str
    seconds: float
    """Forward and backward of one micro-batch."""
    parameter_bytes: float
    activation_bytes: float
    """Kept for the backward of one micro-batch."""


class Stage(NamedTuple):
    """Neighbouring layers that lie on one rank."""

    number: int
    rank: int
    layers: tuple[Layer, ...]
    in_flight: int
    """Micro-batches for which activations are kept at a time, at most."""
    share: float = 1.0
    """Part of the micro-batches that pass it; half, if there is another pipeline in the opposite direction."""

    def amounts(self, layer: Layer) -> tuple[float, float, float]:
        """What a layer of this stage takes in each panel."""
        return layer.seconds * self.share, layer.parameter_bytes, layer.activation_bytes * self.in_flight

    @property
    def totals(self) -> tuple[float, float, float]:
        """Seconds, bytes of parameters, bytes of activations of all its layers."""
        every = [self.amounts(layer) for layer in self.layers]
        return sum(one[0] for one in every), sum(one[1] for one in every), sum(one[2] for one in every)


def stages(layers: Sequence[tuple[str, float, float, float]], cut: Sequence[int], schedule: Schedule | None = None) -> tuple[Stage, ...]:
    """Cut a list of layers.

    Args:
        layers: (name, seconds, bytes of parameters, bytes of activations) for each, in order.
        cut: numbers of the layers at which a new stage begins; a leading 0 may be left out.
        schedule: says which rank a stage lies on, and how many micro-batches are in flight on it; by default stage s lies on rank s, and
            activations are those of one micro-batch.

    Raises:
        ValueError: the cut is not rising, leaves a stage empty, or does not give as many stages as the schedule has.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> found = stages([("a", 1.0, 10, 5), ("b", 2.0, 20, 5), ("c", 1.0, 10, 5)], [1], one_f_one_b(2, 4))
        >>> [(stage.rank, [layer.name for layer in stage.layers], stage.totals) for stage in found]
        [(0, ['a'], (1.0, 10, 10)), (1, ['b', 'c'], (3.0, 30, 10))]
    """
    parts = [Layer(*layer) for layer in layers]
    for layer in parts:
        if min(layer[1:]) < 0:
            raise ValueError(f"StageMap(layers=...): {layer.name!r} has {layer[1:]}; seconds and bytes are at least 0")
    edges = [0, *(place for place in cut if place != 0), len(parts)]
    if any(first >= end for first, end in pairwise(edges)):
        raise ValueError(f"StageMap(cut={list(cut)}): a cut is rising numbers of layers from 1 to {len(parts) - 1}, one fewer than stages")
    number = len(edges) - 1
    if schedule is not None and schedule.num_stages != number:
        raise ValueError(f"StageMap(cut={list(cut)}): this makes {number} stages, the schedule has {schedule.num_stages}")
    if schedule is None:
        return tuple(Stage(s, s, tuple(parts[first:end]), 1) for s, (first, end) in enumerate(pairwise(edges)))
    alive = peak_microbatches(schedule)
    return tuple(  # of several replicas each has all stages
        Stage(s, rank, tuple(parts[edges[s % number] : edges[s % number + 1]]), alive[s], 1 / schedule.replicas) for s, rank in enumerate(schedule.placement)
    )


def layers_of(pieces: Any, costs: Mapping[str, tuple[float, float]] | None = None) -> tuple[list[Layer], list[int]]:
    """The layers of a model that has been cut, and the cut.

    Args:
        pieces: of `partkit.pipeline_parallel.execution.cut.cut_module`.
        costs: seconds and bytes of activations by the layer's name; what is not in it has none.

    Returns:
        What each piece calls, by the names that ``PipelineParallel(cut=...)`` takes, with the bytes of parameters; the numbers of the layers at
        which stages begin. Of a piece that was cut along a graph these are the submodules that its graph calls, and parameters that no
        submodule has count in the first; of others, its children; or the piece itself, if there are none.

    Example:
        >>> from torch import nn
        >>> from partkit.pipeline_parallel.execution.cut import cut_module
        >>> layers, cut = layers_of(cut_module(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), 2, [2]), {"0": (1e-3, 64)})
        >>> [(layer.name, layer.seconds, layer.parameter_bytes) for layer in layers], cut
        ([('0', 0.001, 96), ('1', 0.0, 0), ('2', 0.0, 72)], [2])
    """
    found: list[Layer] = []
    cut = []
    for number, piece in enumerate(pieces.stages):
        cut.append(len(found))
        calls = _calls(piece.module) or {f"piece {number}": piece.module}
        weights = [{id(weight): weight.numel() * weight.element_size() for weight in module.parameters()} for module in calls.values()]
        loose = {id(weight): weight.numel() * weight.element_size() for weight in piece.module.parameters()}
        weights[0] |= {key: size for key, size in loose.items() if not any(key in own for own in weights)}
        for name, own in zip(calls, weights, strict=True):
            took, kept = (costs or {}).get(name, (0.0, 0.0))
            found.append(Layer(name, took, sum(own.values()), kept))
    return found, cut[1:]


def _calls(module: Any) -> dict[str, Any]:
    """By name, what a piece calls: as its graph says, if it has one."""
    graph = getattr(module, "graph", None)
    if graph is None:
        return dict(module.named_children())
    return {str(node.target): module.get_submodule(node.target) for node in graph.nodes if node.op == "call_module"}


def by_rank(found: Sequence[Stage]) -> list[list[Stage]]:
    """The stages of each rank.

    Example:
        >>> [[stage.number for stage in own] for own in by_rank(stages([("a", 1, 1, 1), ("b", 1, 1, 1)], [1]))]
        [[0], [1]]
    """
    return [[stage for stage in found if stage.rank == rank] for rank in range(1 + max(stage.rank for stage in found))]


def sums(own: Sequence[Stage]) -> tuple[float, float, float]:
    """What the stages of one rank take together."""
    return sum(stage.totals[0] for stage in own), sum(stage.totals[1] for stage in own), sum(stage.totals[2] for stage in own)


def headline(found: Sequence[Stage]) -> str:
    """The slowest rank, and how much longer it works than the mean.

    Example:
        >>> headline(stages([("a", 1.0, 10, 5), ("b", 2.0, 20, 5), ("c", 1.0, 10, 5)], [1]))
        '3 layers in 2 stages on 2 ranks; rank 1 is the slowest: 3 s for a micro-batch, 1.5 times the mean'
    """
    ranks = by_rank(found)
    times = [sums(own)[0] for own in ranks]
    slowest, mean = times.index(max(times)), sum(times) / len(times)
    replicas = round(1 / found[0].share)
    layers = sum(len(stage.layers) for stage in found) // replicas
    words = f"{layers} layers in {len(found) // replicas} stages on {len(ranks)} ranks"
    return words + (f"; rank {slowest} is the slowest: {seconds(times[slowest])} for a micro-batch, {times[slowest] / mean:.3g} times the mean" if mean else "")


def amount(value: float, panel: int) -> str:
    """A number of a panel in words: seconds, or bytes.

    Example:
        >>> amount(0.002, 0), amount(2000, 1)
        ('2 ms', '2 kB')
    """
    return seconds(value) if panel == 0 else nbytes(round(value))
