"""`same_as_serial`: a training loop on all ranks, its serial twin in this process, and the comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import torch

from partkit.serial_twin.compare import TOLERANCES, Rules, compare
from partkit.serial_twin.evidence import START, Note, Observation
from partkit.serial_twin.report import Report


class RunsFunctions(Protocol):
    """Any world: live or simulated."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def run(self, fn: Callable[..., Any], *args: Any) -> Sequence[Any]:
        """Call ``fn(comm, *args)`` on every rank; what each returned, by rank."""


def same_as_serial(
    world: RunsFunctions,
    parallel: Callable[..., object],
    serial: Callable[..., object],
    *args: Any,
    loss: Literal["mean", "sum"] = "mean",
    tolerance: float | None = None,
    bit_equal: bool = False,
    buffers: bool = False,
    seed: int = 0,
) -> Report:
    """Run a training loop on the ranks of ``world`` and its twin in this process; say whether both do the same.

    Both are ordinary loops that call ``note(step, loss=..., outputs=..., model=...)`` once a step, after ``optimizer.step()``;
    what they note is compared: outputs, loss, each parameter's gradient, updated weights (`partkit.serial_twin.pairs` has the order). Ranks
    that hold only a part of something say which (`partkit.serial_twin.evidence`).

    Args:
        world: where ``parallel`` runs; anything with ``size`` and ``run``.
        parallel: ``parallel(comm, note, *args)``, called on every rank.
        serial: ``serial(note, *args)``, called here.
        *args: further arguments for both, for example the data.
        loss: how the ranks' losses make the loss of all: "mean" weighted by counts, or "sum".
        tolerance: allowed error relative to the largest entries; by default 1e-9 for float64, 1e-5 for float32.
        bit_equal: demand the same bits, except of the loss.
        buffers: compare buffers too. `DataParallel` keeps those of rank 0, which for batch norm are not those of one process.
        seed: both start from ``torch.manual_seed(seed)`` on every rank; random states are as before afterwards.

    Returns:
        A `Report`: a badge in a notebook, true if all is equal, with ``first`` and ``differences``.

    Raises:
        ValueError: neither run noted anything.

    Example:
        >>> import torch, partkit as pk
        >>> x = torch.randn(6, 3, dtype=torch.float64)
        >>> def serial(note):
        ...     model = torch.nn.Linear(3, 1).double()
        ...     loss = model(x).square().mean()
        ...     loss.backward()
        ...     note(0, loss=loss, model=model)
        >>> def parallel(comm, note):
        ...     model = torch.nn.Linear(3, 1).double()
        ...     mine = x[comm.rank::comm.size]
        ...     loss = model(mine).square().mean()
        ...     loss.backward()
        ...     for p in model.parameters():
        ...         p.grad = pk.all_reduce(p.grad, comm)                 # not divided by the number of ranks
        ...     note(0, loss=loss, model=model)
        >>> with pk.World(2) as world:
        ...     report = pk.same_as_serial(world, parallel, serial)
        >>> bool(report), report.first.what, report.first.rank, report.first.name
        (False, 'gradient', 0, 'bias')
        >>> print(report.first.hint)
        exactly 2 times too large, the number of ranks: a sum over ranks that was not divided; divide it by comm.size, or use op='mean'. Or ...
    """
    ranks: list[list[Observation]] = list(world.run(observe_rank, parallel, seed, args))
    note = Note()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        serial(note, *args)
    if not note.observations and not any(ranks):
        raise ValueError("same_as_serial: nothing was noted; call note(step, loss=..., outputs=..., model=...) in both loops, once a step")
    rules = Rules(loss, tolerance, bit_equal, buffers)
    steps = {seen.step for seen in note.observations} - {START}
    return Report(compare(ranks, note.observations, rules), world.size, len(steps), _within(rules, note.observations))


def observe_rank(comm: Any, parallel: Callable[..., object], seed: int, args: tuple[Any, ...]) -> list[Observation]:
    """What one rank notes."""
    note = Note()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parallel(comm, note, *args)
    return note.observations


def _within(rules: Rules, observations: Sequence[Observation]) -> str:
    if rules.bit_equal:
        return "the same bits"
    if rules.tolerance is not None:
        return f"equal within {rules.tolerance:g}"
    dtypes = {tensor.dtype for seen in observations for tensor in (*seen.weights.values(), seen.outputs, seen.loss) if tensor is not None}
    return f"equal within {max(TOLERANCES.get(dtype, 0.0) for dtype in dtypes):g}" if dtypes else "equal"
