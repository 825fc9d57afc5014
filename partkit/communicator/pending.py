"""One message between the moment when it is posted and the moment when it is done. Here its event is born.

Every message of every algorithm passes through these few lines, so they do what each message needs and no more; words for
people (`Pending.operation`) are made when somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from torch import Tensor

from partkit.communicator.naming import call_site, describe
from partkit.diagnosis import Operation
from partkit.tracing import Kind
from partkit.transport.base import Combine, Work

if TYPE_CHECKING:
    from partkit.communicator.messages import PointToPoint


class Patience(NamedTuple):
    """Of a receive that takes the first message to come: how long it waits for one."""

    timeout: float | None


class Pending:
    """A message that was posted and may not be done yet. Wait for it exactly when its tensor is needed.

    Attributes:
        tensor: what is sent, or the buffer that is being filled.
    """

    __slots__ = (
        "_combine",
        "_context",
        "_group",
        "_kind",
        "_number",
        "_peer",
        "_ranks",
        "_seq",
        "_site",
        "_span",
        "_start",
        "_tag",
        "_target",
        "_version",
        "_waited",
        "_wire",
        "_work",
        "tensor",
    )

    def __init__(
        self,
        comm: PointToPoint,
        kind: Kind,
        tensor: Tensor,
        peer: int,
        tag: str,
        target: Tensor | None = None,
        combine: Combine | None = None,
        first: Patience | None = None,
    ) -> None:
        self._ranks = comm.ranks
        self._context = context = comm._context
        self._kind: Kind = kind
        self._target = target  # the caller's own buffer, if the message can't be put straight into it
        self._combine = combine
        self._peer = peer
        self._tag = tag
        self._group = group = comm.name
        self._span = context.span
        self.tensor = tensor
        call = context.call
        if call is None:
            self._site, wire, self._version = context.site or call_site(), f"{group}||{tag}", _version(tensor) if kind == "send" else None
            alike = (kind, peer, wire, tensor.dtype, tensor.numel())
            self._number = context.num_alike[alike]
            context.num_alike[alike] += 1
        else:  # the algorithms of collectives are held to what they may change by tests
            self._site, wire, self._version = call.site, f"{group}|{call.name} {call.what} {call.number}|{tag}", None
            self._number = 0
        self._wire = wire
        if context.recorder.enabled:
            counted = (kind, peer, tag, group)
            self._seq = seq = context.num_messages.get(counted, 0)
            context.num_messages[counted] = seq + 1
        context.progress += 1
        context.pending[id(self)] = self
        self._start = context.transport.now()
        self._work: Work | None
        try:
            self._work = self._post(peer, wire, combine, first)
        except ValueError:  # the wire does not take it: nothing is under way
            del context.pending[id(self)]
            raise

    def _post(self, peer: int, wire: str, combine: Combine | None, first: Patience | None) -> Work:
        """Hand it to the wire."""
        transport = self._context.transport
        if self._kind == "send":
            return transport.isend(self.tensor, peer, wire)
        if first is not None:
            return transport.irecv_first(self.tensor, peer, wire, first.timeout)
        if combine is None or self._target is not None:
            return transport.irecv(self.tensor, peer, wire)
        return transport.irecv(self.tensor, peer, wire, combine)

    def wait(self) -> Tensor:
        """Block until done; the second time returns at once. Gives the sent tensor, or the filled buffer.

        Raises:
            RuntimeError: the tensor of a send was changed after it was posted, so that nobody knows what the receiver got.
        """
        work = self._work
        if work is not None:
            context = self._context
            context.blocked_on = self
            self._waited = context.transport.now()
            try:
                work.wait()
            except TimeoutError:
                context.pending.pop(id(self), None)  # it was waited for, and given up
                raise
            finally:
                context.blocked_on = None  # also after a lost connection: whoever goes on after that is not blocked
            context.progress += 1
            context.pending.pop(id(self), None)
            self._work = None
            if self._peer < 0:
                self._found(work)
            if context.recorder.enabled:
                self._note()
            if self._target is not None:
                (self._combine or Tensor.copy_)(self._target, self.tensor)
            if self._version is not None and self.tensor._version != self._version:
                raise RuntimeError(
                    f"{self.operation}: the tensor was changed before wait(), so the receiver may have got new values for old; "
                    "wait() first and change it then, or send a copy: isend(x.clone(), ...)"
                )
        return self.tensor if self._target is None else self._target

    def _found(self, work: Work) -> None:
        """A receive from anybody knows its sender now: it is the next message from there."""
        peer: int = work.peer  # type: ignore[attr-defined]
        counted = (self._kind, peer, self._tag, self._group)
        self._peer, self._seq = peer, self._context.num_messages.get(counted, 0)
        self._context.num_messages[counted] = self._seq + 1

    def _note(self) -> None:
        context, tensor = self._context, self.tensor
        nbytes = tensor.numel() * tensor.element_size()
        end = context.transport.now()
        context.recorder.add(self._kind, self._start, end, self._peer, nbytes, self._seq, self._tag, self._span, self._site, self._group, 0.0, self._waited)

    @property
    def peer(self) -> int:
        """Rank in the group of the other side; of a receive from anybody only once it is done."""
        if self._peer < 0:
            raise RuntimeError(f"{self.operation}: nobody knows yet who sends; wait() first")
        return self._ranks.index(self._peer)

    @property
    def operation(self) -> Operation:
        """The message in words, for the supervisor."""
        side: Literal["send", "recv"] = "send" if self._kind == "send" else "recv"
        wire = f"{self._wire}|{self.tensor.dtype}|{self.tensor.numel()}"
        return Operation(side, self._peer, self._tag, describe(self.tensor), self._site, wire, self._number)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is not done of it."""
        return (self.operation,)

    def __repr__(self) -> str:
        return f"Pending({self.operation}, {'done' if self._work is None else 'posted'})"


def _version(tensor: Tensor) -> int | None:
    """torch's count of changes to the memory of ``tensor``; None where it can't tell them from changes beside it."""
    return None if tensor.is_inference() or tensor._base is not None else tensor._version
