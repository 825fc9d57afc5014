"""The outcome of a comparison: a badge for eyes, differences for code, true or false for tests."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import Any

from partkit.figures.badge import badge
from partkit.figures.units import count
from partkit.serial_twin.compare import Comparison, Difference
from partkit.serial_twin.evidence import START
from partkit.serial_twin.pairs import What

MAX_ROWS = 40
PLURAL: dict[What, str] = {"output": "outputs", "loss": "loss", "gradient": "gradients", "weight": "weights", "buffer": "buffers"}


@dataclass(frozen=True, repr=False)
class Report:
    """Whether a parallel run is the same as its serial twin. True in an ``if`` or ``assert`` when it is.

    Attributes:
        comparison: all that was found.
        size: number of ranks.
        num_steps: steps that were noted, the start not counted.
        within: the tolerance, in words.

    Example:
        >>> Report(Comparison((), {"loss": 3, "gradient": 12}, {}), size=4, num_steps=3, within="equal within 1e-09")
        ✓ same as serial
          4 ranks, 3 steps; 15 tensors compared: loss, gradients; equal within 1e-09
    """

    comparison: Comparison
    size: int
    num_steps: int
    within: str

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Everything that differs, the cause before its consequences."""
        return self.comparison.differences

    @property
    def first(self) -> Difference | None:
        """The first difference, which has the hint; None if all is equal."""
        return self.differences[0] if self.differences else None

    @property
    def largest_error(self) -> dict[What, float]:
        """By kind ("loss", "gradient", ...): the largest error, relative to the scale of its tensor."""
        return self.comparison.largest_error

    def __bool__(self) -> bool:
        return not self.differences

    def bundle(self) -> dict[str, str]:
        """Badge and text by mime type; the same in every run that finds the same."""
        rows = [_row(difference) for difference in self.differences[:MAX_ROWS]]
        head = ("step", "what", "rank", "layer", "name", "parallel", "serial", "error")
        return badge(bool(self), "same as serial" if self else "not same as serial", self._details(), rows, head)

    def _details(self) -> list[str]:
        kinds = self.comparison.num_compared
        compared = f"{count(sum(kinds.values()), 'tensor')} compared: {', '.join(PLURAL[what] for what in PLURAL if what in kinds)}"
        summary = f"{count(self.size, 'rank')}, {count(self.num_steps, 'step')}; {compared}"
        first = self.first
        if first is None:
            return [f"{summary}; {self.within}"]
        more = len(self.differences) - 1
        lines = [f"first at {describe(first)}", *([f"hint: {first.hint}"] if first.hint else [])]
        return [*lines, f"{summary}; {count(more, 'more difference')} after this one" if more else summary]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.bundle()

    def __repr__(self) -> str:
        return self.bundle()["text/plain"]


def describe(difference: Difference) -> str:
    """Where and how much, in one line.

    Example:
        >>> describe(Difference(0, "gradient", 1, "2.weight", 4.0, 2.0, (0, 3), 2.0, 1e-9))
        'step 0, rank 1: gradient of layer 2 (2.weight) is 4 at [0, 3], in one process 2; largest error 2'
    """
    where = f"{_step(difference.step)}, {'all ranks' if difference.rank is None else f'rank {difference.rank}'}"
    part = f" of layer {difference.layer} ({difference.name})" if difference.layer else f" of {difference.name}" if difference.name else ""
    if difference.what == "missing":
        return f"{where}: evidence{part} is missing"
    if isinf(difference.error):
        return f"{where}: {difference.what}{part} can't be compared with that in one process"
    place = f" at {list(difference.place)}" if difference.place else ""
    return f"{where}: {difference.what}{part} is {difference.parallel:.4g}{place}, in one process {difference.serial:.4g}; largest error {difference.error:.3g}"


def _row(difference: Difference) -> tuple[object, ...]:
    rank = "all" if difference.rank is None else difference.rank
    numbers = (f"{difference.parallel:.6g}", f"{difference.serial:.6g}", f"{difference.error:.3g}")
    return (_step(difference.step), difference.what, rank, difference.layer, difference.name, *numbers)


def _step(step: int) -> str:
    return "start" if step == START else f"step {step}"
