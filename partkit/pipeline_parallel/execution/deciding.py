"""Follow a forward that decides by shapes: an example of a micro-batch answers, and each batch is held to the answers.

    def forward(self, x):                           the graph                       the example, (3, 5)
        if x.dim() == 3:                            x.dim() == 3; expect "bool"     False
            x = x.flatten(1)
        for _ in range(x.size(1)):                  x.size(1); expect "index"       5
            x = self.block(x)                       self.block(x), five times

`torch.fx` runs a forward on stand-ins, which have no shape; so it can't follow such decisions, and torch's own `nn.Transformer` is full of
them. Here each stand-in has beside it what the example makes of it, by which a decision is taken. The decision then stands in the graph as
a call that compares: a batch for which the answer would be another is refused, never computed wrongly. Sizes that are only computed with
stay as they are in the graph, so micro-batches may differ in them. A decision by numbers is held to its answer likewise; but before the first
step each stage after the first is run once on zeros (`partkit.pipeline_parallel.execution.announcing`), which must decide as the example did.

Cost: a forward of the example each time a graph is made; a comparison for each decision in a step.

Why not `torch.export`: its graph is flat, so that stages would have no submodules to compute with and to name parameters by; it sees inside
of every submodule where this sees only what is cut; and it must be told in advance which sizes may change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

_SEEN = "partkit_example"
"""Under which a node has what the example makes of it."""
_ASK: Mapping[str, Callable[[Any], Any]] = {"bool": bool, "len": len, "index": operator.index, "int": int, "float": float}


class Example(NamedTuple):
    """Arguments of one micro-batch."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self.args or self.kwargs)


def expect(value: Any, ask: str, answer: Any, line: str) -> None:
    """Hold a batch to a decision that was taken for the example.

    Args:
        value: on which it depends.
        ask: "bool", "len", "index", "int" or "float": what is asked of it.
        answer: of the example.
        line: the user's line.

    Raises:
        ValueError: the answer is another for this batch.

    Example:
        >>> expect((2, 3), "len", 2, "net.py:7: n, m = x.shape")
        >>> expect((2,), "len", 2, "net.py:7: n, m = x.shape")
        Traceback (most recent call last):
        ...
        ValueError: [net.py:7: n, m = x.shape] was decided for the example of a micro-batch, where len was 2; in this batch it is 1. Cut with an ...
    """
    if (found := _ASK[ask](value)) != answer:
        raise ValueError(
            f"[{line}] was decided for the example of a micro-batch, where {ask} was {answer!r}; in this batch it is {found!r}. Cut with an example that "
            "is like your batches, or give a list of modules, one for each stage"
        )


class Answering:
    """What the example makes of each call, and the decisions that depend on it.

    Args:
        module: the one that is followed.
        arguments: by name of an argument of its forward.
        where: the user's line that is running, in words.
    """

    def __init__(self, module: nn.Module, arguments: Mapping[str, Any], where: Callable[[], str]) -> None:
        self._module, self._arguments, self._where = module, arguments, where
        self.running = False
        """While it is true, modules are run on real values, not followed."""

    def note(self, node: fx.Node) -> None:
        """Make of a new node what the example makes of it."""
        args, kwargs = pytree.tree_map(lambda x: x.meta[_SEEN] if isinstance(x, fx.Node) else x, _plain((node.args, node.kwargs)))
        with self._really():
            node.meta[_SEEN] = self._made_by(node, args, kwargs)

    def _made_by(self, node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        target: Any = node.target
        if node.op == "placeholder":
            kept = str(target).rpartition("_")[0]  # fx numbers those that keep their default
            name = target if target in self._arguments else kept
            if name not in self._arguments:
                raise ValueError(f"the example of a micro-batch has no argument {target!r}")
            return self._arguments[name]
        if node.op == "get_attr":
            return operator.attrgetter(target)(self._module)
        if node.op == "call_module":
            return self._module.get_submodule(target)(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs) if node.op == "call_function" else None

    @contextmanager
    def _really(self) -> Iterator[None]:
        outer, self.running = self.running, True
        try:
            with torch.enable_grad():
                yield
        finally:
            self.running = outer

    def decide(self, ask: str, proxy: fx.Proxy) -> Any:
        """The answer of the example; the graph is to hold batches to it."""
        answer = _ASK[ask](proxy.node.meta[_SEEN])
        proxy.tracer.create_proxy("call_function", expect, (proxy, ask, answer, self._where()), {})
        return answer


class Seen(fx.Proxy):
    """A stand-in that can be asked: the example answers."""

    def __getattr__(self, name: str) -> Any:
        return SeenAttribute(self, name)

    def __len__(self) -> int:
        return int(self._decide("len"))

    def __index__(self) -> int:
        return int(self._decide("index"))

    def __int__(self) -> int:
        return int(self._decide("int"))

    def __float__(self) -> float:
        return float(self._decide("float"))

    def __iter__(self) -> Iterator[fx.Proxy]:
        return iter([operator.getitem(self, number) for number in range(len(self))])

    def _decide(self, ask: str) -> Any:
        answering: Answering = self.tracer.answering  # type: ignore[attr-defined]
        return answering.decide(ask, self)


class SeenAttribute(fx.proxy.Attribute, Seen):
    """An attribute of one, in the graph once it is used; a method that is called never is."""


def forget(graph: fx.Graph) -> None:
    """Take what the example has made out of a graph: it may be large."""
    for node in graph.nodes:
        node.meta.pop(_SEEN, None)


def _plain(arguments: Any) -> Any:
    """Arguments of a node as tuples, lists and dicts, of which fx has its own kinds."""
    return fx.node.map_aggregate(arguments, lambda x: x)
