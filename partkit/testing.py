"""The contract of a transport as a check that anybody can run on theirs.

    check_transport(lambda size: pk.World(size))

puts a world's wire through every promise of `partkit.transport.base`, with 1, 2 and 3 ranks:

    in order          messages under one tag arrive as they were sent
    at once           isend and irecv return while nobody has posted the other side
    rendezvous        a send is not done before its receive is posted, not even for one element
    never meet        messages that differ in tag, dtype or number of elements wait for their own kind
    empty, any dtype  tensors without elements; every dtype that torch can hold
    to oneself        a rank sends to itself, as to any other
    reuse             after wait, the sender's tensor is its own again

Each promise is a function of one rank, ``promise(comm)``, that raises AssertionError in words: they are readable by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from partkit.communicator import Communicator


class Ranks(Protocol):
    """What is checked: something that runs a function on every rank, as `partkit.World` does."""

    def run(self, fn: Callable[..., Any]) -> Any:
        """``fn(comm)`` on every rank."""


def check_transport(make: Callable[[int], AbstractContextManager[Ranks]]) -> None:
    """Put a transport through its contract.

    Args:
        make: ``make(size)`` gives a world of that many ranks, as a context manager.

    Raises:
        AssertionError: a promise is broken; the message says which. A world reports it its own way: live ranks, as
            `RankError`, which names the ranks.

    Example:
        >>> import partkit as pk
        >>> check_transport(pk.World)
    """
    for size in (1, 2, 3):
        with make(size) as world:
            for promise in PROMISES:
                world.run(promise)


def in_order(comm: Communicator) -> None:
    """Messages from one rank to another under one tag arrive in the order in which they were sent."""
    for peer in _others(comm):
        sent = [comm.isend(torch.tensor([comm.rank, i]), peer, "same") for i in range(20)]
        buffers = [torch.empty(2, dtype=torch.int64) for _ in sent]
        received = [comm.irecv(buffer, peer, "same") for buffer in buffers]
        for pending in reversed(received):  # waiting in another order changes nothing
            pending.wait()
        _wait_all(sent)
        assert torch.stack(buffers).tolist() == [[peer, i] for i in range(20)], "messages under one tag overtook each other"


def returns_at_once(comm: Communicator) -> None:
    """Everyone posts everything before anyone waits: if posting blocked, nobody would get further."""
    buffers = {peer: torch.empty(100_000) for peer in _others(comm)}
    sends = [comm.isend(torch.full((100_000,), float(comm.rank)), peer) for peer in buffers]
    receives = [comm.irecv(buffer, peer) for peer, buffer in buffers.items()]
    _wait_all([*sends, *receives])
    assert all((buffer == peer).all() for peer, buffer in buffers.items()), "a message arrived changed"


def rendezvous(comm: Communicator) -> None:
    """A send is not done before its receive is posted, not even for one element: the receiver is late, and says when it came."""
    if comm.rank == 0 and comm.size > 1:
        comm.send(torch.ones(1), 1, "one element")
        done, posted = comm.now(), comm.recv(torch.empty(1, dtype=torch.float64), 1, "when").item()
        assert done >= posted, f"a send was done {posted - done} s before its receive was posted"
    elif comm.rank == 1:
        comm.compute("late", seconds=0.05)
        posted = comm.now()
        comm.recv(torch.empty(1), 0, "one element")
        comm.send(torch.tensor([posted], dtype=torch.float64), 0, "when")


def unlike_never_meet(comm: Communicator) -> None:
    """Messages that differ in tag, dtype or number of elements do not fill each other's buffers."""
    kinds = [("a", torch.float32, 4), ("b", torch.float32, 4), ("a", torch.int32, 4), ("a", torch.float32, 8), ("a", torch.float64, 2)]
    for peer in _others(comm):
        sends = [comm.isend(torch.full((n,), i, dtype=dtype), peer, tag) for i, (tag, dtype, n) in enumerate(kinds)]
        buffers = [torch.full((n,), -1, dtype=dtype) for _, dtype, n in kinds]
        for (tag, *_), buffer in reversed(list(zip(kinds, buffers, strict=True))):
            comm.recv(buffer, peer, tag)
        _wait_all(sends)
        assert [set(buffer.tolist()) for buffer in buffers] == [{i} for i in range(len(kinds))], "unlike messages met"


def empty_and_shapeless(comm: Communicator) -> None:
    """Tensors of no elements and of no dims travel, and keep to their turn."""
    for peer in _others(comm):
        for x in (torch.empty(0), torch.empty(3, 0, 2, dtype=torch.int64), torch.tensor(7.0)):
            got = comm.sendrecv(x, peer, torch.zeros_like(x), peer)
            assert got.shape == x.shape and got.equal(x), f"a tensor of shape {list(x.shape)} arrived changed"


def every_dtype(comm: Communicator) -> None:
    """Bytes are bytes: whatever torch can hold arrives as it left."""
    for peer in _others(comm):
        for dtype in DTYPES:
            x = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
            got = comm.sendrecv(x, peer, torch.zeros_like(x), peer, str(dtype))
            assert got.view(torch.uint8).equal(x.view(torch.uint8)), f"{dtype} arrived changed"


def to_oneself(comm: Communicator) -> None:
    """A rank sends to itself, in order, whichever side it posts or waits for first."""
    buffers = [torch.zeros(1), torch.zeros(1)]
    early = comm.irecv(buffers[0], comm.rank)
    sends = [comm.isend(torch.tensor([value]), comm.rank) for value in (1.0, 2.0)]
    late = comm.irecv(buffers[1], comm.rank)
    _wait_all([*sends, late, early])
    assert [buffer.item() for buffer in buffers] == [1.0, 2.0], "messages to oneself overtook each other"
    x = torch.arange(3.0)
    assert comm.sendrecv(x, comm.rank, torch.zeros(3), comm.rank).equal(x), "sendrecv with oneself changed the tensor"


def reuse(comm: Communicator) -> None:
    """After wait, the sender may write on its tensor: the receiver has taken it."""
    for peer in _others(comm):
        x = torch.zeros(50_000)
        buffers = [torch.empty(50_000) for _ in range(5)]
        received = [comm.irecv(buffer, peer, f"turn {turn}") for turn, buffer in enumerate(buffers)]
        for turn in range(5):
            comm.isend(x.fill_(turn), peer, f"turn {turn}").wait()
        _wait_all(received)
        assert [set(buffer.tolist()) for buffer in buffers] == [{float(turn)} for turn in range(5)], "a tensor was taken after its send was done"


PROMISES: tuple[Callable[[Communicator], None], ...] = (
    in_order,
    returns_at_once,
    rendezvous,
    unlike_never_meet,
    empty_and_shapeless,
    every_dtype,
    to_oneself,
    reuse,
)
"""The whole contract."""

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn),
)


def _others(comm: Communicator) -> list[int]:
    return [rank for rank in range(comm.size) if rank != comm.rank]


def _wait_all(pending: list[Any]) -> None:
    for message in pending:
        message.wait()
