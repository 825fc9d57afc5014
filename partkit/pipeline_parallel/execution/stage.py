"""One stage of a model: the forward of a micro-batch, and its backward, whole or in two halves.

    F   inputs become leaves of a graph of their own -> outputs, cut off from it           kept: leaves, outputs
    B   gradients of the outputs -> gradients of the inputs; those of weights add up in .grad          kept: nothing
    I   gradients of the outputs -> gradients of the inputs                      kept: what the weights need (`halves`)
    W   gradients of weights add up in .grad                                                           kept: nothing

The last stage's output is the loss of the micro-batch times its weight in the loss of the batch (`microbatches.Loss`): so gradients
add up to those of the whole batch, and there is no division anywhere.

A piece may begin with something that works in place, ``nn.ReLU(inplace=True)`` say. What it changes so is a copy: the first micro-batch
shows which of its inputs that concerns.

With full recomputation F keeps its inputs and the state of the random numbers, and backward runs the forward again: with the same random
numbers, and with buffers untouched. Of submodules alone: `partkit.pipeline_parallel.execution.recompute`.

Source: recomputation: Huang et al. 2019, "GPipe" (re-materialization).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from partkit.pipeline_parallel.execution.halves import Halves
from partkit.pipeline_parallel.execution.microbatches import Loss, Microbatch
from partkit.pipeline_parallel.execution.piece import Piece, RandomState
from partkit.pipeline_parallel.execution.recompute import recomputing
from partkit.pipeline_parallel.execution.values import Form, take_apart
from partkit.pipeline_parallel.execution.versions import WeightVersions


class Share(NamedTuple):
    """What a stage is to do with one micro-batch."""

    microbatch: Microbatch
    weight: float
    """Of its loss in that of the batch, or of those whose gradients one step gathers."""
    incoming: Form
    outgoing: Form | None
    """None for the last stage."""


@dataclass
class Kept:
    """What a stage keeps of a micro-batch until its backward is done."""

    inputs: list[Tensor] = field(default_factory=list)
    """Tensors of the incoming form; leaves, those with gradient."""
    roots: list[Tensor] = field(default_factory=list)
    """Where backward begins: outputs with gradient, or the loss."""
    random: RandomState | None = None
    """Set while ``roots`` are still to be computed again."""
    halves: Halves | None = None
    """Set between I and W."""


class Stage:
    """One stage of a model.

    Args:
        number: of the stage, for messages.
        piece: what it computes.
        loss: for the last stage.
        full: keep the inputs only, and run the whole forward again in backward.
        again: submodules of which the same is wanted, where it is not wanted of the whole.

    Attributes:
        losses: by micro-batch, without history; of a last stage.
        outputs: by micro-batch; of a last stage that does not train.
        versions: of the weights, if an optimizer steps inside the schedule; else None.

    Example:
        >>> from partkit.pipeline_parallel.execution.values import take_apart
        >>> stage = Stage(0, Piece.of(torch.nn.Linear(1, 1, bias=False)), Loss())
        >>> torch.nn.init.ones_(stage.piece.module.weight).shape
        torch.Size([1, 1])
        >>> x = torch.tensor([[3.0]], requires_grad=True)
        >>> stage.begin({0: Share(Microbatch((), {}, None, 1), 1.0, take_apart((x,))[0], None)}, train=True)
        >>> stage.forward(0, [x.detach()]), stage.losses[0], stage.num_kept
        ([], tensor([[3.]]), 1)
        >>> stage.backward(0, []), stage.piece.module.weight.grad, stage.num_kept
        ([tensor([[1.]])], tensor([[3.]]), 0)
    """

    def __init__(self, number: int, piece: Piece, loss: Loss, *, full: bool = False, again: Sequence[nn.Module] = ()) -> None:
        self.number = number
        self.piece = piece
        self._loss = loss
        self._recompute, self._again = full, again
        self._kept: dict[int, Kept] = {}
        self._changed: dict[int, set[int]] = {}  # by number of inputs, once it is known: those that the piece changes in place
        self.versions: WeightVersions | None = None
        self.begin({}, train=True)

    def begin(self, shares: Mapping[int, Share], *, train: bool) -> None:
        """A step begins; whatever an earlier one left, because it failed, is forgotten.

        Args:
            shares: by micro-batch.
            train: whether backward follows; otherwise nothing is kept, and a last stage has outputs, not losses.
        """
        self._shares = shares
        self._train = train
        self._kept.clear()
        if train and self.versions is not None:
            self.versions.begin()
        self.losses: dict[int, Tensor] = {}
        self.outputs: dict[int, Any] = {}

    @property
    def num_kept(self) -> int:
        """Micro-batches of which it keeps something."""
        return len(self._kept)

    def first_inputs(self, i: int) -> list[Tensor]:
        """Of a first stage: the tensors of the batch's positional arguments."""
        args = self._shares[i].microbatch.args
        tensors = args if all(isinstance(x, Tensor) for x in args) else take_apart(args)[1]
        return [x.detach() for x in tensors]

    def buffers(self, i: int) -> list[Tensor]:
        """Where the tensors of the incoming form arrive."""
        return [tensor.empty() for tensor in self._shares[i].incoming.tensors]

    def gradient_buffers(self, i: int) -> list[Tensor]:
        """Where the gradients of the outgoing form arrive; none for the last stage."""
        outgoing = self._shares[i].outgoing
        return [] if outgoing is None else [tensor.empty() for tensor in outgoing.with_gradient]

    def forward(self, i: int, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run micro-batch ``i``.

        Args:
            i: number of the micro-batch.
            inputs: the tensors of its incoming form.

        Returns:
            The tensors of its outgoing form, without history; none from the last stage.
        """
        if not self._train:
            with torch.no_grad():
                return self._run(i, inputs, Kept())
        kept = self._kept[i] = Kept(_leaves(inputs, self._shares[i].incoming))
        if not self._recompute:
            return self._run(i, kept.inputs, kept)
        kept.random = RandomState(kept.inputs[0].device if kept.inputs else None)
        with torch.no_grad():
            return self._run(i, kept.inputs, kept)

    def backward(self, i: int, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The whole backward of micro-batch ``i``: weights get their gradients.

        Args:
            i: number of the micro-batch.
            gradients: of the outputs with gradient; none for the last stage.

        Returns:
            The gradients of the inputs with gradient: zeros where nothing depends on one.
        """
        kept = self._roots_of(i)
        if kept.roots:
            torch.autograd.backward(kept.roots, self._given(i, gradients))
        self._done(i)
        return [_zeros_if_none(x.grad, x) for x in kept.inputs if x.requires_grad]

    def backward_input(self, i: int, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The first half of a backward; arguments and result as for `backward`, but weights have to wait."""
        kept = self._roots_of(i)
        leaves = [x for x in kept.inputs if x.requires_grad]
        kept.halves = Halves(kept.roots, self._given(i, gradients) if kept.roots else [], leaves)
        found = kept.halves.of_inputs()
        kept.roots, kept.inputs = [], []
        return [_zeros_if_none(gradient, x) for gradient, x in zip(found, leaves, strict=True)]

    def backward_weight(self, i: int) -> None:
        """The second half: weights get their gradients."""
        halves = self._kept[i].halves
        assert halves is not None, "I comes before W"
        halves.of_weights()
        self._done(i)

    # -- helpers -------------------------------------------------------------------------------------------------

    def _weights(self, i: int) -> Mapping[str, Tensor] | None:
        """The weights for micro-batch ``i``, where they are not simply those of the module."""
        return None if self.versions is None or not self._train else self.versions.of(i)

    def _done(self, i: int) -> None:
        """Backward is over."""
        del self._kept[i]
        if self.versions is not None:
            self.versions.gather(i)

    def _run(self, i: int, inputs: Sequence[Tensor], kept: Kept) -> list[Tensor]:
        share, handed = self._shares[i], self._handed(inputs)
        with recomputing(self._again) if self._again else nullcontext():
            returned = self.piece(share.incoming.put_together(handed), share.microbatch.kwargs, self._weights(i))
        if len(inputs) not in self._changed and not torch.is_inference_mode_enabled():
            self._changed[len(inputs)] = {number for number, x in enumerate(handed) if x._version}
        return self._finish(i, returned, kept)

    def _handed(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The inputs as the piece may have them: copies of those that it changes, or of all as long as that is not known."""
        changed = self._changed.get(len(inputs), range(len(inputs)))
        return [x.clone() if number in changed else x for number, x in enumerate(inputs)] if changed else inputs

    def _finish(self, i: int, returned: Any, kept: Kept) -> list[Tensor]:
        """Put aside where backward begins; hand on what travels."""
        share = self._shares[i]
        if share.outgoing is None:
            self._finish_last(i, returned, kept)
            return []
        form = share.outgoing if torch.is_grad_enabled() else share.outgoing.without_gradients
        tensors = form.tensors_in(self.piece.hands_over(returned), self.number)
        kept.roots = [x for x in tensors if x.requires_grad and torch.is_grad_enabled()]
        return [x.detach() for x in tensors]

    def _finish_last(self, i: int, returned: Any, kept: Kept) -> None:
        if not self._train:
            self.outputs[i] = returned
            return
        share = self._shares[i]
        loss = self._loss(returned, share.microbatch.target) if share.weight else _nothing(returned)
        self.losses[i] = loss.detach()
        kept.roots = [loss] if loss.requires_grad else []

    def _roots_of(self, i: int) -> Kept:
        """What is kept of ``i``, with the forward run again if need be."""
        kept = self._kept[i]
        if kept.random is not None:
            share = self._shares[i]
            with kept.random.again(), torch.enable_grad():
                handed = share.incoming.put_together(self._handed(kept.inputs))
                returned = self.piece.without_traces(handed, share.microbatch.kwargs, self._weights(i))
                self._finish(i, returned, kept)
            kept.random = None
        return kept

    def _given(self, i: int, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradient of each root."""
        share = self._shares[i]
        return list(gradients) if share.outgoing is not None else [torch.full_like(self._kept[i].roots[0], share.weight)]


def _leaves(inputs: Sequence[Tensor], form: Form) -> list[Tensor]:
    """The inputs, where they have a gradient as leaves of a new graph."""
    return [x.detach().requires_grad_() if tensor.with_gradient else x for x, tensor in zip(inputs, form.tensors, strict=True)]


def _zeros_if_none(gradient: Tensor | None, x: Tensor) -> Tensor:
    return torch.zeros_like(x, requires_grad=False) if gradient is None else gradient.detach()


def _nothing(returned: Any) -> Tensor:
    """The loss of a micro-batch without items: 0, and so is every gradient, where the mean over none would be nan."""
    _, tensors = take_apart((returned,))
    return torch.stack([x.sum() * 0 for x in tensors if x.is_floating_point()]).sum()
