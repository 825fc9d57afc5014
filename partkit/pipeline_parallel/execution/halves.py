"""Backward in two halves: the gradient of a stage's inputs now, the gradient of its weights later, each product made once.

The graph of autograd for a stage, one linear layer and a tanh; gradients go from left to right:

    output -- Tanh -- Addmm --------- input             X   nodes from which an input can be reached
                        |  \\                             W   nodes from which only weights can be
                        |   T -- weight
                       bias                             the cut: edges from X into W

    I   walks through X alone. Addmm makes the gradient of its input, and nothing for edges that nobody asks for. What has
        arrived at Addmm is kept.                                                                                    [1] [2]
    W   gives each kept gradient to its node again, and asks for the edges into W alone: now Addmm makes only what the weights need
        [3]. From there all goes on through W, and adds up in ``.grad``, in one ordinary backward [4].

Where an edge into W has one user, that is all. A weight that is used twice is reached from one user through the other; asked for
its edge, autograd would go on through X. So the walk is ended behind the first node, whose gradients are taken from it by a hook [5]:
right as well, at the price of making the gradient of its input a second time.

Hooks that a user has put on a tensor, to look at its gradient or to change it, count once: what has arrived at Addmm is kept as they have
left it, and takes the place of what they would make of it when it is given again. A hook of a weight is called with its whole gradient, in [4].

Cost: I and W together do the products of one backward; walking the graph takes some microseconds a node. Memory: all of
the graph is kept until W.

Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2, for the idea; the cut through autograd's graph at the nodes where
inputs and weights meet is that of torch.distributed.pipelining, which takes weights that are used twice apart differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

Edge = tuple[Node, int]
Gradients = tuple[Tensor | None, ...]


class Halves:
    """One backward of one stage, in two halves.

    Args:
        outputs: what the stage has made, any shapes; each requires a gradient.
        gradients: of ``outputs``, the same shapes.
        inputs: leaves; the gradient of each is wanted first. May be empty: then all is left for the second half.

    Example:
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> halves = Halves([layer(x)], [torch.ones(1, 1)], [x])
        >>> (gradient,) = halves.of_inputs()
        >>> torch.equal(gradient, layer.weight), layer.weight.grad is None
        (True, True)
        >>> halves.of_weights()
        >>> layer.weight.grad
        tensor([[1., 2.]])
    """

    def __init__(self, outputs: Sequence[Tensor], gradients: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        self._inputs = list(inputs)
        roots = [(_edge(output), gradient) for output, gradient in zip(outputs, gradients, strict=True)]
        self._users: Counter[Edge] = Counter()
        ends = {_edge(x)[0] for x in inputs}
        self._to_inputs = _leading_to(ends, [node for (node, _), _ in roots], self._users)
        self._now = [(edge, gradient) for edge, gradient in roots if edge[0] in self._to_inputs]
        self._later = [(edge, gradient) for edge, gradient in roots if edge[0] not in self._to_inputs]
        self._cut: list[Node] = []
        self._kept = _Kept()

    def of_inputs(self) -> Gradients:
        """The first half: the gradient of each input; None for one that nothing depends on."""
        if not self._now:
            return (None,) * len(self._inputs)
        self._cut = [node for node in self._to_inputs if any(self._into_weights(node))]
        for number, node in enumerate(self._cut):
            node.register_prehook(partial(_keep, ref(self._kept), number))
        edges = [GradientEdge(*edge) for edge, _ in self._now]
        return torch.autograd.grad(edges, self._inputs, [gradient for _, gradient in self._now], retain_graph=True, allow_unused=True)

    def of_weights(self) -> None:
        """The second half: add the gradient of each weight to its ``.grad``. The graph is gone afterwards."""
        roots = list(self._later)
        for number, arrived in self._kept.items():
            node = self._cut[number]
            edges = list(self._into_weights(node))
            alone = all(self._users[edge] == 1 and not _hooked(edge[0]) for edge in edges)
            roots += (_through if alone else _no_further_than)(node, arrived, edges)
        if roots:
            torch.autograd.backward([GradientEdge(*edge) for edge, _ in roots], [gradient for _, gradient in roots])  # [4]
        self._kept.clear()
        self._cut.clear()
        self._to_inputs.clear()

    def _into_weights(self, node: Node) -> Iterator[Edge]:
        return ((follower, number) for follower, number in node.next_functions if follower is not None and follower not in self._to_inputs)


class _Kept(dict[int, Gradients]):
    """By number of the node: what has arrived at it."""


def _keep(kept: ref[_Kept], number: int, arrived: Gradients) -> Gradients | None:
    """[2] In I. In W, what is given again stays what it was, whatever hooks of the user would make of it a second time."""
    known = kept()  # by a weak reference: the graph must not hold what holds the graph
    return None if known is None else known.setdefault(number, arrived)


def _through(node: Node, arrived: Gradients, edges: list[Edge]) -> list[tuple[Edge, Tensor]]:
    """[3] What ``node`` makes for ``edges`` of the gradients that have arrived at it."""
    given = [(GradientEdge(node, number), gradient) for number, gradient in enumerate(arrived) if gradient is not None]
    wanted = [GradientEdge(*edge) for edge in edges]
    made = torch.autograd.grad([edge for edge, _ in given], wanted, [gradient for _, gradient in given], retain_graph=True, allow_unused=True)
    return [(edge, gradient) for edge, gradient in zip(edges, made, strict=True) if gradient is not None]


class _Stop(Exception):
    """Enough: the walk through the graph ends here."""


def _no_further_than(node: Node, arrived: Gradients, edges: list[Edge]) -> list[tuple[Edge, Tensor]]:
    """[5] The same, and nothing behind ``node`` is entered."""
    found: list[tuple[Edge, Tensor]] = []

    def take(made: Gradients, _: Gradients) -> None:
        found.extend((edge, x) for edge, x in zip(node.next_functions, made, strict=True) if edge in edges and x is not None)
        raise _Stop

    hook = node.register_hook(take)
    with suppress(_Stop):
        _through(node, arrived, edges)
    hook.remove()
    return found


def _hooked(node: Node) -> bool:
    """Whether it is a weight whose gradient the user looks at or changes."""
    return bool(getattr(getattr(node, "variable", None), "_backward_hooks", None))


def _edge(x: Tensor) -> Edge:
    edge = get_gradient_edge(x)
    return edge.node, edge.output_nr


def _leading_to(ends: set[Node], roots: Sequence[Node], users: Counter[Edge]) -> set[Node]:
    """[1] The nodes from ``roots`` on from which one of ``ends`` can be reached; counts in ``users`` how often each edge is used."""
    leading: set[Node] = set()
    seen: set[Node] = set()
    stack: list[tuple[Node, Iterator[Any]]] = []

    def enter(node: Node) -> None:
        if node not in seen:
            seen.add(node)
            if node in ends:
                leading.add(node)
            edges = [(follower, number) for follower, number in node.next_functions if follower is not None]
            users.update(edges)
            stack.append((node, iter([follower for follower, _ in edges])))

    for root in roots:
        enter(root)
        while stack:
            node, followers = stack[-1]
            follower = next(followers, None)
            if follower is None:
                stack.pop()
                if any(child in leading for child, _ in node.next_functions):
                    leading.add(node)
            else:
                enter(follower)
    return leading
