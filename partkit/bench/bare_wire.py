"""What a collective would take if its messages were all there is: the floor under every way of writing it.

[1] A collective runs once over a `Tape`, which stands before the rank's process group and notes what it is asked for: every send
    and receive, with its size, and every wait, in the order of the program.
[2] `replay` asks the process group for the same again, with buffers of its own: no collective, no adding, no look at a tensor.
[3] `shares` says of one call how long the rank was in the process group, posting messages and waiting for them, and how long elsewhere.

What partkit takes beyond the wire is Python and arithmetic; what is left is gloo and the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from partkit.communicator import Communicator


class Step(NamedTuple):
    """One thing that a collective asks of the process group."""

    what: Literal["send", "recv", "wait"]
    nbytes: int
    """Of a message."""
    peer: int
    """Of a message; of a wait the number of the message, counted from 0."""
    tag: int
    seconds: float
    """That the rank was in it."""


class Tape:
    """Stands before a process group and notes what it is asked for.

    Args:
        group: has ``send`` and ``recv``.

    Attributes:
        steps: what it was asked for, in order.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self.steps: list[Step] = []
        self._messages = 0

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> _Noted:
        """Note it and do it."""
        return self._posted("send", tensors, dst, tag)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> _Noted:
        """Note it and do it."""
        return self._posted("recv", tensors, src, tag)

    def _posted(self, what: Literal["send", "recv"], tensors: list[Tensor], peer: int, tag: int) -> _Noted:
        start = time.perf_counter()
        work = getattr(self._group, what)(tensors, peer, tag)
        self.steps.append(Step(what, tensors[0].nbytes, peer, tag, time.perf_counter() - start))
        self._messages += 1
        return _Noted(self, self._messages - 1, work)


class _Noted:
    """A message of which the wait is noted, too."""

    def __init__(self, tape: Tape, number: int, work: Any) -> None:
        self._tape, self._number, self._work = tape, number, work

    def wait(self) -> None:
        start = time.perf_counter()
        self._work.wait()
        self._tape.steps.append(Step("wait", 0, self._number, 0, time.perf_counter() - start))


def taped(call: Callable[[], object], comm: Communicator) -> list[Step]:
    """What ``call`` asks of this rank's process group [1]."""
    wire: Any = comm._context.transport
    tape = Tape(wire._group)
    with _instead(wire, tape):
        call()
    return tape.steps


class Shares(NamedTuple):
    """Where the seconds of a call went, on one rank."""

    posting: float
    """In ``send`` and ``recv`` of the process group."""
    waiting: float
    """In waits for them."""
    elsewhere: float
    """In Python, and in adding, copying and allocating."""


def shares(call: Callable[[], object], comm: Communicator) -> Shares:
    """Where the time of one call goes [3]."""
    start = time.perf_counter()
    steps = taped(call, comm)
    seconds = time.perf_counter() - start
    waiting = sum(step.seconds for step in steps if step.what == "wait")
    posting = sum(step.seconds for step in steps) - waiting
    return Shares(posting, waiting, seconds - posting - waiting)


@contextmanager
def _instead(wire: Any, tape: Tape) -> Iterator[None]:
    """The tape takes the place of the group."""
    group, wire._group = wire._group, tape
    try:
        yield
    finally:
        wire._group = group


def replay(steps: list[Step], comm: Communicator) -> Callable[[], None]:
    """A function that asks for the same again [2]. Its buffers are made here, once."""
    wire: Any = comm._context.transport
    group = wire._group
    calls = {"send": group.send, "recv": group.recv}
    prepared = [(calls.get(step.what), [torch.zeros(step.nbytes, dtype=torch.uint8)], step.peer, step.tag) for step in steps]

    def again() -> None:
        works: list[Any] = []
        for call, tensors, peer, tag in prepared:
            if call is None:
                works[peer].wait()
            else:
                works.append(call(tensors, peer, tag))

    return again
