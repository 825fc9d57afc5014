"""One collective call on one rank, between its begin and its end; its signature is what must agree between ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from partkit.communicator.naming import call_site, describe
from partkit.diagnosis import Call

if TYPE_CHECKING:
    from partkit.communicator.group import Communicator


class Ongoing:
    """A collective call between its begin and its end; `Communicator.ongoing` makes it."""

    def __init__(self, comm: Communicator, name: str, x: Tensor, detail: str) -> None:
        self._comm, self._context = comm, comm._context
        comm.rank  # noqa: B018 (raises for a rank that is not in the group)
        counted = (comm.name, comm.ranks)
        self._call = Call(name, f"{describe(x)}, {detail}", self._context.num_calls[counted], comm.ranks, call_site())
        self._context.num_calls[counted] += 1
        self._tag, self._nbytes = f"{name}[{detail}]", x.numel() * x.element_size()
        self._span = "/".join(self._context.spans)
        self._start = self._context.transport.now()

    def __enter__(self) -> None:
        self._context.calls.append(self._call)
        self._context.spans.append(self._call.name)

    def __exit__(self, *_: object) -> None:
        self._context.spans.pop()
        self._context.calls.pop()

    def end(self) -> None:
        """Note it in the trace, from its begin to now."""
        call = self._call
        self._context.recorder.add(
            "collective",
            self._start,
            self._context.transport.now(),
            nbytes=self._nbytes,
            seq=call.number,
            tag=self._tag,
            span=self._span,
            site=call.site,
            group=self._comm.name,
        )
