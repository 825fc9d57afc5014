"""A batch in micro-batches: which arguments are split, along which dim, and how many rows each micro-batch gets.

    model.step(tokens, mask=mask, scale=2.0, target=target)        8 rows, 3 micro-batches

    tokens  [8, 5]     rows 0-2    3-5    6-7        tensors are split along dim 0
    mask    [8, 5]     rows 0-2    3-5    6-7        keyword arguments too: a mask belongs to its rows
    scale   2.0        2.0         2.0    2.0        what is no tensor, or has no dims, goes to all
    target  [8]        rows 0-2    3-5    6-7

``split={"table": None}`` hands an argument to all as it is; ``split={"states": 1}`` splits it along another dim. A tensor inside a
list or dict is split as its argument is. The rule for rows that do not divide is the one of `partkit.partition`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from partkit.partition import block_sizes

TARGET = "target"
"""The name under which the target is split."""
OUTPUT = "output"
"""The name under which it is said how outputs are joined."""


class Microbatch(NamedTuple):
    """The share of one micro-batch."""

    args: tuple[Any, ...]
    """Positional arguments of the module."""
    kwargs: dict[str, Any]
    """Its keyword arguments."""
    target: Any
    """For the loss."""
    rows: int
    """How many."""


def split_batch(
    num_microbatches: int, split: Mapping[str, int | None], names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any], target: Any
) -> list[Microbatch]:
    """Cut a batch in micro-batches.

    Args:
        num_microbatches: m.
        split: by name of an argument, the dim along which it is split; None: not at all. Others are split along dim 0.
        names: of the positional arguments.
        args: positional arguments; a tensor that is split has the rows of the batch in that dim.
        kwargs: keyword arguments, likewise.
        target: likewise, under the name "target".

    Raises:
        ValueError: there is nothing to split, fewer rows than micro-batches, or tensors differ in rows.

    Example:
        >>> shares = split_batch(3, {"table": None}, ["x"], (torch.arange(8),), {"table": torch.ones(2)}, None)
        >>> [share.args[0].tolist() for share in shares], shares[0].kwargs
        ([[0, 1, 2], [3, 4, 5], [6, 7]], {'table': tensor([1., 1.])})
    """
    named = [*zip(names, args, strict=False), *kwargs.items(), (TARGET, target)]
    if unknown := set(split) - {name for name, _ in named}:
        raise ValueError(f"split={dict(split)!r}: there is no argument {sorted(unknown)[0]!r}; there are {', '.join(name for name, _ in named)}")
    sizes = block_sizes(_num_rows(named, split, num_microbatches), num_microbatches)
    *parts, targets = (_cut(value, split.get(name, 0), sizes) for name, value in named)
    of_each = zip(*parts, strict=True) if parts else [()] * len(sizes)
    return [
        Microbatch(values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True)), target, rows)
        for values, target, rows in zip(of_each, targets, sizes, strict=True)
    ]


def _num_rows(named: Sequence[tuple[str, Any]], split: Mapping[str, int | None], num_microbatches: int) -> int:
    """Rows of the batch, on which all tensors that are split agree."""
    rows, first = None, ""
    for name, x, dim in _tensors_to_split(named, split):
        if dim >= x.dim():
            raise ValueError(f"split={{{name!r}: {dim}}}: {name} of shape {list(x.shape)} has no dim {dim}")
        if rows is not None and x.shape[dim] != rows:
            raise ValueError(
                f"{name} of shape {list(x.shape)} has {x.shape[dim]} rows in dim {dim}, but {first} has {rows}; if it does not belong to rows, "
                f"say split={{{name!r}: None}}, and if its rows are in another dim, say which"
            )
        rows, first = x.shape[dim], first or name
    if rows is None:
        raise ValueError("there is no tensor to split in micro-batches: give the batch, for example model.step(x, target=y)")
    if rows < num_microbatches:
        raise ValueError(f"{first} has {rows} rows, fewer than the {num_microbatches} micro-batches of the schedule: each needs at least one")
    return rows


def _tensors_to_split(named: Sequence[tuple[str, Any]], split: Mapping[str, int | None]) -> Iterator[tuple[str, Tensor, int]]:
    """Name of the argument, tensor, dim."""
    for name, value in named:
        dim = split.get(name, 0)
        if dim is not None and value is not None:
            leaves = (value,) if isinstance(value, Tensor) else pytree.tree_leaves(value)
            yield from ((name, leaf, dim) for leaf in leaves if isinstance(leaf, Tensor) and leaf.dim())


def _cut(value: Any, dim: int | None, sizes: Sequence[int]) -> list[Any]:
    """``value`` for each micro-batch."""
    if dim is None or value is None:
        return [value] * len(sizes)
    if isinstance(value, Tensor) and value.dim():
        return list(torch.split(value, list(sizes), dim))
    leaves, structure = pytree.tree_flatten(value)
    columns = [torch.split(leaf, list(sizes), dim) if isinstance(leaf, Tensor) and leaf.dim() else [leaf] * len(sizes) for leaf in leaves]
    return [pytree.tree_unflatten([column[i] for column in columns], structure) for i in range(len(sizes))]


def output_dim(split: Mapping[str, int | None], arguments: Mapping[str, Any]) -> int | None:
    """The dim along which outputs are joined: as ``split`` says, else 0; None: not at all.

    Raises:
        ValueError: it does not say so, and nothing in ``arguments`` is split along dim 0.

    Example:
        >>> output_dim({"table": 1}, {"x": torch.ones(4, 2), "table": torch.ones(2, 4)}), output_dim({"x": 1, "output": 1}, {"x": torch.ones(2, 4)})
        (0, 1)
    """
    if OUTPUT in split:
        return split[OUTPUT]
    dims = {dim: name for name, _, dim in _tensors_to_split(list(arguments.items()), split)}
    if dims and 0 not in dims:
        dim, name = next(iter(dims.items()))
        raise ValueError(f"{name} is split along dim {dim}; along which dim are outputs to be joined? Say split={{..., 'output': {dim}}}, or None for a list")
    return 0


def join_outputs(outputs: Sequence[Any], dim: int | None) -> Any:
    """What the module would have returned for the whole batch.

    Args:
        outputs: of each micro-batch.
        dim: along which rows lie; None: leave them as they are.

    Example:
        >>> join_outputs([(torch.ones(2), torch.tensor(3.0), "a"), (torch.zeros(1), torch.tensor(4.0), "b")], 0)
        (tensor([1., 1., 0.]), tensor([3., 4.]), 'a')
    """
    if dim is None:
        return list(outputs)
    columns, structures = zip(*map(pytree.tree_flatten, outputs), strict=True)
    together = [row[0] if not isinstance(row[0], Tensor) else torch.cat(row, dim) if row[0].dim() else torch.stack(row) for row in zip(*columns, strict=True)]
    return pytree.tree_unflatten(together, structures[0])


def argument_names(signature: inspect.Signature, num_args: int) -> list[str]:
    """Names of the first positional arguments; those that ``*args`` catches are called by their number.

    Example:
        >>> argument_names(inspect.signature(lambda x, *rest: None), 3)
        ['x', 'argument 1', 'argument 2']
    """
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in signature.parameters.items() if parameter.kind in positional]
    return (names + [f"argument {number}" for number in range(len(names), num_args)])[:num_args]


@dataclass(frozen=True)
class Loss:
    """How the loss of a batch is made of the losses of its micro-batches.

    Args:
        function: ``function(output, target)`` gives one number.
        reduction: "mean" if that number is a mean over the micro-batch, "sum" if it is a sum.
        count: for a mean, of how many items, given the target of a micro-batch: tokens that are not masked, say. By default of its rows.

    Example:
        >>> loss = Loss(torch.nn.functional.cross_entropy, count=lambda target: int((target != -100).sum()))
        >>> loss.weights([torch.tensor([1, -100]), torch.tensor([2, 0, 1])], [2, 3])
        [0.25, 0.75]
        >>> Loss(torch.nn.functional.mse_loss).weights([None, None], [2, 3])
        [0.4, 0.6]
    """

    function: Callable[..., Tensor] | None = None
    reduction: str = "mean"
    count: Callable[[Any], int] | None = None

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            raise ValueError(f"loss={self.function!r}: the loss is a function of output and target, torch.nn.functional.mse_loss say")
        if self.reduction not in ("mean", "sum"):
            raise ValueError(f"Loss(reduction={self.reduction!r}): reduction is 'mean' or 'sum'")

    def weights(self, targets: Sequence[Any], rows: Sequence[int]) -> list[float]:
        """The weight of each micro-batch's loss in that of the batch.

        Raises:
            ValueError: no micro-batch has an item.
        """
        if self.reduction == "sum":
            return [1.0] * len(rows)
        counts = list(rows) if self.count is None else [int(self.count(target)) for target in targets]
        if sum(counts) == 0:
            raise ValueError("the loss is a mean over the items of the batch, and no micro-batch has an item")
        return [count / sum(counts) for count in counts]

    def __call__(self, output: Any, target: Any) -> Tensor:
        """The loss of one micro-batch.

        Raises:
            ValueError: it is not one number.
        """
        loss = output if self.function is None else self.function(output, target)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            found = f"of shape {list(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            hint = "give PipelineParallel(..., loss=function)" if self.function is None else "let the function reduce it"
            raise ValueError(f"the loss of a micro-batch is one number, but here it is {found}; {hint}")
        return loss
