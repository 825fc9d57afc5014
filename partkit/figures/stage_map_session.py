"""A cut that is moved: where stages begin, what that makes of the slowest rank and of the bubble, and one step back. Pure.

    embed | block 0  block 1 | block 2  head          move(1, "block 1")          embed block 0 | block 1 | block 2 head
    rank 0     rank 1             rank 2                                          rank 0 now takes 5 ms, the bubble is 31 %, before 40 %

A pipeline passes micro-batches on as fast as its slowest rank works, so the bubble of a schedule grows with how uneven stages are. How
much of it is the schedule's own is what remains if all stages take equally long; the rest is what a better cut can win.

Cost: a move is a sum over layers and, with a schedule, a simulation on paper (`partkit.pipeline_parallel.simulation`): a few
milliseconds for some thousand actions.

Source: Narayanan et al. 2019, "PipeDream" (stages as even as can be); Huang et al. 2019, "GPipe" (the bubble).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from partkit.figures.stage_map import Layer, Stage, amount, by_rank, stages, sums
from partkit.figures.units import seconds
from partkit.pipeline_parallel.balance import balance
from partkit.pipeline_parallel.costs import Costs
from partkit.pipeline_parallel.measure import bubble_share
from partkit.pipeline_parallel.memory import has_backward, peak_microbatches
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.simulation import simulate
from partkit.tracing import Trace

Measure = Literal["time", "parameters", "activations"]
MEASURES: tuple[Measure, ...] = get_args(Measure)


@dataclass(frozen=True)
class Split:
    """Layers, where they are cut, and the schedule that the stages obey.

    Args:
        layers: in order.
        cut: numbers of the layers at which stages 1, 2, ... begin.
        schedule: None for none: then there is a slowest rank, but no bubble.

    Example:
        >>> from partkit.pipeline_parallel import gpipe
        >>> split = Split((Layer("a", 3.0, 10, 5), Layer("b", 6.0, 10, 5)), (1,), gpipe(2, 2))
        >>> split.worst("time"), split.plan.makespan, round(split.bubble, 2)
        ((1, 6.0), 15.0, 0.4)
    """

    layers: tuple[Layer, ...]
    cut: tuple[int, ...]
    schedule: Schedule | None = None

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Each with its rank and layers."""
        return stages(self.layers, self.cut, self.schedule)

    @cached_property
    def plan(self) -> Trace:
        """The schedule on paper with the times of these stages; empty without a schedule."""
        times = [sum(layer.seconds for layer in stage.layers) for stage in self.stages[: len(self.cut) + 1]]
        return planned(self.schedule, times)

    @cached_property
    def bubble(self) -> float:
        """The share of all ranks' time in which they compute nothing; 0 without a schedule."""
        return bubble_share(self.plan)

    def worst(self, measure: Measure) -> tuple[int, float]:
        """The rank that has most of something, and how much."""
        amounts = [sums(own)[MEASURES.index(measure)] for own in by_rank(self.stages)]
        return amounts.index(max(amounts)), max(amounts)

    def line(self, even: float) -> str:
        """What the schedule makes of it, in words.

        Args:
            even: the bubble if all stages took equally long.
        """
        if self.schedule is None or not self.plan.makespan:
            return ""
        return f"planned: makespan {seconds(self.plan.makespan)}, bubble {_percent(self.bubble)}; with even stages {_percent(even)}"


def planned(schedule: Schedule | None, times: Sequence[float]) -> Trace:
    """A schedule on paper.

    Args:
        schedule: or None, whose plan is empty.
        times: by stage, seconds of forward and backward of a micro-batch; a forward is a third of it, as is each half of a backward.

    Example:
        >>> from partkit.pipeline_parallel import one_f_one_b
        >>> planned(one_f_one_b(2, 4), [3.0, 3.0]).makespan
        15.0
    """
    if schedule is None:
        return Trace.from_events([], clock="planned")
    third = tuple(time / 3 for time in times)
    return simulate(schedule, Costs(third, third, third) if has_backward(schedule) else Costs(tuple(times)))


