"""Selective recomputation: some submodules keep their inputs only, and run their forward again when backward comes to them.

    block:  x -- norm -- attention -- add -- mlp -- add -- y           recompute=lambda name, module: isinstance(module, Attention)

    kept    x    norm    attention's input only      mlp's all         scores and softmax are large and quickly made again

    recompute=      kept of a micro-batch by a stage                        made twice
    "none"          all that its backward needs                             nothing
    ["b.0.attn"]    the same without the insides of those submodules        those submodules
    "full"          its inputs (`partkit.pipeline_parallel.execution.stage`)    the whole stage

While a chosen submodule runs, autograd does not get to keep its tensors: each gets a number instead [1]. The first time that backward
asks for one, the submodule runs again, from the same inputs, weights and random numbers, with its buffers untouched, and what autograd
would have kept then is put aside by number [2]; it goes when the graph goes. A backward in two halves asks twice, and is answered from there.

Source: selective activation recomputation: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree

from partkit.pipeline_parallel.execution.cut import Pieces
from partkit.pipeline_parallel.execution.piece import RandomState

Recompute = Literal["none", "full"] | Collection[str] | Callable[[str, nn.Module], bool]
"""Nothing, whole stages, or submodules: by their names in the whole model, or by whether a function of name and module says so."""


def chosen(pieces: Pieces, wanted: Recompute) -> list[list[nn.Module]]:
    """By stage, the submodules to run again; of nested ones the outermost.

    Args:
        pieces: of the model.
        wanted: as in `PipelineParallel`.

    Raises:
        ValueError: there is no submodule of that name, or it is never called by itself.

    Example:
        >>> from partkit.pipeline_parallel.execution.cut import cut_module
        >>> pieces = cut_module(nn.Sequential(nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 1), nn.Tanh()), 2)
        >>> chosen(pieces, ["1"]), chosen(pieces, lambda name, module: isinstance(module, nn.Linear))
        ([[Tanh()], []], [[Linear(in_features=1, out_features=1, bias=True)], [Linear(in_features=1, out_features=1, bias=True)]])
    """
    if isinstance(wanted, str) or not (callable(wanted) or isinstance(wanted, Collection)):
        if wanted not in ("none", "full"):
            raise ValueError(f"PipelineParallel(recompute={wanted!r}): recompute is one of 'none', 'full', names of submodules, or a function that chooses")
        return [[] for _ in pieces.stages]
    names = [_names(prefix, piece.module) for prefix, piece in zip(pieces.prefixes, pieces.stages, strict=True)]
    if not callable(wanted):
        known = {name: module for of_stage in names for name, module in of_stage}
        for name in wanted:
            if name not in known:
                raise ValueError(f"PipelineParallel(recompute={list(wanted)!r}): there is no submodule {name!r}; there are {', '.join(known)}")
            if type(known[name]) in (nn.Module, nn.ModuleList, nn.ModuleDict):
                raise ValueError(f"PipelineParallel(recompute={list(wanted)!r}): {name!r} is never called by itself; name submodules inside of it")
    says = wanted if callable(wanted) else lambda name, module: name in wanted
    return [_outermost([(name, module) for name, module in of_stage if says(name, module)]) for of_stage in names]


def _names(prefix: str, module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Submodules by their names in the whole model; a module that is a stage by itself too."""
    return [((prefix + name).rstrip("."), child) for name, child in module.named_modules() if prefix or name]


def _outermost(named: Sequence[tuple[str, nn.Module]]) -> list[nn.Module]:
    return [module for name, module in named if not any(name.startswith(f"{other}.") for other, _ in named)]


@contextmanager
def recomputing(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Inside, calls of these modules keep their inputs only.

    Example:
        >>> tanh, x = nn.Tanh(), torch.tensor([0.5], requires_grad=True)
        >>> with recomputing([tanh]):
        ...     y = tanh(x)
        >>> y.backward()
        >>> torch.equal(x.grad, 1 - torch.tanh(x.detach()) ** 2), "forward" in vars(tanh)
        (True, False)
    """
    with ExitStack() as undo:
        for module in modules:
            undo.callback(_restore, module, vars(module).get("forward"))
            module.forward = partial(_call, module, module.forward)
        yield


def _restore(module: nn.Module, own: Any) -> None:
    if own is None:
        del module.forward
    else:
        module.forward = own


def _call(module: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    again = _Again(module, forward, args, kwargs)
    with saved_tensors_hooks(again.number, again.of_number):
        return forward(*args, **kwargs)


class _Again:
    """One call, which can be made again. It lives as long as the graph of the call."""

    def __init__(self, module: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._inner = _Forward(module, forward)
        self._args, self._kwargs = args, kwargs
        self._weights = dict(self._inner.named_parameters())  # those of now: others may be there when backward comes
        self._tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        self._versions = [x._version for x in self._tensors]
        self._random = RandomState(self._tensors[0].device if self._tensors else None)
        self._num_saved = 0
        self._saved: list[Tensor] = []

    def number(self, _: Tensor) -> int:
        """In place of a tensor that autograd wants to keep [1]."""
        self._num_saved += 1
        return self._num_saved - 1

    def of_number(self, number: int) -> Tensor:
        """The tensor, when backward wants it."""
        if not self._saved:
            self._run()
            if len(self._saved) != self._num_saved:
                name = type(self._inner.module).__name__
                raise RuntimeError(
                    f"recompute: a {name} that runs again for its backward keeps {len(self._saved)} tensors, where its first run kept "
                    f"{self._num_saved}; what it does must not depend on anything but its inputs, weights and random numbers"
                )
        return self._saved[number]

    def _run(self) -> None:
        if self._versions != [x._version for x in self._tensors]:
            raise RuntimeError(
                f"recompute: what a {type(self._inner.module).__name__} was called with has been changed in place since, by itself or by somebody else, so it "
                "can't run again on the same; use no operation in place there (inplace=False), or choose other submodules"
            )
        args, kwargs = pytree.tree_map(lambda x: x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x, (self._args, self._kwargs))
        buffers = {name: buffer.clone() for name, buffer in self._inner.named_buffers()}
        keep = saved_tensors_hooks(lambda x: self._saved.append(x.detach()), lambda _: torch.empty(0))  # [2]
        with self._random.again(), torch.enable_grad(), keep:
            torch.func.functional_call(self._inner, {**self._weights, **buffers}, args, kwargs)


class _Forward(nn.Module):
    """The forward of a module without the hooks of its call, which have run already."""

    def __init__(self, module: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self._forward = module, forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module's forward returns."""
        return self._forward(*args, **kwargs)
