"""Cut a model in pieces, one for each stage. The model itself is not changed.

    module                              cut                       pieces
    list of modules                     -                         one module each: what one returns, the next gets
    nn.Sequential                       ["3", "5"]                children before "3"; "3" and "4"; "5" and on
    nn.Sequential                       None                      the most even cut, by number of parameters (`balance`)
    any module                          ["blocks.3", "head"]      its graph before blocks.3 is called; from there to head; from head on

A cut names the children, or submodules at any depth, at which a new stage begins. Submodules keep their names, so a stage's
parameters are called what they are called in the whole model.

How a module that is no sequence is cut: `partkit.pipeline_parallel.execution.graph`.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from partkit.pipeline_parallel.execution.balance import balance
from partkit.pipeline_parallel.execution.graph import cut_graph
from partkit.pipeline_parallel.execution.piece import Piece

Cut = Sequence[str | int]


@dataclass(frozen=True)
class Pieces:
    """A model that has been cut.

    Attributes:
        stages: a piece for each stage.
        prefixes: what stands before the names of a piece's parameters in the whole model.
        signature: of the whole model.
        by_name: whether pieces get the arguments of the batch by name only.
    """

    stages: tuple[Piece, ...]
    prefixes: tuple[str, ...]
    signature: inspect.Signature
    by_name: bool = False


def cut_module(module: nn.Module | Sequence[nn.Module], num_stages: int, cut: Cut | None = None) -> Pieces:
    """Cut ``module`` in ``num_stages`` pieces.

    Args:
        module: a module, or a list of modules, one for each stage.
        num_stages: how many stages the schedule has.
        cut: where a new stage begins: names of children or submodules, or numbers of children; one fewer than stages.

    Raises:
        ValueError: it can't be cut so.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> [list(dict(piece.module.named_children())) for piece in cut_module(net, 2, [3]).stages]
        [['0', '1', '2'], ['3', '4']]
        >>> [list(dict(piece.module.named_children())) for piece in cut_module(net, 3).stages]
        [['0', '1'], ['2'], ['3', '4']]
    """
    if not isinstance(module, nn.Module) or isinstance(module, nn.ModuleList):
        return _one_each(list(module), num_stages, cut)
    if cut is not None and len(cut) != num_stages - 1:
        raise ValueError(f"cut={list(cut)!r} makes {len(cut) + 1} stages, but the schedule has {num_stages}: name {num_stages - 1} places")
    if isinstance(module, nn.Sequential) and not any("." in str(name) for name in cut or ()):
        return _sequence(module, num_stages, cut)
    if cut is None:
        raise ValueError(
            f"a {type(module).__name__} is no nn.Sequential: say where a new stage begins, for example cut={_suggested(module, num_stages)!r}, "
            "or give a list of modules, one for each stage"
        )
    pieces = cut_graph(module, [str(name) for name in cut])
    return Pieces(tuple(pieces), ("",) * num_stages, inspect.signature(module.forward), by_name=True)


def _one_each(modules: list[nn.Module], num_stages: int, cut: Cut | None) -> Pieces:
    if cut is not None:
        raise ValueError(f"cut={list(cut)!r}: a list of modules is cut already, one for each stage; leave cut away")
    if len(modules) != num_stages:
        raise ValueError(f"{len(modules)} modules were given, but the schedule has {num_stages} stages: give one for each")
    signature = inspect.signature(modules[0].forward)
    return Pieces(tuple(map(Piece.of, modules)), tuple(f"{stage}." for stage in range(num_stages)), signature)


def _sequence(module: nn.Sequential, num_stages: int, cut: Cut | None) -> Pieces:
    children = dict(module._modules)  # a child that stands at two places appears twice here
    names = list(children)
    if len(names) < num_stages:
        raise ValueError(f"{len(names)} layers can't be cut in {num_stages} stages: each needs at least one")
    starts = _starts(names, cut) if cut is not None else balance([num_parameters(child) for child in module], num_stages)
    bounds = [0, *starts, len(names)]
    pieces = [Piece(nn.Sequential(OrderedDict((name, children[name]) for name in names[a:b])), spreads=False) for a, b in pairwise(bounds)]
    return Pieces(tuple(pieces), ("",) * num_stages, inspect.signature(module.forward))


def _starts(names: list[str], cut: Cut) -> list[int]:
    """The number of the child at which each stage but the first begins."""
    starts = []
    for name in cut:
        if str(name) not in names and not (isinstance(name, int) and 0 < name < len(names)):
            raise ValueError(f"cut={list(cut)!r}: there is no layer {name!r}; there are {', '.join(names)}")
        starts.append(name if isinstance(name, int) else names.index(name))
    if any(a >= b for a, b in pairwise([0, *starts])):
        raise ValueError(f"cut={list(cut)!r}: stages begin at layers {starts}; these must rise, and the first stage begins at layer 0")
    return starts


def num_parameters(module: nn.Module) -> float:
    """How much a layer counts where nothing is measured: its parameters, and a little for being there."""
    return 1e-3 + sum(parameter.numel() for parameter in module.parameters())


def _suggested(module: nn.Module, num_stages: int) -> list[str]:
    """Places at which a module of this kind may well be cut: members of its longest list of modules."""
    lists = [(name, len(child)) for name, child in module.named_modules() if isinstance(child, nn.ModuleList | nn.Sequential) and name]
    if lists and max(length for _, length in lists) >= num_stages:
        name, length = max(lists, key=lambda found: found[1])
        return [f"{name}.{length * stage // num_stages}" for stage in range(1, num_stages)]
    children = [name for name, _ in module.named_children()]
    return [children[min(len(children) - 1, max(1, len(children) * stage // num_stages))] for stage in range(1, num_stages)] if children else ["layer"]
