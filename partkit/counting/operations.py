"""FLOPs and bytes of each operation of torch, and the time that a simulated rank's device needs for them.

    operation                                      FLOPs                                            bytes
    matrix products, convolutions, attention       2 for a multiplication and an addition           inputs and outputs,
                                                   (`torch.utils.flop_counter`)                      each once
    everything else that computes                  1 for each element of the result                 the same
    views, and memory that is not written          0                                                0

Over a device's rates that is the roofline (Williams, Waterman and Patterson 2009): an operation takes as long as its arithmetic
or its memory traffic, whichever takes longer. It leaves out what a launch costs, caches, and fusing; so it is right in
proportion for large operations, and too fast for small ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from partkit.virtual_time import Computation

if TYPE_CHECKING:
    from partkit.communicator import Communicator

UNWRITTEN = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_", "_local_scalar_dense"}
"""Operations that neither compute nor move memory."""


def cost_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Computation | None:
    """What one operation costs; None if nothing.

    Args:
        func: an operation of ``torch.ops``, as a dispatch mode gets it.
        args: its arguments.
        kwargs: its arguments by name.
        result: what it returned.

    Example:
        >>> import torch
        >>> a, b = torch.ones(4, 8), torch.ones(8, 16)
        >>> cost_of(torch.ops.aten.mm.default, (a, b), {}, a @ b)
        Computation(flops=1024, nbytes=896, dtype='float32')
        >>> cost_of(torch.ops.aten.t.default, (a,), {}, a.t()) is None
        True
    """
    outputs = list(tensors(result))
    if not outputs or func._opname in UNWRITTEN or _is_view(func):
        return None
    count = flop_registry.get(func._overloadpacket)
    flops = sum(out.numel() for out in outputs) if count is None else count(*args, **kwargs, out_val=result)
    touched = {id(x): x for x in (*tensors(args), *tensors(kwargs), *outputs)}
    nbytes = sum(x.numel() * x.element_size() for x in touched.values())
    return Computation(flops, nbytes, str(outputs[0].dtype).removeprefix("torch.")) if flops or nbytes else None


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def _is_view(func: Any) -> bool:
    """Whether the result is other memory's, as it is."""
    returned = [value.alias_info for value in func._schema.returns]
    return any(info is not None and not info.is_write for info in returned)


class CountedOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets a simulated rank's time pass for every operation of torch. ``SimulatedWorld(compute="counted")`` switches it on.

    What collectives do to add up what arrives is left out: the model of their time does so too.

    Args:
        comm: the rank's communicator.

    Example:
        >>> import torch, partkit as pk
        >>> device = pk.Device(flops=1000, memory=1e9, memory_bandwidth=1e9)
        >>> with pk.SimulatedWorld(1, pk.Cluster(device), compute="counted") as world:
        ...     results = world.run(lambda comm: torch.ones(5, 10) @ torch.ones(10, 10))
        ...     [(event.tag, round(event.end - event.start, 6)) for event in world.trace.events if event.tag.startswith("mm")]
        [('mm [float32]', 1.0)]
    """

    def __init__(self, comm: Communicator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._comm = comm

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._comm.in_collective:
            cost = cost_of(func, args, kwargs or {}, result)
            if cost is not None:
                self._comm.compute(func._opname, flops=cost.flops, bytes=cost.nbytes, dtype=cost.dtype)
        return result
