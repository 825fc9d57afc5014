"""Follow the forward of a module: torch.fx runs it once on stand-ins and notes what is called.

    opened      looked into: its forward is followed                the module itself, and what contains a place of a cut
    not opened  one call in the graph: it may do what it likes      everything else

What can't be followed is a decision that depends on a stand-in. Most such decisions are about options that nobody gives: so arguments whose
default is None, True, False or a text keep their default, unless they are named as given; they are then no arguments of the graph. Assertions are
taken to hold. Where that is not enough, an example of a micro-batch answers (`partkit.pipeline_parallel.execution.deciding`).

Source: Reed et al. 2022, "torch.fx: Practical Program Capture and Transformation for Deep Learning in Python".
"""

from __future__ import annotations

import inspect
import linecache
import sys
import traceback
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from partkit.pipeline_parallel.execution.deciding import Answering, Example, Seen, forget
from partkit.pipeline_parallel.execution.piece import RandomState

_NOT_THEIRS = (str(Path(__file__).parents[2]), str(Path(torch.__file__).parent))
"""Code in which nobody has made the mistake that is looked for."""


class _Tracer(fx.Tracer):
    """Looks only into modules that are opened."""

    proxy_buffer_attributes = True  # a buffer may be sliced by a length that is known when it runs

    def __init__(self, opened: Collection[str]) -> None:
        super().__init__()
        self._opened = opened

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self._opened

    def to_bool(self, obj: fx.Proxy) -> bool:
        """An assertion is no decision: it is taken to hold."""
        return True if _line_that_runs()[2].startswith("assert ") else super().to_bool(obj)


class _AnsweredTracer(_Tracer):
    """Decides as the example says."""

    def __init__(self, opened: Collection[str], module: nn.Module, arguments: Mapping[str, Any]) -> None:
        super().__init__(opened)
        self.answering = Answering(module, arguments, lambda: "{}:{}: {}".format(*_line_that_runs()))

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        self.answering.note(node)
        return node

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return Seen(node, self)

    def to_bool(self, obj: fx.Proxy) -> bool:
        return True if _line_that_runs()[2].startswith("assert ") else bool(self.answering.decide("bool", obj))

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return forward(*args, **kwargs) if self.answering.running else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self.answering.running else super().getattr(attr, attr_val, parameter_proxy_cache)


def _line_that_runs() -> tuple[str, int, str]:
    """File, number and text of the innermost line that is not torch's or ours; where there is none, of the outermost of all."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THEIRS):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


def follow(module: nn.Module, opened: Collection[str] = (), given: Collection[str] = (), example: Example | None = None) -> fx.Graph:
    """The graph of ``module``.

    Args:
        module: any; what is opened must do without decisions that depend on tensors.
        opened: names of submodules to look into.
        given: optional arguments that batches will have.
        example: of a micro-batch; if there is one, it decides what depends on shapes where torch.fx alone can't follow.

    Raises:
        ValueError: it can't be followed; the message names the line.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        ...     def forward(self, x, mask=None):
        ...         y = self.body(x)
        ...         return y if mask is None else y * mask
        >>> calls_of = lambda graph: [str(node.target) for node in graph.nodes if node.op in ("placeholder", "call_module")]
        >>> calls_of(follow(Net())), calls_of(follow(Net(), opened=["body"], given=["mask"]))
        (['x', 'body'], ['x', 'mask', 'body.0', 'body.1'])
    """
    kept = {name: value for name, value in defaults(module).items() if name not in given}
    try:
        graph = _Tracer(opened).trace(module, concrete_args=kept or None)
    except Exception as error:  # whatever forward does with a stand-in that is no tensor
        if not example:
            raise ValueError(
                f"torch.fx can't follow the forward of {type(module).__name__}{_into(opened)}: {error}{_where(error)}. If that depends on shapes alone, "
                "give an example of a micro-batch, which decides: cut=Balanced(example=(x,)). Or cut at submodules outside of that code, cut=[...], or "
                "give a list of modules, one for each stage"
            ) from error
        graph = _follow_example(module, opened, kept, example)
    _forget(graph)
    return graph


def _follow_example(module: nn.Module, opened: Collection[str], kept: Mapping[str, Any], example: Example) -> fx.Graph:
    """The same, with decisions as the example says; nothing of its run is left."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        bound = inspect.signature(module.forward).bind(*example.args, **example.kwargs)
        bound.apply_defaults()
        arguments = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, dict(bound.arguments))  # a forward may change them
        with RandomState().again():
            graph = _AnsweredTracer(opened, module, {**arguments, **kept}).trace(module, concrete_args=dict(kept) or None)
    except Exception as error:
        raise ValueError(
            f"the forward of {type(module).__name__}{_into(opened)} can't be followed with the example: {error}{_where(error)}. "
            "Cut at submodules outside of that code, or give a list of modules, one for each stage"
        ) from error
    finally:
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(buffers[name])
    forget(graph)
    return graph


def defaults(module: nn.Module) -> dict[str, Any]:
    """The arguments of a forward that choose what it does, and keep their default unless they are given.

    Example:
        >>> sorted(defaults(nn.MultiheadAttention(2, 1)))
        ['attn_mask', 'average_attn_weights', 'is_causal', 'key_padding_mask', 'need_weights']
    """
    parameters = inspect.signature(module.forward).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is None or isinstance(parameter.default, bool | str)}


def _forget(graph: fx.Graph) -> None:
    """Take out of the graph the arguments that keep their default, and the assertions that they do."""
    for node in list(graph.nodes):
        checks = node.target in (torch._assert, fx._symbolic_trace._assert_is_none)
        if node.op == "call_function" and checks and "has been specialized to have value" in str(node.args[1]):
            checked = node.args[0]
            graph.erase_node(node)
            for unused in (checked, *checked.all_input_nodes):
                if not unused.users:
                    graph.erase_node(unused)


def _into(opened: Collection[str]) -> str:
    return f" into {', '.join(sorted(opened))}" if opened else ""


def _where(error: Exception) -> str:
    """The line that could not be followed, in words: the innermost of the user's, or, where only torch's own modules are at work, of these."""
    frames = [frame for frame in reversed(traceback.extract_tb(error.__traceback__)) if not frame.filename.startswith("<")]
    theirs = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    modules = [frame for frame in frames if "torch/nn/modules" in frame.filename and not frame.filename.endswith("nn/modules/module.py")]
    return next((f" [{frame.filename}:{frame.lineno}: {frame.line}]" for frame in theirs or modules), "")