class Session:
    """A cut that changes, with the way back.

    Args:
        layers: (name, seconds, bytes of parameters, bytes of activations) for each.
        cut: where stages begin.
        schedule: which they obey.

    Attributes:
        split: as it is now.
        even: the bubble if all stages took equally long.

    Raises:
        ValueError: the cut leaves a stage empty, or does not fit the schedule.

    Example:
        >>> session = Session([("a", 3.0, 10, 5), ("b", 1.0, 10, 5), ("c", 1.0, 10, 5)], [2])
        >>> session.move(1, "b")
        'stage 1 begins at b: slowest is rank 0 with 3 s, before rank 0 with 4 s'
        >>> session.undo()
        'stage 1 begins at c: slowest is rank 0 with 4 s, before rank 0 with 3 s'
    """

    def __init__(self, layers: Sequence[tuple[str, float, float, float]], cut: Sequence[int], schedule: Schedule | None = None) -> None:
        self.split = Split(tuple(Layer(*layer) for layer in layers), tuple(place for place in cut if place != 0), schedule)
        _ = self.split.stages  # raises if the cut is none
        number = len(self.split.cut) + 1
        self.even = bubble_share(planned(schedule, [sum(layer.seconds for layer in self.split.layers) / number] * number))
        self._past: list[Split] = []
        self._future: list[Split] = []
        self._gesture: Any = None

    @property
    def undoable(self) -> tuple[bool, bool]:
        """Whether there is a step back, and one forward again."""
        return bool(self._past), bool(self._future)

    def move(self, stage: int, layer: int | str, gesture: Any = None) -> str:
        """Let a stage begin at another layer.

        Args:
            stage: from 1; the first stage begins at the first layer.
            layer: its number or name.
            gesture: moves with the same one are a single step for `undo`: a drag.

        Returns:
            What has become of the slowest rank and of the bubble.

        Raises:
            ValueError: there is no such stage or layer, or a stage would be left without layers.
        """
        cut, place = self.split.cut, self._place(layer)
        if not 1 <= stage <= len(cut):
            raise ValueError(f"move({stage!r}, ...): stages that can begin elsewhere are 1 to {len(cut)}")
        first, last = [0, *cut][stage - 1] + 1, [*cut, len(self.split.layers)][stage] - 1
        if not first <= place <= last:
            raise ValueError(f"move({stage}, {layer!r}): stage {stage} can begin at layers {first} to {last}, so that no stage is empty; this is layer {place}")
        return self.set([*cut[: stage - 1], place, *cut[stage:]], gesture)

    def balance(self, by: Measure = "time") -> str:
        """Cut anew: the stage that has most has as little as can be.

        Args:
            by: of what; activations count as often as micro-batches are in flight on the stage.

        Raises:
            ValueError: ``by`` is none of the measures.
        """
        if by not in MEASURES:
            raise ValueError(f"balance({by!r}): it is one of {', '.join(MEASURES)}")
        split, number = self.split, MEASURES.index(by)
        alive = peak_microbatches(split.schedule)[: len(split.cut) + 1] if split.schedule is not None and by == "activations" else None
        amounts = [(layer.seconds, layer.parameter_bytes, layer.activation_bytes)[number] for layer in split.layers]
        return self.set(balance(amounts, len(split.cut) + 1, scale=alive), by=by)

    def set(self, cut: Sequence[int], gesture: Any = None, *, by: Measure = "time") -> str:
        """Take a cut.

        Args:
            cut: numbers of the layers at which stages 1, 2, ... begin, as many as before.
            gesture: as in `move`.
            by: what the answer is about.

        Raises:
            ValueError: it leaves a stage empty, or makes another number of stages.
        """
        after = Split(self.split.layers, tuple(cut), self.split.schedule)
        if len(cut) != len(self.split.cut):
            raise ValueError(f"cut={list(cut)}: this map has {len(self.split.cut) + 1} stages, so it takes {len(self.split.cut)} numbers")
        _ = after.stages  # raises if one is empty
        if after.cut != self.split.cut:
            if gesture is None or gesture != self._gesture or not self._past:
                self._past.append(self.split)
            self._future, self._gesture, self.split = [], gesture, after
        return told(self._past[-1] if self._past else after, after, by)

    def undo(self) -> str:
        """One step back, if there is one."""
        return self._step(self._past, self._future)

    def redo(self) -> str:
        """One step forward again, if one was undone."""
        return self._step(self._future, self._past)

    def _step(self, source: list[Split], target: list[Split]) -> str:
        if not source:
            return ""
        before, self.split, self._gesture = self.split, source.pop(), None
        target.append(before)
        return told(before, self.split)

    def _place(self, layer: int | str) -> int:
        names = [one.name for one in self.split.layers]
        if isinstance(layer, str):
            if layer not in names:
                raise ValueError(f"there is no layer {layer!r}; there are {', '.join(names[:20])}" + (", ..." if len(names) > 20 else ""))
            return names.index(layer)
        return layer


def told(before: Split, after: Split, by: Measure = "time") -> str:
    """What has changed from one cut to the other, in words.

    Example:
        >>> told(Split((Layer("a", 3.0, 10, 5), Layer("b", 0.0, 20, 5)), (1,)), Split((Layer("a", 3.0, 10, 5), Layer("b", 0.0, 20, 5)), (1,)))
        'as before: slowest is rank 0 with 3 s'
    """
    moved = [(stage, place) for stage, (place, old) in enumerate(zip(after.cut, before.cut, strict=True), 1) if place != old]
    what = ", ".join(f"stage {stage} begins at {after.layers[place].name}" for stage, place in moved[:3]) + (", ..." if len(moved) > 3 else "")
    number, word = MEASURES.index(by), "slowest is rank" if by == "time" else f"most {by} are on rank"
    (rank, most), (old_rank, old_most) = after.worst(by), before.worst(by)
    words = f"{what or 'as before'}: {word} {rank} with {amount(most, number)}"
    if not moved:
        return words
    words += f", before rank {old_rank} with {amount(old_most, number)}"
    return words if after.schedule is None or not after.plan.makespan else f"{words}; bubble {_percent(after.bubble)}, before {_percent(before.bubble)}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
