"""Cut a module along its graph: for models that are no plain sequence, with skip connections and arguments used late.

    def forward(self, tokens, mask):                     cut=["blocks.1", "head"]
        x = self.embed(tokens)                           stage 0    takes tokens        hands over x
        a = self.blocks[0](x, mask)                      stage 0    takes mask          hands over a, x
        b = self.blocks[1](a, mask)                      stage 1    takes mask          hands over b, x (passed through)
        return self.head(b + x)                          stage 2

Only modules that contain a place of the cut are looked into (`partkit.pipeline_parallel.execution.following`). A stage gets the calls up
to the next place, and hands over what later stages need: what skips a stage passes through it. Arguments of the batch are not handed
over: every rank has them.

Why what skips a stage is not sent straight to where it is needed: the schedule says which messages there are, and it is made before anybody
knows the model; a message from stage 0 to stage 2 would be one more in every list, with its own place among the messages of its channel.
Passing through costs its bytes once more for each stage that it skips, at a time when a message is on its way there anyway, so no latency
where there is one tensor already; and the gradient of what has several users is summed on its way back, stage by stage, where a straight
way would have each of them sent to the stage that made it, and kept there until all have come.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import fx, nn

from partkit.pipeline_parallel.execution.deciding import Example
from partkit.pipeline_parallel.execution.following import follow
from partkit.pipeline_parallel.execution.piece import Piece


def cut_graph(module: nn.Module, places: Sequence[str], given: Collection[str] = (), example: Example | None = None) -> list[Piece]:
    """Cut ``module`` where it first calls each of ``places``.

    Args:
        module: any; what contains a place must do without decisions that depend on tensors.
        places: names of submodules, at any depth, in the order in which they are called.
        given: optional arguments that batches will have; others that choose what the module does keep their default.
        example: of a micro-batch; if there is one, it decides what torch.fx alone can't follow.

    Raises:
        ValueError: a place is no submodule, is not called, or is called too early; or torch.fx can't follow.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        ...     def forward(self, x):
        ...         h = self.a(x)
        ...         return self.b(h.tanh()) + h
        >>> pieces = cut_graph(Net(), ["b"])
        >>> [name for name, _ in pieces[1].module.named_parameters()], sorted(pieces[0].keywords)
        (['b.weight', 'b.bias'], ['x'])
    """
    for place in places:
        if place not in dict(module.named_modules()) or not place:
            names = ", ".join(name for name, _ in module.named_modules() if name)
            raise ValueError(f"cut={list(places)!r}: there is no submodule {place!r}; there are {names}")
    graph = follow(module, {name for place in places for name in _around(place)}, given, example)
    stage_of = _stages(graph, places)
    crossing = [_crossing(graph, stage_of, stage) for stage in range(1, len(places) + 1)]
    handed: list[list[fx.Node]] = [[], *crossing]
    returned: list[list[fx.Node] | None] = [*crossing, None]
    return [_piece(module, graph, stage_of, stage, handed[stage], returned[stage]) for stage in range(len(places) + 1)]


def _around(place: str) -> list[str]:
    """The modules that contain a place: ``a`` and ``a.b`` for ``a.b.c``."""
    return [place[:end] for end, letter in enumerate(place) if letter == "."]


def _stages(graph: fx.Graph, places: Sequence[str]) -> dict[fx.Node, int]:
    """The stage of each call: how many places have been reached by then."""
    calls = [str(node.target) if node.op == "call_module" else "" for node in graph.nodes]
    starts = []
    for place in places:
        if place not in calls:
            raise ValueError(f"cut={list(places)!r}: {place!r} is never called by itself, so no stage can begin there")
        starts.append(calls.index(place))
    if starts != sorted(set(starts)):
        called = sorted(places, key=lambda place: calls.index(place))
        raise ValueError(f"cut={list(places)!r}: give places in the order in which they are called: {called!r}")
    return {node: sum(start <= number for start in starts) for number, node in enumerate(graph.nodes)}


def _is_at_hand(node: fx.Node) -> bool:
    """Whether a stage has it without being handed it: an argument of the batch, or a parameter."""
    return node.op in ("placeholder", "get_attr")


def _crossing(graph: fx.Graph, stage_of: dict[fx.Node, int], stage: int) -> list[fx.Node]:
    """What ``stage`` or a later one needs and an earlier one makes, in the order in which it is made."""
    return [node for node in graph.nodes if not _is_at_hand(node) and stage_of[node] < stage and any(stage_of[user] >= stage for user in node.users)]


def _piece(module: nn.Module, graph: fx.Graph, stage_of: dict[fx.Node, int], stage: int, handed: list[fx.Node], returned: list[fx.Node] | None) -> Piece:
    """The calls of one stage as a module of its own, whose submodules have the names they have in ``module``."""
    piece = fx.Graph()
    copies = {node: piece.placeholder(f"handed_{node.name}") for node in handed}
    own = [node for node in graph.nodes if not _is_at_hand(node) and stage_of[node] == stage]
    at_hand = [node for node in graph.nodes if _is_at_hand(node) and not node.users.keys().isdisjoint(own)]
    at_hand.sort(key=lambda node: node.op != "placeholder")  # arguments come first
    for node in [*at_hand, *own]:
        if node.op != "output" or returned is None:
            copies[node] = piece.node_copy(node, lambda needed: copies[needed])
    if returned is not None:
        piece.output(tuple(copies[node] for node in returned))
    keywords = frozenset(str(node.target) for node in at_hand if node.op == "placeholder")
    _check_arguments(keywords)
    return Piece(fx.GraphModule(module, piece, f"{type(module).__name__}Stage{stage}"), keywords, spreads=returned is not None)


def _check_arguments(names: Any) -> None:
    if starred := [name for name in names if name.startswith("*")]:
        raise ValueError(f"a forward with {starred[0]} can't be cut along its graph: name its arguments, or give a list of modules, one for each stage")
