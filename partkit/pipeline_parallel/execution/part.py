"""This rank's part of a model: the submodules of its stages in one module, under the names that they have in the whole model.

    whole       embed  blocks.0  blocks.1  blocks.2  blocks.3  head
    rank 1             blocks.1            blocks.3                    two stages of an interleaved schedule

So ``named_parameters`` and ``state_dict`` of all ranks together are those of the whole model.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn


def part_of(stages: Iterable[tuple[str, nn.Module]]) -> nn.Module:
    """One module that holds what all of these hold.

    Args:
        stages: a prefix for names (empty, or "3."), and a module.

    Example:
        >>> first, second = nn.Sequential(), nn.Sequential()
        >>> first.add_module("0", nn.Linear(1, 1)); second.add_module("5", nn.Linear(1, 1))
        >>> [name for name, _ in part_of([("", first), ("", second)]).named_parameters()]
        ['0.weight', '0.bias', '5.weight', '5.bias']
        >>> [name for name, _ in part_of([("0.", nn.Linear(1, 1))]).named_parameters()]
        ['0.weight', '0.bias']
    """
    part = nn.Module()
    for prefix, module in stages:
        if prefix:
            part.add_module(prefix.rstrip("."), module)
        else:
            _merge(part, module)
    return part


def _merge(into: nn.Module, module: nn.Module) -> None:
    """Add what ``module`` holds to ``into``; ``module`` stays as it is."""
    for name, parameter in module._parameters.items():
        into.register_parameter(name, parameter)
    for name, buffer in module._buffers.items():
        into.register_buffer(name, buffer, persistent=name not in module._non_persistent_buffers_set)
    for name, child in module._modules.items():
        there = into._modules.get(name)
        if there is None or there is child:
            into.add_module(name, child)
        elif child is not None:
            both = nn.Module()
            _merge(both, there)
            _merge(both, child)
            into._modules[name] = both
