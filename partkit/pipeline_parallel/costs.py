"""What actions cost: time, bytes on the way, memory kept. One number for all stages alike, or one for each stage.

    F       forward                              B       backward_input + backward_weight, unless `backward` is given
    I       backward_input                       STEP    step
    W       backward_weight

    SEND_F  activation_bytes of the stage that sends       SEND_B  gradient_bytes of the stage that sends

    memory          kept for one micro-batch from the end of its F ...
    weight_memory   ... of which this part is still needed after I, until W; all of it by default

The defaults are the units in which the literature draws its figures: F = I = W = 1, so B = 2, and messages are free.

Source: T_F, T_B, T_W and M_B, M_W of Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 2 (their B is our I).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.schedule import Schedule

Value = float | Sequence[float]
"""One number for every stage, or a number for each stage of the pipeline."""


@dataclass(frozen=True)
class Costs:
    """Costs of the stages of a pipeline.

    Args:
        forward: seconds (or any unit) of F.
        backward_input: of I.
        backward_weight: of W.
        backward: of B; the sum of the two by default.
        step: of STEP.
        activation_bytes: size of the message that follows F, in whole bytes.
        gradient_bytes: size of the message that follows B or I; that of the activation it belongs to by default.
        memory: what one micro-batch keeps on a stage, in any unit.
        weight_memory: the part of it that stays between I and W; all of it by default.

    Example:
        >>> costs = Costs(forward=[1, 3], backward_input=2)
        >>> costs.seconds(Action(1, "F", 0), num_stages=2), costs.seconds(Action(0, "B", 0), num_stages=2)
        (3, 3.0)
    """

    forward: Value = 1.0
    backward_input: Value = 1.0
    backward_weight: Value = 1.0
    backward: Value | None = None
    step: Value = 0.0
    activation_bytes: Value = 0
    gradient_bytes: Value | None = None
    memory: Value = 1.0
    weight_memory: Value | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            numbers = () if value is None else value if isinstance(value, Sequence) else (value,)
            if not all(number >= 0 for number in numbers):
                raise ValueError(f"Costs({name}={value!r}): a cost is at least 0")
            if isinstance(value, Sequence):
                object.__setattr__(self, name, tuple(value))  # so that costs can be compared and hashed

    def per_stage(self, kind: str, num_stages: int) -> tuple[float, ...]:
        """Seconds of ``kind`` on each stage of a pipeline of ``num_stages``; 0 for what takes no time.

        Raises:
            ValueError: a cost was given for each stage, and there are more stages or fewer.
        """
        names = {"F": "forward", "I": "backward_input", "W": "backward_weight", "STEP": "step"}
        if kind in names:
            return self._spread(names[kind], num_stages)
        if kind != "B":
            return (0.0,) * num_stages
        if self.backward is not None:
            return self._spread("backward", num_stages)
        return tuple(i + w for i, w in zip(self.per_stage("I", num_stages), self.per_stage("W", num_stages), strict=True))

    def seconds(self, action: Action, num_stages: int) -> float:
        """How long ``action`` keeps its rank busy; an OVERLAP_F_B takes the time of its parts, one after the other."""
        if action.parts:
            return sum(self.seconds(part, num_stages) for part in action.parts)
        return self.per_stage(action.kind, num_stages)[action.stage % num_stages]

    def message_bytes(self, kind: str, num_stages: int) -> tuple[float, ...]:
        """By stage of the sender: bytes of its SEND_F (``kind`` F) or of its SEND_B (any other kind)."""
        activations = self._spread("activation_bytes", num_stages)
        if kind == "F":
            return activations
        return self._spread("gradient_bytes", num_stages) if self.gradient_bytes is not None else (0.0, *activations[:-1])

    def kept(self, num_stages: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """By stage: what a micro-batch keeps after F, and what of that it still keeps after I."""
        memory = self._spread("memory", num_stages)
        return memory, memory if self.weight_memory is None else self._spread("weight_memory", num_stages)

    def _spread(self, name: str, num_stages: int) -> tuple[float, ...]:
        value: Value = getattr(self, name)
        if not isinstance(value, Sequence):
            return (value,) * num_stages
        if len(value) != num_stages:
            raise ValueError(f"Costs({name}={list(value)}): {len(value)} numbers for {num_stages} stages; give one number, or one for each stage")
        return tuple(value)


UNIT = Costs()
"""F = I = W = 1, B = 2, messages free: the units of the literature's figures."""


def work(schedule: Schedule, costs: Costs = UNIT) -> tuple[float, ...]:
    """By rank: how long it is busy in one step.

    Example:
        >>> work(Schedule.parse("rank 0: 0F0 0F1 0B0 0B1"))
        (6.0,)
    """
    times = {kind: costs.per_stage(kind, schedule.num_stages) for kind in ("F", "B", "I", "W", "STEP")}

    def seconds(action: Action) -> float:
        return costs.seconds(action, schedule.num_stages) if action.parts else times[action.kind][action.stage % schedule.num_stages]

    return tuple(float(sum(seconds(action) for action in line if action.parts or action.kind in times)) for line in schedule.ranks)
