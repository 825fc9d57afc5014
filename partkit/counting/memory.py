"""Memory that a rank's tensors hold, by what they are for, and a cap that says what filled it.

    use               which tensors                                                      known from
    parameters        those of the modules                                               the modules that are handed over
    gradients         ``.grad`` of the parameters                                        a hook on each parameter; the begin of a step
    optimizer state   what optimizers keep between steps                                 hooks round each step
    activations       what autograd keeps for the backward pass, while it keeps it       its saved-tensor hooks
    buffers           those of the modules                                               the modules
    other             all the rest: inputs, outputs, what lives within an operation      nothing else

Counted are storages, as allocated: a view holds nothing of its own. A storage is counted from the operation that made it until
nobody refers to it any more. What an operation allocates and frees inside, torch does not tell, so it is not counted.

Whenever sizes change they go into the trace as metrics (`partkit.tracing.memory`), in any world; `partkit.MemoryView` draws them.

What training holds, by hand: of N parameters in float32 with Adam 4N bytes of parameters, after a backward 4N of gradients, after a
step 8N of optimizer state (and a counter of 4 bytes for each tensor). Activations are what each layer's backward needs: of y = Wx its
input, of a ReLU its output. Rajbhandari et al. 2020, "ZeRO", section 3, counts the same way (16 bytes a parameter in mixed precision).
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from partkit.communicator import Communicator, call_site, describe
from partkit.counting.filling import Holding, refusal, shares
from partkit.counting.operations import tensors
from partkit.tracing.memory import CAP, USES, Use, metric_of, share_metric

_LASTING: tuple[Use, ...] = ("parameters", "buffers", "gradients", "optimizer state", "activations", "other")
"""A tensor that is used in two ways counts as the more lasting one: a weight that autograd keeps is a parameter."""


class OutOfMemory(RuntimeError):
    """A rank's tensors do not fit on its device."""


