"""One collective call on one rank, between its begin and its end; its signature is what must agree between ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from partkit.communicator.naming import call_site, describe
from partkit.diagnosis import Call

if TYPE_CHECKING:
    from partkit.communicator.group import Communicator


class Ongoing:
    """A collective call between its begin and its end; `Communicator.ongoing` makes it.

    Args:
        comm: the group whose call it is.
        name: of the operation: ``all_reduce``.
        x: this rank's tensor, whose bytes the event shows.
        detail: what must agree between the ranks, beside dtype and shape: ``sum, ring``.
        what: dtype and shape that must agree, in words; those of ``x`` by default.
    """

    def __init__(self, comm: Communicator, name: str, x: Tensor, detail: str, what: str | None = None) -> None:
        self._comm, self._context = comm, comm._context
        comm.rank  # noqa: B018 (raises for a rank that is not in the group)
        counted = (comm.name, comm.ranks)
        number = self._context.num_calls[counted]
        self._context.num_calls[counted] = number + 1
        outer = self._context.call
        agreed = f"{describe(x) if what is None else what}, {detail}"
        self._call = Call(name, agreed, number, comm.ranks, call_site() if outer is None else outer.site, comm.name)
        self._context.calls.append(self._call)
        self._detail, self._nbytes = detail, x.nbytes
        self._span = self._context.span
        self._start = self._context.transport.now()

    def __enter__(self) -> None:
        context = self._context
        self._outer = context.call, context.span
        context.call, context.span = self._call, context.inside(self._call.name)
        context.transport.enter()

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._context.transport.leave(failed=kind is not None)
        finally:
            self._context.call, self._context.span = self._outer

    def end(self) -> None:
        """Note it in the trace, from its begin to now."""
        call, context = self._call, self._context
        if context.recorder.enabled:
            now, tag = context.transport.now(), f"{call.name}[{self._detail}]"
            context.recorder.add("collective", self._start, now, -1, self._nbytes, call.number, tag, self._span, call.site, self._comm.name)


class Collective(Ongoing):
    """A collective call that begins and ends with one ``with`` statement; `Communicator.collective` makes it."""

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        finally:
            self.end()
