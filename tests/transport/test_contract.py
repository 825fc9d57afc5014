"""The contract of a transport, on live ranks; and that the check notices each broken promise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from partkit import testing
from partkit.communicator import Communicator, RankContext
from partkit.testing import check_transport
from partkit.tracing import Recorder
from partkit.transport.process_group import wire_tag
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.world import World


@pytest.mark.live
def test_live_ranks_keep_the_contract(live_world: Callable[[int], World]) -> None:
    check_transport(lambda size: nullcontext(live_world(size)))


def test_the_contract_names_its_promises() -> None:
    assert {promise.__name__ for promise in testing.PROMISES} == {name for name, found in vars(testing).items() if callable(found) and is_promise(found)}


def is_promise(found: Any) -> bool:
    return (
        getattr(found, "__module__", "") == testing.__name__ and list(getattr(found, "__annotations__", {})) == ["comm", "return"] and found.__name__[0] != "_"
    )


@pytest.mark.parametrize(
    ("kinds", "same"),
    [(("a", torch.float32, 4, "a", torch.float32, 4), True), (("a", torch.float32, 4, "b", torch.float32, 4), False)]
    + [(("a", torch.float32, 4, "a", torch.int32, 4), False), (("a", torch.float32, 4, "a", torch.float32, 8), False)],
)
def test_the_number_on_the_wire_holds_tag_dtype_and_size(kinds: tuple[Any, ...], same: bool) -> None:
    one, other = (wire_tag(tag, torch.empty(n, dtype=dtype)) for tag, dtype, n in (kinds[:3], kinds[3:]))
    assert (one == other) is same
    assert 0 <= one < 2**31


# -- broken wires, each caught by the promise that it breaks ---------------------------------------------------------


class Loopback:
    """A wire of one rank, right until a subclass breaks it."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self.sent: dict[str, list[torch.Tensor]] = defaultdict(list)
        self.wanted: dict[str, list[torch.Tensor]] = defaultdict(list)

    def now(self) -> float:
        return 0.0

    def isend(self, tensor: torch.Tensor, dst: int, tag: str) -> Any:
        self.sent[tag].append(tensor)
        return self.meet(tag)

    def irecv(self, buffer: torch.Tensor, src: int, tag: str) -> Any:
        self.wanted[tag].append(buffer)
        return self.meet(tag)

    def meet(self, tag: str) -> Any:
        while self.sent[tag] and self.wanted[tag]:
            self.copy(self.wanted[tag].pop(0), self.sent[tag].pop(0))
        return Taken(lambda: None)

    def copy(self, buffer: torch.Tensor, sent: torch.Tensor) -> None:
        buffer.copy_(sent)


class Taken:
    def __init__(self, wait: Callable[[], object]) -> None:
        self.wait = wait


class Swapped(Loopback):
    """Serves every second receive first."""

    def meet(self, tag: str) -> Any:
        if len(self.sent[tag]) == len(self.wanted[tag]) == 2:
            self.sent[tag].reverse()
            return super().meet(tag)
        return Taken(lambda: None)


class Halved(Loopback):
    def copy(self, buffer: torch.Tensor, sent: torch.Tensor) -> None:
        buffer.copy_(sent).mul_(0.5)


def comm_over(wire: Any) -> Communicator:
    return Communicator(RankContext(wire, Recorder(0)))


def test_a_loopback_wire_keeps_the_promise_to_oneself() -> None:
    testing.to_oneself(comm_over(Loopback()))


@pytest.mark.parametrize("broken", [Swapped, Halved])
def test_a_broken_loopback_wire_is_caught(broken: type[Loopback]) -> None:
    with pytest.raises(AssertionError):
        testing.to_oneself(comm_over(broken()))


def eager_send(tensor: torch.Tensor, dst: int, tag: str, wire: Any) -> Any:
    """Done at once, whatever the receiver does."""
    wire.kept.append(wire.isend_of_group(tensor, dst, tag))
    return Taken(lambda: None)


def aliased_send(tensor: torch.Tensor, dst: int, tag: str, wire: Any) -> Any:
    """Forgets the tag."""
    return wire.isend_of_group(tensor, dst, "")


def with_wire(promise: Callable[[Communicator], None], isend: Any = None, irecv: Any = None) -> Callable[[Communicator], None]:
    """The promise on a wire whose ``isend`` or ``irecv`` is broken."""

    def on_rank(comm: Communicator) -> None:
        wire: Any = comm._context.transport
        wire.kept, wire.isend_of_group = [], type(wire).isend.__get__(wire)
        if isend is not None:
            wire.isend = lambda tensor, dst, tag: isend(tensor, dst, tag, wire)
        if irecv is not None:
            right = type(wire).irecv.__get__(wire)
            wire.irecv = lambda buffer, src, tag: right(buffer, src, irecv(tag))
        try:
            promise(comm)
            for work in wire.kept:
                work.wait()
        finally:
            for name in ("isend", "irecv"):
                wire.__dict__.pop(name, None)

    return on_rank


@pytest.mark.live
def test_a_wire_that_is_not_a_rendezvous_is_caught(live_world: Callable[[int], World]) -> None:
    with pytest.raises(RankError, match="before its receive was posted"):
        live_world(2).run(with_wire(testing.rendezvous, isend=eager_send))


@pytest.mark.live
def test_a_wire_that_forgets_tags_is_caught(live_world: Callable[[int], World]) -> None:
    forget = with_wire(testing.unlike_never_meet, isend=aliased_send, irecv=lambda tag: "")
    with pytest.raises(RankError, match="unlike messages met") as caught:
        live_world(2).run(forget)
    assert not isinstance(caught.value, RanksStuck)