class Memory:
    """Keeps account of a rank's live tensors inside the ``with`` statement.

    Args:
        comm: the rank's communicator.
        *owners: modules and optimizers whose tensors are told apart; more can be added by `track`.
        cap: bytes that may be held: "device" for what ``comm.cluster`` says, None for no end.

    Attributes:
        held: bytes by use, now.
        peak: bytes by use at the moment when the total was largest; the last such moment before something was freed.

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
        self._device = comm.cluster.device_of(comm.world_rank)
        self._cap = self._device.memory if cap == "device" else float("inf") if cap is None else cap
        self._thread = threading.get_ident()
        self._holdings: dict[int, Holding] = {}
        self._watched: dict[int, weakref.ref[Any]] = {}
        self._saves: Counter[int] = Counter()  # how often autograd keeps each storage
        self._noted: dict[Use, int] = dict.fromkeys(USES, -1)  # so that the first note tells all
        self._at_peak: list[Holding] | None = None  # None while the peak lasts
        self._stepping: torch.optim.Optimizer | None = None
        self._open = False
        self.held: dict[Use, int] = dict.fromkeys(USES, 0)
        self.peak: dict[Use, int] = dict.fromkeys(USES, 0)

    def __enter__(self) -> Memory:
        self._around = ExitStack()
        self._open = True
        if self._cap < float("inf"):
            self._comm.log(CAP, self._cap, more=1)
        self.track(*self._owners)
        self._around.enter_context(torch.autograd.graph.saved_tensors_hooks(self._saved, _Saved.take))
        self._around.enter_context(_Results(self._made))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._around.close()
        self._noted = dict.fromkeys(USES, -1)
        self._note()
        self._open = False
        for share in shares(self._holdings.values() if self._at_peak is None else self._at_peak):
            self._comm.log(share_metric(share), share.nbytes, site=share.site)

    def track(self, *owners: torch.nn.Module | torch.optim.Optimizer) -> None:
        """Tell the tensors of more modules and optimizers apart, such as those made inside the ``with``.

        Raises:
            TypeError: one is neither a module nor an optimizer.
            RuntimeError: called outside of the ``with``.
        """
        if not self._open:
            raise RuntimeError("Memory.track: the account is open inside `with Memory(comm, ...) as memory:` only; call it there")
        for owner in owners:
            self._adopt(owner)
        self._note()

    # -- what is made, kept, freed -------------------------------------------------------------------------------

    def _adopt(self, owner: torch.nn.Module | torch.optim.Optimizer) -> None:
        """Count what an owner holds, and learn when it holds more."""
        if isinstance(owner, torch.optim.Optimizer):
            for handle in (owner.register_step_pre_hook(self._step_begins), owner.register_step_post_hook(self._step_ends)):
                self._around.callback(handle.remove)
            self._count_all(owner.state.values(), "optimizer state")
            return
        if not isinstance(owner, torch.nn.Module):
            raise TypeError(f"Memory(comm, {owner!r}): an owner of tensors is a torch.nn.Module or a torch.optim.Optimizer; this is a {type(owner).__name__}")
        for buffer in owner.buffers():
            self._count(buffer, "buffers")
        for parameter in owner.parameters():
            self._count(parameter, "parameters")
            if parameter.grad is not None:
                self._count(parameter.grad, "gradients")
            if parameter.requires_grad:
                hook: Any = parameter.register_post_accumulate_grad_hook  # it has no types of its own
                self._around.callback(hook(self._gradient_of).remove)

    def _made(self, operation: str, result: Any) -> None:
        """An operation has returned."""
        before = len(self._holdings)
        if self._stepping is not None:  # a first step makes the state of one parameter after the other
            self._count_all([next(reversed(self._stepping.state.values()), None)], "optimizer state")
        self._count_all([result], "other")
        self._note()
        if len(self._holdings) > before and sum(self.held.values()) > self._cap:
            raise OutOfMemory(self._full(operation, [*self._holdings.values()][before:]))

    def _saved(self, x: Tensor) -> _Saved:
        """Autograd keeps ``x`` until its backward has run, or the graph is gone."""
        self._count(x, "activations")
        key = x.untyped_storage()._cdata
        self._saves[key] += 1
        return _Saved(x, lambda: self._let_go(key))

    def _let_go(self, key: int) -> None:
        """Autograd keeps it once less."""
        self._saves[key] -= 1
        known = self._holdings.get(key)
        if self._saves[key] == 0:
            del self._saves[key]
            if known is not None and known.use == "activations":
                self._change(key, known, "other")

    def _gradient_of(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self._count(parameter.grad, "gradients")
            self._note()

    def _step_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Gradients that were put in place by hand (after an all-reduce, say), no hook has told."""
        self._stepping = optimizer
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._count_all([parameter.grad for parameter in parameters], "gradients")
        self._note()

    def _step_ends(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._stepping = None
        self._count_all(optimizer.state.values(), "optimizer state")
        self._note()

    def _count_all(self, values: Iterable[Any], use: Use) -> None:
        for x in tensors(list(values)):
            self._count(x, use)

    def _count(self, x: Tensor, use: Use) -> None:
        """This tensor's storage is alive, and used so, unless it is known to be used for something more lasting."""
        storage = x.untyped_storage()
        key, known = storage._cdata, self._holdings.get(storage._cdata)
        if known is None:
            self._holdings[key] = Holding(storage.nbytes(), use, describe(x), call_site())
            self._watched[key] = weakref.ref(storage, lambda _: self._freed(key))
            self.held[use] += storage.nbytes()
        elif _LASTING.index(use) < _LASTING.index(known.use):
            self._change(key, known, use)

    def _change(self, key: int, known: Holding, use: Use) -> None:
        self._holdings[key] = known._replace(use=use)
        self.held[known.use] -= known.nbytes
        self.held[use] += known.nbytes

    def _freed(self, key: int) -> None:
        if self._at_peak is None and sum(self.held.values()) == sum(self.peak.values()):
            self._at_peak = [*self._holdings.values()]
        holding = self._holdings.pop(key)
        self._watched.pop(key)
        self.held[holding.use] -= holding.nbytes
        if self._open and threading.get_ident() == self._thread:  # another simulated rank's thread may have collected it
            self._note()

    # -- what is told --------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Put what has changed into the trace."""
        total, highest = sum(self.held.values()), sum(self.peak.values())
        if total > highest or (total == highest and self._at_peak is None):
            self.peak, self._at_peak = dict(self.held), None
        changed = [use for use, nbytes in self.held.items() if nbytes != self._noted[use]]
        site = call_site() if changed else ""
        for more, use in zip(reversed(range(len(changed))), changed, strict=True):
            self._noted[use] = self.held[use]
            self._comm.log(metric_of(use), self.held[use], site=site, more=more)

    def _full(self, operation: str, new: list[Holding]) -> str:
        """What does not fit, and what fills the device."""
        held = [*self._holdings.values()][: -len(new)]
        whose = f"the device ({self._device.name})" if self._cap == self._device.memory else "the cap"
        return refusal(operation, new, held, self._cap, whose)


class _Saved:
    """A tensor that autograd keeps, and what to do when it no longer does."""

    def __init__(self, x: Tensor, let_go: Callable[[], None]) -> None:
        self._x, self._let_go = x, let_go

    def take(self) -> Tensor:
        """The tensor."""
        return self._x

    def __del__(self) -> None:
        self._let_go()


class _Results(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands on what each operation returns."""

    def __init__(self, made: Callable[[str, Any], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._made = made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._made(func._opname, result)
        return result
