"""Memory that a rank's tensors hold, by what they are for, and a cap that says what filled it.

    use               which tensors                                                      known from
    parameters        those of the modules                                               the modules that are handed over
    buffers           those of the modules                                               the modules
    gradients         ``.grad`` of the parameters                                        a hook on each parameter
    optimizer state   what optimizers keep between steps                                 a hook behind each step
    activations       what autograd keeps for the backward pass                          its saved-tensor hooks
    other             all the rest: inputs, outputs, what lives within an operation      nothing else

Counted are storages, as allocated: a view holds nothing of its own. A storage is counted from the operation that made it until
nobody refers to it any more. What an operation allocates and frees inside, torch does not tell, so it is not counted.

The sizes go into the trace as metrics, ``memory: activations`` and so on, whenever they change: in any world.

Example, mixed in words: a `torch.nn.Linear` of 1000 x 1000 with Adam holds 4.004 MB of parameters, after backward as much of
gradients, after the first step twice as much of optimizer state (and a step counter of 4 bytes for each parameter).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from partkit.communicator import Communicator, call_site, describe
from partkit.counting.operations import tensors

Use = Literal["parameters", "buffers", "gradients", "optimizer state", "activations", "other"]
USES: tuple[Use, ...] = ("parameters", "buffers", "gradients", "optimizer state", "activations", "other")


class OutOfMemory(RuntimeError):
    """A rank's tensors do not fit on its device."""


class Holding(NamedTuple):
    """One storage that is alive."""

    nbytes: int
    use: Use
    what: str
    """dtype and shape of the tensor that it was made for."""
    site: str
    """Source line that made it."""


class Memory:
    """Keeps account of a rank's live tensors inside the ``with`` statement.

    Args:
        comm: the rank's communicator.
        *owners: modules and optimizers whose tensors are told apart.
        cap: bytes that may be held: "device" for what ``comm.cluster`` says, None for no end.

    Attributes:
        held: bytes by use, now.
        peak: bytes by use at the moment when the total was largest.

    Raises:
        OutOfMemory: an operation's result does not fit; the message names what fills the device.

    Example:
        >>> import torch, partkit as pk
        >>> def step(comm):
        ...     model = torch.nn.Linear(100, 10)
        ...     with Memory(comm, model) as memory:
        ...         torch.autograd.backward(model(torch.ones(5, 100)).sum())
        ...     return memory.held["parameters"], memory.held["gradients"]
        >>> with pk.SimulatedWorld(2) as world:
        ...     world.run(step)
        [(4040, 4040), (4040, 4040)]
    """

    def __init__(self, comm: Communicator, *owners: torch.nn.Module | torch.optim.Optimizer, cap: float | Literal["device"] | None = "device") -> None:
        self._comm = comm
        self._owners = owners
        self._cap = comm.cluster.device_of(comm.world_rank).memory if cap == "device" else float("inf") if cap is None else cap
        self._holdings: dict[int, Holding] = {}
        self._watched: dict[int, weakref.ref[Any]] = {}
        self._noted: dict[Use, int] = dict.fromkeys(USES, 0)
        self.held: dict[Use, int] = dict.fromkeys(USES, 0)
        self.peak: dict[Use, int] = dict.fromkeys(USES, 0)

    def __enter__(self) -> Memory:
        self._around = ExitStack()
        for owner in self._owners:
            self._adopt(owner)
        self._around.enter_context(torch.autograd.graph.saved_tensors_hooks(self._saved, lambda x: x))
        self._around.enter_context(_Results(self._made))
        self._note()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._around.close()
        self._note()

    # -- what is made, kept, freed -------------------------------------------------------------------------------

    def _adopt(self, owner: torch.nn.Module | torch.optim.Optimizer) -> None:
        """Count what an owner holds, and learn when it holds more."""
        if isinstance(owner, torch.optim.Optimizer):
            handle = owner.register_step_post_hook(lambda optimizer, *_: self._state_of(optimizer))
            self._around.callback(handle.remove)
            self._state_of(owner)
            return
        for buffer in owner.buffers():
            self._count(buffer, "buffers")
        for parameter in owner.parameters():
            self._count(parameter, "parameters")
            if parameter.grad is not None:
                self._count(parameter.grad, "gradients")
            if parameter.requires_grad:
                hook: Any = parameter.register_post_accumulate_grad_hook  # it has no types of its own
                self._around.callback(hook(self._gradient_of).remove)

    def _made(self, result: Any) -> None:
        """An operation has returned."""
        for x in tensors(result):
            self._count(x, "other")
        self._note()
        if sum(self.held.values()) > self._cap:
            raise OutOfMemory(self._full())

    def _saved(self, x: Tensor) -> Tensor:
        self._count(x, "activations")
        return x

    def _gradient_of(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self._count(parameter.grad, "gradients")
            self._note()

    def _state_of(self, optimizer: torch.optim.Optimizer) -> None:
        for x in tensors(list(optimizer.state.values())):
            self._count(x, "optimizer state")
        self._note()

    def _count(self, x: Tensor, use: Use) -> None:
        """This tensor's storage is alive, and used so, unless it is known to be used for something more lasting."""
        storage = x.untyped_storage()
        key, known = storage._cdata, self._holdings.get(storage._cdata)
        if known is None:
            self._holdings[key] = Holding(storage.nbytes(), use, describe(x), call_site())
            self._watched[key] = weakref.ref(storage, lambda _: self._freed(key))
            self.held[use] += storage.nbytes()
        elif USES.index(use) < USES.index(known.use):
            self._holdings[key] = known._replace(use=use)
            self.held[known.use] -= known.nbytes
            self.held[use] += known.nbytes

    def _freed(self, key: int) -> None:
        holding = self._holdings.pop(key)
        self._watched.pop(key)
        self.held[holding.use] -= holding.nbytes

    # -- what is told --------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Put what has changed into the trace."""
        if sum(self.held.values()) > sum(self.peak.values()):
            self.peak = dict(self.held)
        for use, nbytes in self.held.items():
            if nbytes != self._noted[use]:
                self._noted[use] = nbytes
                self._comm.log(f"memory: {use}", nbytes)

    def _full(self) -> str:
        """What fills the device, in words: by use, and the largest tensors with the lines that made them."""
        largest = sorted(self._holdings.values(), key=lambda holding: -holding.nbytes)[:5]
        uses = ", ".join(f"{use} {size(nbytes)}" for use, nbytes in self.held.items() if nbytes)
        lines = [f"  {size(h.nbytes):>9}  {h.use}: {h.what}" + (f" made at {h.site}" if h.site else "") for h in largest]
        return "\n".join([f"{size(sum(self.held.values()))} of tensors on a device of {size(self._cap)}: {uses}; the largest:", *lines])


class _Results(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands on what each operation returns."""

    def __init__(self, made: Callable[[Any], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._made = made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._made(result)
        return result


def size(nbytes: float) -> str:
    """``4.0 MB``.

    Example:
        >>> size(950), size(4_004_000), size(8e10)
        ('950 B', '4.0 MB', '80.0 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.1f} {unit}"
    return f"{nbytes:.0f} B"
