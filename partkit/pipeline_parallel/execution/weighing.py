"""What each submodule of a model costs: counted in one forward of one micro-batch, or measured.

    flops     floating-point operations of its forward, as `partkit.counting` counts them; a backward has about twice as many
    kept      bytes that autograd keeps of it for backward: each block of memory once, parameters not
    weights   bytes of its parameters

A submodule's number includes those inside of it. Nothing of the run is left: buffers and random numbers are as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from partkit.collectives.broadcast import broadcast
from partkit.communicator import Communicator
from partkit.counting import cost_of
from partkit.pipeline_parallel.execution.piece import Piece, RandomState


class Counts(NamedTuple):
    """By name of a submodule; "" is the model itself."""

    flops: Mapping[str, float]
    kept: Mapping[str, float]


def count(module: nn.Module, *args: Any, **kwargs: Any) -> Counts:
    """Count what the submodules of ``module`` do and keep in a forward.

    Args:
        module: any.
        args: of one micro-batch.
        kwargs: of one micro-batch.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> counts = count(net, torch.ones(10, 4))
        >>> counts.flops["0"], counts.flops["1"], counts.flops["2"]  # 2 x 10 x 4 x 8, ...
        (640, 80, 320)
        >>> counts.kept["0"], counts.kept["1"], counts.kept["2"]  # its input, its output, and nothing that is not kept already
        (160, 320, 0)
    """
    flops: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    inside: list[str] = []
    seen = {x.untyped_storage().data_ptr() for x in (*module.parameters(), *module.buffers())}

    def keep(x: Tensor) -> Tensor:
        if (block := x.untyped_storage().data_ptr()) not in seen:
            seen.add(block)
            kept.update(dict.fromkeys(inside, x.untyped_storage().nbytes()))
        return x

    alive: list[Any] = []  # the graph: so that no block of memory is used twice
    with _noting(module, inside.append, lambda name: inside.pop()), saved_tensors_hooks(keep, lambda x: x), _Flops(flops, inside):
        alive.append(_forward(module, args, kwargs))
    names = [name for name, _ in module.named_modules()]
    return Counts({name: flops[name] for name in names}, {name: kept[name] for name in names})


def measure(comm: Communicator, module: nn.Module, *args: Any, repetitions: int = 3, **kwargs: Any) -> dict[str, float]:
    """Seconds that the submodules of ``module`` take in a forward: the best of some. What the first rank has measured, on all ranks.

    Args:
        comm: the ranks, which all call it; time is this world's.
        module: any.
        args: of one micro-batch.
        repetitions: how often it is run.
        kwargs: of one micro-batch.

    Example:
        >>> import partkit as pk
        >>> net = nn.Sequential(nn.Linear(4, 400), nn.Tanh(), nn.Linear(400, 2))
        >>> with pk.SimulatedWorld(2, compute="counted") as world:
        ...     first, second = world.run(measure, net, torch.ones(1000, 4))
        >>> first == second, sorted(first), first[""] >= first["0"] + first["1"] + first["2"] > 0
        (True, ['', '0', '1', '2'], True)
    """
    names = [name for name, _ in module.named_modules()]
    best = dict.fromkeys(names, float("inf"))
    for _ in range(repetitions if comm.rank == 0 else 0):
        taken: Counter[str] = Counter()
        starts: list[float] = []
        with _noting(module, lambda name: starts.append(comm.now()), lambda name: taken.update({name: comm.now() - starts.pop()})):  # noqa: B023 (used here)
            _forward(module, args, kwargs)
        best = {name: min(best[name], taken[name]) for name in names}
    agreed = broadcast(torch.tensor([best[name] for name in names], dtype=torch.float64), comm)
    return dict(zip(names, agreed.tolist(), strict=True))


def weight_bytes(module: nn.Module) -> int:
    """Bytes of the parameters.

    Example:
        >>> weight_bytes(nn.Linear(3, 2))
        32
    """
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())


def _forward(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What the module returns, without a trace of the run."""
    with RandomState(next((x.device for x in args if isinstance(x, Tensor)), None)).again(), torch.enable_grad():
        return Piece(module, None).without_traces(args, kwargs)


@contextmanager
def _noting(module: nn.Module, enter: Callable[[str], Any], leave: Callable[[str], Any]) -> Iterator[None]:
    """Tell when each submodule's forward begins and ends."""
    with ExitStack() as hooks:
        for name, child in module.named_modules():
            hooks.enter_context(_removing(child.register_forward_pre_hook(lambda *_, name=name: _nothing(enter(name)))))
            hooks.enter_context(_removing(child.register_forward_hook(lambda *_, name=name: _nothing(leave(name)), always_call=True)))
        yield


@contextmanager
def _removing(hook: Any) -> Iterator[None]:
    try:
        yield
    finally:
        hook.remove()


def _nothing(_: Any) -> None:
    """A hook that returns something would change what the module gets or gives."""


class _Flops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds the operations that pass to everything that is open."""

    def __init__(self, flops: Counter[str], inside: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._flops, self._inside = flops, inside

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if (cost := cost_of(func, args, kwargs or {}, result)) is not None:
            self._flops.update(dict.fromkeys(self._inside, cost.flops))
        return result
