"""A send and a receive at once, on a wire that can do both without waiting: the short way of `Communicator.sendrecv`.

On simulated ranks what is to be received has mostly been sent already, and inside a collective a rank does not wait for its
sends. Then nothing of the machinery of a message on its way (`pending`) is needed, and hundreds of ranks are simulated in
half the time. The events are the same; the world numbers their messages when the run is over (`partkit.worlds.simulated_run`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from partkit.transport.base import Combine

if TYPE_CHECKING:
    from partkit.communicator.group import Communicator


def exchange(comm: Communicator, x: Tensor, dst: int, buffer: Tensor, src: int, tag: str, combine: Combine | None) -> bool:
    """Do it at once, if the wire can; False if nothing has been done. Arguments as in `Communicator.sendrecv`; inside a collective."""
    context = comm._context
    wire, call = context.transport, context.call
    if call is None or not hasattr(type(wire), "exchange") or not (is_plain(x) and is_plain(buffer)):
        return False
    to, source, group = comm._peer(dst, "dst"), comm._peer(src, "src"), comm.name
    mark = wire.exchange(x, to, buffer, source, f"{group}|{call.name} {call.what} {call.number}|{tag}", combine)  # type: ignore[attr-defined]
    if mark < 0:
        return False
    context.progress += 4
    if context.recorder.enabled:
        context.recorder.add_exchange((mark, source, to, buffer.nbytes, x.nbytes, tag, context.span, call.site, group))
    return True


def is_plain(x: Tensor) -> bool:
    """Whether a tensor can travel as it is."""
    return x.layout is torch.strided and x.is_contiguous() and not (x.requires_grad or x.is_neg() or x.is_conj())
