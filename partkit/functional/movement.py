"""A movement of data that autograd can go through: its forward, its adjoint, and the record of who owes a backward.

    forward     x ---- movement.forward ---> y                due: this rank owes the backward of all_gather #1
                                             | loss
    backward    x.grad <- movement.adjoint - y.grad           no longer due; everything inside is in a span "backward of all_gather"

The adjoint is itself a movement of this package, so that the graph of a backward with ``create_graph=True`` goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from partkit.communicator import Communicator, call_site
from partkit.diagnosis import Due

MOST_DUE = 1000
"""Movements of a rank that are remembered until their backward: those of evaluations, which have none, must not pile up."""


class Movement(NamedTuple):
    """A linear movement of data among ranks."""

    name: str
    comm: Communicator
    forward: Callable[[Tensor], Tensor]
    """From a tensor without history to a new one."""
    adjoint: Callable[[Tensor], Tensor]
    """From the gradient of the result to that of the input: a movement too. An empty result stands for zeros."""
    group: tuple[int, ...] = ()
    """World ranks that take part; those of ``comm`` if empty."""

    def __call__(self, x: Tensor) -> Tensor:
        """Move ``x``; the result requires grad if grad mode is on and the dtype can have gradients."""
        if not (torch.is_grad_enabled() and (x.is_floating_point() or x.is_complex())):
            return self.forward(x)
        due = self._owe()
        try:
            moved: Tensor = _Move.apply(x, torch.empty(0, requires_grad=True), self, due)  # type: ignore[no-untyped-call]
        except BaseException:
            self.comm._context.due.pop(due, None)  # a forward that was refused has no backward
            raise
        return moved

    def _owe(self) -> Due:
        """Note that this rank owes the backward."""
        context, group = self.comm._context, self.group or self.comm.ranks
        number = context.num_due[self.name, group]
        context.num_due[self.name, group] += 1
        due = Due(self.name, number, group, call_site())
        context.due[due] = None
        while len(context.due) > MOST_DUE:
            del context.due[next(iter(context.due))]
        return due

    @contextmanager
    def paying(self, due: Due) -> Iterator[None]:
        """Inside, this rank runs the backward."""
        context = self.comm._context
        context.due.pop(due, None)
        outer, context.backward_of = context.backward_of, due
        try:
            with self.comm.span(f"backward of {self.name}"):
                yield
        finally:
            context.backward_of = outer


class _Move(Function):
    """Forward and adjoint as autograd wants them. ``anchor`` requires grad, so that the result does on every rank."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, movement: Movement, due: Due) -> Tensor:
        ctx.movement, ctx.due, ctx.shape = movement, due, x.shape
        return movement.forward(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None, None]:
        (gradient,) = gradients
        with ctx.movement.paying(ctx.due):
            back: Tensor = ctx.movement.adjoint(gradient)
        assert back.shape == ctx.shape or back.numel() == 0
        return back if back.shape == ctx.shape else back.sum().expand(ctx.shape), None, None, None


def tie(loss: Tensor, *results: Tensor) -> Tensor:
    """``loss`` itself, but its backward also goes through ``results``, with gradients of zero.

    For a rank whose loss does not depend on the result of a movement: so it takes part in the movement's backward, in which others
    wait for it.

    Args:
        loss: any tensor; what backward() is called on.
        results: of movements.

    Returns:
        A tensor with the values of ``loss``.

    Example:
        >>> import partkit as pk
        >>> def step(comm):
        ...     x = torch.tensor([1.0 + comm.rank], requires_grad=True)
        ...     y = pk.functional.all_gather(x, comm)
        ...     loss = y.prod() if comm.rank == 0 else pk.functional.tie(2 * x.sum(), y)
        ...     loss.backward()
        ...     return x.grad.item()
        >>> with pk.World(2) as world:
        ...     world.run(step)
        [2.0, 3.0]
    """
    tied: Tensor = _Tie.apply(loss, *results)  # type: ignore[no-untyped-call]
    return tied


class _Tie(Function):
    """The first tensor, with edges to the others."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, *results: Tensor) -> Tensor:
        ctx.shapes = [(result.shape, result.dtype, result.device) for result in results]
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, ...]:
        zeros = [torch.zeros((), dtype=dtype, device=device).expand(shape) for shape, dtype, device in ctx.shapes]
        return (*gradients, *zeros)


def stand_in(shape: Sequence[int], gradient: Tensor) -> Tensor:
    """What a rank passes on whose values don't count: any tensor of ``shape``, from which the graph goes on to ``gradient``."""
    return tie(gradient.new_empty(tuple(shape)), gradient)


def shared(gradient: Tensor, comm: Communicator, op: str) -> Tensor:
    """What a rank's share in a sum or mean makes of the gradient."""
    return gradient / comm.size if op == "mean" else gradient


def check_linear(operation: str, op: str) -> None:
    """Refuse what has no adjoint."""
    if op not in ("sum", "mean"):
        raise ValueError(f"functional.{operation}(op={op!r}): only 'sum' and 'mean' are linear and can be differentiated here")
