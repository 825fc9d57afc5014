"""Where to cut a model so that its stages are even: calls that are too large for a stage are opened, then the calls are balanced.

    Model                opened: nothing    body 90 %  head 10 %                                  4 stages: a fair share is 25 %
      body               opened: body       body.embed 10 %  body.blocks.0 ... 3  20 % each  head 10 %
      head               balanced           embed blocks.0 | blocks.1 | blocks.2 | blocks.3 head

A call that is larger than a fair share makes its stage the slowest, however it is cut around; so it is looked into, as long as
torch.fx, or an example, can follow (`partkit.pipeline_parallel.execution.following`). What can't be followed stays whole. Then `balance` finds the best cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from torch import fx, nn

from partkit.pipeline_parallel.balance import balance
from partkit.pipeline_parallel.execution.deciding import Example
from partkit.pipeline_parallel.execution.following import follow
from partkit.pipeline_parallel.execution.weighing import Counts, count, weight_bytes


@dataclass(frozen=True)
class Balanced:
    """A cut that makes stages even, in place of names.

    Args:
        by: what to make even: "parameters"; "flops" of a forward, counted on ``example``; or numbers by name of a submodule, as
            `partkit.pipeline_parallel.execution.measure` gives them.
        example: arguments of one micro-batch; for "flops", for a cap, and for a forward that decides by shapes, as that of ``nn.Transformer`` does.
        keywords: the same by name.
        at: names of the submodules at which a new stage begins, where nothing is to be found out.
        cap: bytes that a stage may have at most: its parameters twice, for gradients, and what it keeps of the micro-batches in flight.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(1000, 10), nn.Conv1d(1, 8, 5, padding=2), nn.Flatten(), nn.Linear(80, 10))
        >>> places(net, 2, Balanced()), places(net, 2, Balanced("flops", (torch.ones(1, 1, 1000),)))
        (['1'], ['1'])
    """

    by: Literal["parameters", "flops"] | Mapping[str, float] = "parameters"
    example: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    cap: float = inf
    at: Sequence[str] = ()

    @property
    def decides(self) -> Example:
        """The example, for whoever follows the forward."""
        return Example(self.example, self.keywords)


def places(module: nn.Module, num_stages: int, wanted: Balanced, alive: Sequence[int] = (), given: Collection[str] = ()) -> list[str]:
    """The submodules at which stages 1, 2, ... begin.

    Args:
        module: any that torch.fx can follow at its top.
        num_stages: how many stages.
        wanted: what to make even.
        alive: by stage, the most micro-batches in flight, for the cap; one by default.
        given: optional arguments that batches will have.

    Raises:
        ValueError: the module has too few calls, or no cut keeps to the cap.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body, self.head = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)]), nn.Linear(8, 2)
        ...     def forward(self, x):
        ...         return self.head(self.body(x))
        >>> places(Net(), 2, Balanced()), places(Net(), 4, Balanced())
        (['body.2'], ['body.1', 'body.2', 'body.3'])
    """
    if wanted.at:
        return [str(name) for name in wanted.at]
    counts = None if wanted.by == "parameters" and wanted.cap == inf else _counted(module, wanted)
    cost = _cost(module, wanted.by, counts)
    names = [name for name, _ in _calls(module, num_stages, cost, given, wanted.decides)]
    fixed = [2.0 * weight_bytes(module.get_submodule(name)) for name in names]
    kept = [counts.kept[name] for name in names] if counts is not None and wanted.cap < inf else None
    starts = balance([cost(name) for name in names], num_stages, memory=fixed, kept=kept, alive=alive or [1] * num_stages, cap=wanted.cap)
    return [names[start] for start in starts]


def _counted(module: nn.Module, wanted: Balanced) -> Counts | None:
    if not (wanted.example or wanted.keywords):
        if wanted.by == "flops" or wanted.cap < inf:
            raise ValueError("Balanced(...): to count, give an example of a micro-batch: Balanced('flops', example=(x,))")
        return None
    return count(module, *wanted.example, **wanted.keywords)


def _cost(module: nn.Module, by: str | Mapping[str, float], counts: Counts | None) -> Callable[[str], float]:
    """What a submodule costs, by its name; being there counts a little."""
    if by == "parameters":
        return lambda name: 1e-3 + sum(parameter.numel() for parameter in module.get_submodule(name).parameters())
    if by == "flops" and counts is not None:
        return lambda name: 1e-3 + counts.flops[name]
    if isinstance(by, str):
        raise ValueError(f"Balanced(by={by!r}): by is 'parameters', 'flops', or numbers by name of a submodule")
    return lambda name: by[name] if name in by else sum(number for other, number in by.items() if other.startswith(f"{name}."))


def _calls(module: nn.Module, num_stages: int, cost: Callable[[str], float], given: Collection[str], example: Example) -> list[tuple[str, nn.Module]]:
    """The calls between which to cut, in order; opened until none is larger than a fair share, where that is possible."""
    opened: set[str] = set()
    closed: dict[str, str] = {}
    calls = _first_calls(module, follow(module, opened, given, example))
    while True:
        share = sum(cost(name) for name, _ in calls) / num_stages
        large = [name for name, child in calls if name not in closed and any(child.children()) and (cost(name) > share or len(calls) < num_stages)]
        if not large:
            break
        largest = max(large, key=cost)
        try:
            inside = _first_calls(module, follow(module, {*opened, largest}, given, example))
        except ValueError as error:
            closed[largest] = str(error)
            continue
        if len(inside) < len(calls):
            closed[largest] = f"{largest} calls none of its submodules"
            continue
        opened.add(largest)
        calls = inside
    if len(calls) < num_stages:
        reasons = "".join(f"\n  {reason}" for reason in closed.values())
        raise ValueError(
            f"a {type(module).__name__} has {len(calls)} calls between which it can be cut ({', '.join(name for name, _ in calls)}), too few for "
            f"{num_stages} stages; give a list of modules, one for each stage{reasons}"
        )
    return calls


def _first_calls(module: nn.Module, graph: fx.Graph) -> list[tuple[str, nn.Module]]:
    """Each submodule that is called, once, in the order of first calls."""
    return [(name, module.get_submodule(name)) for name in dict.fromkeys(_called(graph))]


def _called(graph: fx.Graph) -> Iterator[str]:
    return (str(node.target) for node in graph.nodes if node.op == "call_module")
