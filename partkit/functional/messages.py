"""send and recv, sendrecv: the gradient of a message is a message the other way.

    forward     rank 0:  send(x)  ---- x ---->  rank 1:  y = recv(...)
    backward    rank 0:  x.grad  <--- y.grad ---  rank 1

A send has a result too: an empty tensor, by which its rank's loss comes to depend on it. Without that, autograd on the sender would
never get to the point where the gradient is received.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from partkit.communicator import Communicator
from partkit.functional.movement import Movement, stand_in


def send(x: Tensor, comm: Communicator, dst: int, tag: str = "") -> Tensor:
    """Send ``x`` to ``dst`` and wait until it has taken it; in backward, receive the gradient. Adjoint of `recv`.

    Args:
        x: any shape.
        comm: the group in which ``dst`` is counted.
        dst: rank of ``comm``.
        tag: only a receive with the same one takes it.

    Returns:
        An empty tensor of shape (0,): make it part of this rank's loss, as ``loss + sent.sum()`` or by ``tie(loss, sent)``.

    Example:
        >>> import partkit as pk
        >>> def step(comm):
        ...     x = torch.tensor([3.0], requires_grad=True)
        ...     if comm.rank == 0:
        ...         loss = pk.functional.send(x, comm, dst=1).sum()
        ...     else:
        ...         loss = (pk.functional.recv(torch.empty(1), comm, src=0) ** 2).sum()
        ...     loss.backward()
        ...     return x.grad
        >>> with pk.World(2) as world:
        ...     world.run(step)
        [tensor([6.]), None]
    """
    shape = x.shape

    def forward(x: Tensor) -> Tensor:
        comm.send(x, dst, tag)
        return x.new_empty(0)

    move = Movement(
        _name(tag),
        comm,
        forward,
        adjoint=lambda y: recv(stand_in(shape, y), comm, dst, _back(tag)),
        group=(comm.world_rank, comm._peer(dst, "dst")),
    )
    return move(x)


def recv(buffer: Tensor, comm: Communicator, src: int, tag: str = "") -> Tensor:
    """Receive a tensor from ``src``; in backward, send the gradient. Adjoint of `send`.

    Args:
        buffer: says dtype and shape of what will come; it is not filled. For second derivatives it must depend on what they are
            taken of, as ``x`` itself does.
        comm: the group in which ``src`` is counted.
        src: rank of ``comm``.
        tag: of the send.

    Returns:
        A new tensor.

    Example:
        >>> import partkit as pk
        >>> def step(comm):
        ...     if comm.rank == 0:
        ...         weight = torch.tensor([2.0], requires_grad=True)
        ...         pk.functional.send(5 * weight, comm, dst=1).sum().backward()
        ...         return weight.grad.item()
        ...     pk.functional.recv(torch.empty(1), comm, src=0).sum().backward()
        >>> with pk.World(2) as world:
        ...     world.run(step)[0]
        5.0
    """
    move = Movement(
        _name(tag),
        comm,
        forward=lambda buffer: comm.recv(_template(buffer)(), src, tag),
        adjoint=lambda y: send(y, comm, src, _back(tag)),
        group=(comm._peer(src, "src"), comm.world_rank),
    )
    return move(buffer)


def sendrecv(x: Tensor, comm: Communicator, dst: int, src: int, buffer: Tensor | None = None, tag: str = "") -> Tensor:
    """Send ``x`` to ``dst`` and receive from ``src`` at the same time; in backward the gradients go the other way. Its own adjoint.

    Args:
        x: any shape.
        comm: the group in which ranks are counted.
        dst: rank of ``comm``.
        src: rank of ``comm``.
        buffer: says dtype and shape of what will come, if they are not those of ``x``; it is not filled.
        tag: the same for the two sides of a message.

    Returns:
        A new tensor: what came.

    Example:
        >>> import partkit as pk
        >>> def step(comm):
        ...     right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        ...     x = torch.ones(1, requires_grad=True)
        ...     y = pk.functional.sendrecv(x, comm, right, left)
        ...     (comm.rank * y).sum().backward()
        ...     return x.grad.item()
        >>> with pk.World(3) as world:
        ...     world.run(step)
        [1.0, 2.0, 0.0]
    """
    gone, came = _template(x), _template(x if buffer is None else buffer)
    move = Movement(
        "sendrecv",
        comm,
        forward=lambda x: comm.sendrecv(x, dst, came(), src, tag),
        adjoint=lambda y: sendrecv(y, comm, src, dst, gone(), _back(tag)),
    )
    return move(x)


def _template(x: Tensor) -> Callable[[], Tensor]:
    """Makes tensors like ``x``, without keeping it: backward needs to know what comes, not what went."""
    return partial(torch.empty, tuple(x.shape), dtype=x.dtype, device=x.device)


def _name(tag: str) -> str:
    return f"message {tag!r}" if tag else "message"


def _back(tag: str) -> str:
    """The tag of the gradient of a message."""
    return f"gradient of {tag}" if tag else "gradient"
