"""Weight versions: the optimizer steps while micro-batches are on their way, and each backward uses the weights of its forward.

Stage 0 of pipedream(2, 4); S is an optimizer step:

    does        F0 F1 B0 S0 F2 B1 S1 F3 B2 S2 B3 S3
    version      0  0  0     1  0     2  1     2            B2 uses version 1, with which F2 was made, though 2 is there already
    held         1  1  1  2  2  2  2  2  2  2  1  1

A version is a set of leaves of autograd that share the parameters' memory [1]. The optimizer changes that memory in place; if a
micro-batch still needs the version, the parameters are first moved to memory of their own, and the version keeps the old [2]. So a
stage holds the versions that it needs and no more: p - s under PipeDream, two under PipeDream-2BW, one where nothing is on its way.
Gradients of a version's leaves are handed to the parameters, where the optimizer looks for them [3].

Cost: a copy of a stage's weights for each step that overtakes a micro-batch; memory: the versions.

Source: "weight stashing": Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training"; "double-buffered weight
updates": Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from partkit.pipeline_parallel.execution.piece import Piece
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.stepping import gathered, hold_back_of, weight_versions


class WeightVersions:
    """The weights of one stage.

    Args:
        module: of the stage.
        optimizer: of its parameters.
        version_of: by micro-batch, the version that its forward uses; 0 before the first step of a stream, 1 after it.

    Attributes:
        used: by micro-batch, the version that its forward has used, and its backward too.
        most: the most versions that were held at a time.

    Example:
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> start = layer.weight.item()
        >>> versions = WeightVersions(layer, torch.optim.SGD(layer.parameters(), lr=0.1), {0: 0, 1: 0})
        >>> versions.begin()
        >>> first, second = versions.of(0)["weight"], versions.of(1)["weight"]
        >>> first.square().sum().backward(); versions.gather(0); versions.step()
        >>> layer.weight.item() == start, second.item() == start, versions.num_held
        (False, True, 2)
    """

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, version_of: Mapping[int, int]) -> None:
        self._parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        self.optimizer = optimizer
        self._version_of = version_of
        self.used: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """A stream of micro-batches begins."""
        self._needed = Counter(self._version_of.values())
        self._newest, self.most, self.used = 0, 1, {}
        self._held = {0: self._leaves()}

    @property
    def num_held(self) -> int:
        """Versions in memory."""
        return len(self._held)

    def of(self, i: int) -> Mapping[str, Tensor]:
        """The weights for micro-batch ``i``, by name."""
        self.used[i] = self._version_of[i]
        return self._held[self.used[i]]

    def gather(self, i: int) -> None:
        """The backward of micro-batch ``i`` is done: parameters get its gradients, and its version is needed once less."""
        version = self._version_of[i]
        for name, leaf in self._held[version].items():
            parameter, gradient = self._parameters[name], leaf.grad
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)  # [3]
                leaf.grad = None
        self._needed[version] -= 1
        if not self._needed[version] and version != self._newest:
            del self._held[version]

    def step(self) -> None:
        """The optimizer steps, with the gradients that have been gathered."""
        if self._needed[self._newest]:
            for parameter in self._parameters.values():
                parameter.data = parameter.data.clone()  # [2]
        else:
            del self._held[self._newest]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._newest += 1
        self._held[self._newest] = self._leaves()
        self.most = max(self.most, len(self._held))

    def _leaves(self) -> dict[str, Tensor]:
        return {name: parameter.data.requires_grad_() for name, parameter in self._parameters.items()}  # [1]


def versions_of(schedule: Schedule, stage: int) -> dict[int, int]:
    """By micro-batch: the version of the weights that ``stage`` uses.

    Example:
        >>> from partkit.pipeline_parallel import pipedream
        >>> versions_of(pipedream(2, 4), 0), versions_of(pipedream(2, 4), 1)
        ({0: 0, 1: 0, 2: 1, 3: 2}, {0: 0, 1: 1, 2: 2, 3: 3})
    """
    return {action.microbatch or 0: version for action, version in weight_versions(schedule, hold_back_of(schedule)).items() if action.stage == stage}


def check_steps(schedule: Schedule, pieces: Sequence[Piece]) -> None:
    """Refuse what can't step by stages.

    Raises:
        ValueError: the schedule has no steps, or stages share weights.
    """
    if not gathered(schedule):
        raise ValueError(
            f"use_optimizer: {schedule!r} has no STEP, so nothing steps inside of it: make an optimizer of model.parameters() and call its "
            "step() after model.step(...), or choose a schedule that steps, as 'pipedream' does"
        )
    users = Counter(parameter for piece in pieces for parameter in piece.module.parameters())
    users.update(dict.fromkeys(users, schedule.replicas - 1))
    for stage, piece in enumerate(pieces):
        for name, parameter in piece.module.named_parameters():
            if users[parameter] > 1:
                raise ValueError(
                    f"use_optimizer: {name} of stage {stage} lies on another stage too; stages step at different times under {schedule!r}, so its "
                    "copies would part. Untie it, or choose a schedule that steps once for all, as 'one_f_one_b' does"
                )
