"""Cut a model in pieces, one for each stage. The model itself is not changed.

    module                              cut                       pieces
    list of modules                     -                         one module each: what one returns, the next gets
    nn.Sequential                       ["3", "5"]                children before "3"; "3" and "4"; "5" and on
    nn.Sequential                       None                      the most even cut, by number of parameters (`balance`)
    any module                          ["blocks.3", "head"]      its graph before blocks.3 is called; from there to head; from head on
    any module                          None                      the same, at the places that make the most even cut (`places`)
    any module                          Balanced("flops", (x,))   even by something else, under a cap of memory
    nn.Transformer, decides by shapes   Balanced(example=(x,))    as the example decides; at=["head"] says where

A cut names the children, or submodules at any depth, at which a new stage begins. Submodules keep their names, so a stage's
parameters are called what they are called in the whole model.

How a module that is no sequence is cut: `partkit.pipeline_parallel.execution.graph`.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from torch import nn

from partkit.pipeline_parallel.balance import balance
from partkit.pipeline_parallel.execution.following import defaults
from partkit.pipeline_parallel.execution.graph import cut_graph
from partkit.pipeline_parallel.execution.piece import Piece
from partkit.pipeline_parallel.execution.places import Balanced, places

Cut = Sequence[str | int] | Balanced


@dataclass(frozen=True)
class Pieces:
    """A model that has been cut.

    Attributes:
        stages: a piece for each stage.
        prefixes: what stands before the names of a piece's parameters in the whole model.
        signature: of the whole model.
        by_name: whether pieces get the arguments of the batch by name only.
        left_out: optional arguments that keep their default, with that.
    """

    stages: tuple[Piece, ...]
    prefixes: tuple[str, ...]
    signature: inspect.Signature
    by_name: bool = False
    left_out: Mapping[str, Any] = field(default_factory=dict)


def cut_module(
    module: nn.Module | Sequence[nn.Module], num_stages: int, cut: Cut | None = None, *, alive: Sequence[int] = (), given: Collection[str] = ()
) -> Pieces:
    """Cut ``module`` in ``num_stages`` pieces.

    Args:
        module: a module, or a list of modules, one for each stage.
        num_stages: how many stages the schedule has.
        cut: where a new stage begins: names of children or submodules, or numbers of children; one fewer than stages. Or by what stages are
            to be even; None: by parameters.
        alive: by stage, the most micro-batches in flight: for a cut that is to keep to a cap of memory.
        given: optional arguments that batches will have; in a graph others keep their default.

    Raises:
        ValueError: it can't be cut so.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> [list(dict(piece.module.named_children())) for piece in cut_module(net, 2, [3]).stages]
        [['0', '1', '2'], ['3', '4']]
        >>> [list(dict(piece.module.named_children())) for piece in cut_module(net, 3).stages]
        [['0', '1'], ['2'], ['3', '4']]
    """
    if isinstance(cut, str | int):
        raise ValueError(f"cut={cut!r}: give a list of the places at which stages begin: cut=[{cut!r}]")
    if not isinstance(module, nn.Module) or isinstance(module, nn.ModuleList):
        return _one_each(list(module), num_stages, cut)
    if isinstance(module, nn.Sequential) and cut is None:
        return _sequence(module, num_stages, None)
    wanted = cut if isinstance(cut, Balanced) else Balanced()
    if cut is None or isinstance(cut, Balanced):
        cut = places(module, num_stages, wanted, alive, given)
    if len(cut) != num_stages - 1:
        raise ValueError(f"cut={list(cut)!r} makes {len(cut) + 1} stages, but the schedule has {num_stages}: name {num_stages - 1} places")
    if isinstance(module, nn.Sequential) and not any("." in str(name) for name in cut):
        return _sequence(module, num_stages, cut)
    pieces = cut_graph(module, [str(name) for name in cut], given, wanted.decides)
    left_out = {name: value for name, value in defaults(module).items() if name not in given}
    return Pieces(tuple(pieces), ("",) * num_stages, inspect.signature(module.forward), by_name=True, left_out=left_out)


def _one_each(modules: list[nn.Module], num_stages: int, cut: Cut | None) -> Pieces:
    if cut is not None:
        raise ValueError(f"cut={cut!r}: a list of modules is cut already, one for each stage; leave cut away")
    if len(modules) != num_stages:
        raise ValueError(f"{len(modules)} modules were given, but the schedule has {num_stages} stages: give one for each")
    signature = inspect.signature(modules[0].forward)
    return Pieces(tuple(map(Piece.of, modules)), tuple(f"{stage}." for stage in range(num_stages)), signature)


def _sequence(module: nn.Sequential, num_stages: int, cut: Sequence[str | int] | None) -> Pieces:
    children = dict(module._modules)  # a child that stands at two places appears twice here
    names = list(children)
    if len(names) < num_stages:
        raise ValueError(f"{len(names)} layers can't be cut in {num_stages} stages: each needs at least one")
    starts = _starts(names, cut) if cut is not None else balance([num_parameters(child) for child in module], num_stages)
    bounds = [0, *starts, len(names)]
    pieces = [Piece(nn.Sequential(OrderedDict((name, children[name]) for name in names[a:b])), spreads=False) for a, b in pairwise(bounds)]
    return Pieces(tuple(pieces), ("",) * num_stages, inspect.signature(module.forward))


def _starts(names: list[str], cut: Sequence[str | int]) -> list[int]:
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
