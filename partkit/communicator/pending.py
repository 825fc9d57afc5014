"""One message between the moment when it is posted and the moment when it is done. Here its event is born."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from partkit.communicator.naming import call_site, describe
from partkit.diagnosis import Operation
from partkit.tracing import Kind
from partkit.transport.base import Work

if TYPE_CHECKING:
    from partkit.communicator.group import Communicator


class Pending:
    """A message that was posted and may not be done yet. Wait for it exactly when its tensor is needed.

    Attributes:
        tensor: what is sent, or the buffer that is being filled.
    """

    def __init__(self, comm: Communicator, kind: Kind, tensor: Tensor, peer: int, tag: str, target: Tensor | None = None) -> None:
        context = comm._context
        self._context = context
        self._kind = kind
        self._target = target  # the caller's own buffer, if it is not contiguous
        self.tensor = tensor
        self._group = comm.name
        self._tag = tag
        self._span = "/".join(context.spans)
        self._site = context.calls[-1].site if context.calls else call_site()
        wire = comm._wire_tag(tag)
        self.operation = Operation("send" if kind == "send" else "recv", peer, tag, describe(tensor), self._site, f"{wire}|{tensor.dtype}|{tensor.numel()}")
        counted = (kind, peer, tag, comm.name)
        self._seq = context.num_messages[counted]
        context.num_messages[counted] += 1
        context.progress += 1
        context.pending[id(self)] = self
        self._start = context.transport.now()
        transport = context.transport
        self._work: Work | None = transport.isend(tensor, peer, wire) if kind == "send" else transport.irecv(tensor, peer, wire)

    def wait(self) -> Tensor:
        """Block until done; the second time returns at once. Gives the sent tensor, or the filled buffer."""
        if self._work is not None:
            context = self._context
            context.blocked_on = self
            try:
                self._work.wait()
            finally:
                context.blocked_on = None  # also after a lost connection: whoever goes on after that is not blocked
            context.progress += 1
            context.pending.pop(id(self), None)
            self._work = None
            self._note()
            if self._target is not None:
                self._target.copy_(self.tensor)
        return self.tensor if self._target is None else self._target

    def _note(self) -> None:
        context, nbytes = self._context, self.tensor.numel() * self.tensor.element_size()
        peer = self.operation.peer
        context.recorder.add(self._kind, self._start, context.transport.now(), peer, nbytes, self._seq, self._tag, self._span, self._site, self._group)

    def __repr__(self) -> str:
        return f"Pending({self.operation}, {'done' if self._work is None else 'posted'})"
