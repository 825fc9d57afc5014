"""What a stage hands to the next: tensors that travel, and everything else, which both sides know beforehand.

    handed over     (hidden, {"mask": mask, "heads": 4, "note": None})
    its tensors     hidden                                          travels; its gradient comes back
                    mask                                            travels; nothing comes back
    its form        (float64[2, 8] with gradient, {"mask": bool[2, 8] without gradient, "heads": 4, "note": None})

A receive is posted before its tensor is sent, so the form must be known: it is announced once for all micro-batches that look alike
(`partkit.pipeline_parallel.execution.announcing`). What is handed over later must have the form that was announced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class TensorForm:
    """A tensor without its numbers."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    """Its type: each rank has its own."""
    with_gradient: bool

    def empty(self) -> Tensor:
        """Memory for one."""
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)} {'with' if self.with_gradient else 'without'} gradient"


@dataclass(frozen=True)
class Form:
    """What is handed over, with the form of each tensor in its place.

    Example:
        >>> form, tensors = take_apart((torch.ones(2, 3), {"heads": 4}))
        >>> print(form.tensors[0], len(tensors))
        float32[2, 3] without gradient 1
        >>> form.put_together(tensors)[1]
        {'heads': 4}
    """

    values: tuple[Any, ...]

    @cached_property
    def tensors(self) -> tuple[TensorForm, ...]:
        """The form of each tensor, in order."""
        return self.values if self._flat else tuple(leaf for leaf in pytree.tree_leaves(self.values) if isinstance(leaf, TensorForm))

    @cached_property
    def _flat(self) -> bool:
        """Whether it is a row of tensors and nothing else, as it mostly is: then there is nothing to search for."""
        return all(type(value) is TensorForm for value in self.values)

    @cached_property
    def with_gradient(self) -> tuple[TensorForm, ...]:
        """The tensors whose gradient comes back."""
        return tuple(tensor for tensor in self.tensors if tensor.with_gradient)

    @cached_property
    def without_gradients(self) -> Form:
        """The same, as it is handed over where nothing is differentiated."""
        return self if not self.with_gradient else Form(self._with_each(lambda tensor: replace(tensor, with_gradient=False)))

    def put_together(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """What was handed over, with these tensors in it."""
        if self._flat:
            return tuple(tensors)
        following = iter(tensors)
        return self._with_each(lambda _: next(following))

    def zeros(self) -> tuple[Any, ...]:
        """Something of this form: tensors of zeros, leaves of a graph where they have a gradient."""
        return self._with_each(lambda tensor: tensor.empty().zero_().requires_grad_(tensor.with_gradient))

    def tensors_in(self, values: tuple[Any, ...], stage: int) -> list[Tensor]:
        """The tensors in ``values``, which ``stage`` hands over and which must have this form.

        Raises:
            ValueError: they have not; in words.
        """
        if self._flat and len(values) == len(self.values) and all(map(_fits, values, self.values)):
            return list(values)
        found, tensors = take_apart(values)
        if found != self:
            self._refuse(found, stage)
        return tensors

    def _refuse(self, found: Form, stage: int) -> NoReturn:
        announced, leaves = pytree.tree_leaves(self.values), pytree.tree_leaves(found.values)
        for told, leaf in zip(announced, leaves, strict=False):
            if told != leaf:
                raise ValueError(
                    f"stage {stage} hands over {leaf}, where it announced {told} for batches that look like this one; what depends on the "
                    "numbers in a batch must be a tensor of the same shape each time"
                )
        raise ValueError(f"stage {stage} hands over {len(leaves)} values, where it announced {len(announced)} for batches that look like this one")

    def _with_each(self, change: Callable[[TensorForm], Any]) -> tuple[Any, ...]:
        changed: tuple[Any, ...] = pytree.tree_map(lambda leaf: change(leaf) if isinstance(leaf, TensorForm) else leaf, self.values)
        return changed


def take_apart(values: tuple[Any, ...]) -> tuple[Form, list[Tensor]]:
    """The form of what is handed over, and its tensors.

    Example:
        >>> take_apart((1, [torch.ones(2)]))[1]
        [tensor([1., 1.])]
    """
    if all(isinstance(value, Tensor) for value in values):  # as it mostly is: nothing to search for
        return Form(tuple(map(_form, values))), list(values)
    tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
    return Form(pytree.tree_map(lambda leaf: _form(leaf) if isinstance(leaf, Tensor) else leaf, values)), tensors


def _fits(x: Any, form: TensorForm) -> bool:
    return isinstance(x, Tensor) and x.shape == form.shape and x.dtype is form.dtype and x.requires_grad is form.with_gradient and x.device.type == form.device


def _form(x: Tensor) -> TensorForm:
    return TensorForm(tuple(x.shape), x.dtype, x.device.type, x.requires_grad)
