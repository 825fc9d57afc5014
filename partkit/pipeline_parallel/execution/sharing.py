"""Parameters that several stages use: tied weights, and the replicas of Chimera and DualPipe. Their gradients are summed.

    embedding on rank 0  --- tied ---  output head on rank 3         one parameter in one process, a copy on each rank here
    gradient of its use at the start + gradient of its use at the end = gradient in one process

After the last backward each rank sends its copy's gradient of this step once: parameters with the same holders and dtype travel in one
all-reduce, with one number more for each, which counts the ranks on which backward has reached it: if none, ``.grad`` stays as it
was, as in one process. All copies get the same bits, so equal optimizers keep them equal. Two uses on one rank are one
parameter there; autograd adds them up, and they count once.

Cost of a step: for each set of holders the all-reduce of n + k numbers, k parameters with n elements.

Source: tied embeddings in a pipeline: Shoeybi et al. 2019, "Megatron-LM"; Narayanan et al. 2021, "Efficient Large-Scale Language Model
Training on GPU Clusters".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from partkit.collectives.all_reduce import all_reduce
from partkit.collectives.broadcast import broadcast
from partkit.communicator import Communicator
from partkit.pipeline_parallel.execution.piece import Piece


class Shared(NamedTuple):
    """Parameters that the same ranks hold."""

    holders: tuple[int, ...]
    parameters: tuple[nn.Parameter, ...]


def shared_parameters(pieces: Sequence[Piece], placement: Sequence[int]) -> list[Shared]:
    """The parameters that lie on several ranks, by holders and dtype; the same list on every rank.

    Args:
        pieces: of all stages in one pipeline; parameters that are tied are one object.
        placement: the rank of each stage, replicas one after the other.

    Example:
        >>> first, last = nn.Linear(2, 2), nn.Linear(2, 2)
        >>> last.weight = first.weight
        >>> [(shared.holders, len(shared.parameters)) for shared in shared_parameters([Piece(first), Piece(last)], [0, 1])]
        [((0, 1), 1)]
        >>> shared_parameters([Piece(first), Piece(last)], [0, 0])
        []
    """
    holders: dict[nn.Parameter, set[int]] = {}
    for stage, rank in enumerate(placement):
        for parameter in pieces[stage % len(pieces)].module.parameters():
            holders.setdefault(parameter, set()).add(rank)
    groups: dict[tuple[tuple[int, ...], torch.dtype], list[nn.Parameter]] = {}
    for parameter, ranks in holders.items():
        if len(ranks) > 1:
            groups.setdefault((tuple(sorted(ranks)), parameter.dtype), []).append(parameter)
    return [Shared(ranks, tuple(parameters)) for (ranks, _), parameters in groups.items()]


class Sharing:
    """Keeps the copies of shared parameters equal.

    Args:
        shared: as `shared_parameters` found them.
        comm: the ranks.
    """

    def __init__(self, shared: Sequence[Shared], comm: Communicator) -> None:
        self._groups = [(group, comm.subgroup(group.holders)) for group in shared if comm.rank in group.holders]
        self._trained = [[p for p in group.parameters if p.requires_grad] for group, _ in self._groups]
        self._before: Mapping[nn.Parameter, Tensor | None] = {}

    def make_equal(self) -> None:
        """Every copy becomes that of its first holder."""
        with torch.no_grad():
            for group, comm in self._groups:
                for parameter in group.parameters:
                    parameter.copy_(broadcast(parameter, comm, algorithm="flat"))

    def open(self) -> None:
        """A step begins: put aside the gradients of earlier steps, which are summed already."""
        self._before = {parameter: parameter.grad for trained in self._trained for parameter in trained}
        for parameter in self._before:
            parameter.grad = None

    def close(self) -> None:
        """Backward is over: every copy gets the sum of this step's gradients, on top of what it had."""
        for (_, comm), trained in zip(self._groups, self._trained, strict=True):
            if not trained:
                continue
            used = torch.tensor([parameter.grad is not None for parameter in trained]).to(trained[0])
            flat = torch.cat([*(_gradient(parameter).reshape(-1) for parameter in trained), used])
            *pieces, users = torch.split(all_reduce(flat, comm, algorithm="naive"), [*(p.numel() for p in trained), len(trained)])
            for parameter, piece, num_users in zip(trained, pieces, users.tolist(), strict=True):
                before = self._before[parameter]
                if num_users:
                    piece = piece.view(parameter.shape)
                    parameter.grad = piece.clone() if before is None else before.add_(piece)
                else:
                    parameter.grad = before
        self._before = {}


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
