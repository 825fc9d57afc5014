"""Sending and receiving among groups of live ranks, and what the trace keeps of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from partkit.communicator import Communicator, NotInGroup, RankContext, describe
from partkit.mesh import Mesh
from partkit.tracing import Recorder
from partkit.worlds.errors import RankError, UnwaitedMessages
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

Live = Callable[[int], World]


def one_rank(size: int = 1, rank: int = 0, mesh: Mesh | None = None) -> Communicator:
    """A communicator whose wire is never used."""

    class NoWire:
        def now(self) -> float:
            return 0.0

        def sleep(self, seconds: float) -> None:
            pass

        def enter(self) -> None:
            pass

        def leave(self, *, failed: bool) -> None:
            pass

    wire: Any = NoWire()
    wire.rank, wire.size = rank, size
    return Communicator(RankContext(wire, Recorder(rank)), mesh=mesh)


# -- groups, without a wire ------------------------------------------------------------------------------------------


def test_a_group_along_an_axis_has_ranks_of_its_own() -> None:
    comm = one_rank(6, rank=4, mesh=Mesh(dp=2, tp=3)).group("tp")
    assert (comm.ranks, comm.rank, comm.size, comm.name, comm.world_rank) == ((3, 4, 5), 1, 3, "tp", 4)
    assert 5 in comm and 0 not in comm


def test_subgroups_nest_and_keep_their_order() -> None:
    comm = one_rank(6, rank=4).subgroup([5, 4, 2, 0])
    inner = comm.subgroup([1, 3])
    assert (comm.rank, comm.ranks, inner.rank, inner.ranks) == (1, (5, 4, 2, 0), 0, (4, 0))


def test_a_rank_outside_a_group_may_make_it_but_not_use_it() -> None:
    comm = one_rank(3, rank=0).subgroup([1, 2])
    assert repr(comm) == "Communicator(not in it of 2, ranks 1,2)"
    for use in (lambda: comm.rank, lambda: comm.send(torch.ones(1), 0), lambda: comm.irecv(torch.ones(1), 1)):
        with pytest.raises(NotInGroup, match="rank 0 is not in group 'ranks 1,2' of ranks 1, 2"):
            use()


@pytest.mark.parametrize("ranks", [[], [0, 0], [3], [-1]])
def test_a_subgroup_is_made_of_different_ranks_of_the_group(ranks: list[int]) -> None:
    with pytest.raises(ValueError, match="give different ranks of this group, from 0 to 2"):
        one_rank(3).subgroup(ranks)


def test_no_mesh_no_axis() -> None:
    with pytest.raises(ValueError, match=r"this world has no mesh; start it with one, for example World\(pk\.Mesh"):
        one_rank(2).group("tp")
    with pytest.raises(ValueError, match="'pp' is no axis of"):
        one_rank(2, mesh=Mesh(tp=2)).group("pp")


@pytest.mark.parametrize("dst", [2, -1])
def test_a_peer_outside_the_group_is_refused(dst: int) -> None:
    with pytest.raises(ValueError, match=f"dst={dst} is outside this group, whose ranks are 0 to 1"):
        one_rank(2).isend(torch.ones(1), dst)


def test_a_blocking_message_to_oneself_is_refused() -> None:
    with pytest.raises(ValueError, match="use sendrecv"):
        one_rank().send(torch.ones(1), 0)
    with pytest.raises(ValueError, match="use sendrecv"):
        one_rank().recv(torch.ones(1), 0)


def test_what_is_no_plain_block_of_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x has layout torch\.sparse_coo: only dense tensors travel"):
        one_rank(2).isend(torch.eye(2).to_sparse(), 1)
    with pytest.raises(ValueError, match="is expanded: some of its elements share memory"):
        one_rank(2).irecv(torch.zeros(1).expand(3), 1)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_computation_takes_no_negative_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="a duration is at least 0"):
        one_rank().compute("f", seconds=seconds)


def test_a_tensor_is_described_shortly() -> None:
    assert [describe(x) for x in (torch.ones(2, 3), torch.tensor(1), torch.empty(0, dtype=torch.bfloat16))] == ["float32[2, 3]", "int64[]", "bfloat16[0]"]


def test_a_caught_error_leaves_no_span_and_no_collective_open() -> None:
    comm = one_rank()
    for _ in range(2):
        try:
            with comm.span("outer"), comm.collective("f", torch.ones(1), "x"):
                raise KeyError("boom")
        except KeyError:
            with comm.collective("g", torch.ones(1), "x"):  # while an exception is being handled
                pass
    context = comm._context
    assert (context.call, context.span, context.state().call) == (None, "", None)


# -- messages, live --------------------------------------------------------------------------------------------------


@pytest.mark.live
def test_case_H10_columns_travel_as_they_look_and_neighbours_stay(live_world: Live) -> None:
    def column(comm: Communicator) -> list[list[float]]:
        table = torch.tensor([[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]])
        if comm.rank == 0:
            comm.send(table[:, 0], 1)
        else:
            table[:, 0] = 0
            comm.recv(table[:, 0], 0)
        return table.tolist()

    assert list(live_world(2).run(column)) == [[[1.0, 100.0], [2.0, 100.0], [3.0, 100.0]]] * 2


@pytest.mark.live
@pytest.mark.parametrize(
    "make", ["arange(6)[::2]", "arange(6).reshape(2,3).T", "ones(1).expand(4)", "arange(8.).reshape(1,2,2,2).contiguous(memory_format=channels_last)"]
)
def test_case_H10_any_layout_travels(live_world: Live, make: str) -> None:
    def send(comm: Communicator) -> Any:
        x = eval(make, {**vars(torch)})
        return comm.sendrecv(x, 1 - comm.rank, torch.zeros(x.shape, dtype=x.dtype), 1 - comm.rank).equal(x)

    assert list(live_world(2).run(send)) == [True, True]


@pytest.mark.live
def test_conjugates_and_negatives_travel_as_they_read(live_world: Live) -> None:
    """They are flags on a tensor: the memory that is sent holds the opposite sign."""

    def send(comm: Communicator) -> Any:
        x = torch.tensor([1 + 2j]).conj()
        got = comm.sendrecv(x, 1 - comm.rank, torch.zeros_like(x), 1 - comm.rank)
        imaginary = comm.sendrecv(x.imag, 1 - comm.rank, torch.zeros(1), 1 - comm.rank)
        into = torch.zeros(1, dtype=torch.complex64)
        comm.sendrecv(x, 1 - comm.rank, into.conj(), 1 - comm.rank)
        return got.item(), imaginary.item(), into.item()

    assert list(live_world(2).run(send)) == [(1 - 2j, -2.0, 1 + 2j)] * 2


@pytest.mark.live
def test_a_parameter_travels_without_its_history(live_world: Live) -> None:
    def send(comm: Communicator) -> Any:
        parameter = torch.nn.Parameter(torch.full((3,), float(comm.rank)))
        with torch.no_grad():
            got = comm.sendrecv(parameter, 1 - comm.rank, torch.nn.Parameter(torch.zeros(3)), 1 - comm.rank)
        return got.tolist(), got.requires_grad, parameter.grad

    assert list(live_world(2).run(send)) == [([1.0] * 3, False, None), ([0.0] * 3, False, None)]


@pytest.mark.live
def test_case_H11_an_exchange_posts_both_before_it_waits(live_world: Live) -> None:
    def exchange(comm: Communicator) -> float:
        return comm.sendrecv(torch.tensor([float(comm.rank)]), 1 - comm.rank, torch.empty(1), 1 - comm.rank).item()

    assert list(live_world(2).run(exchange)) == [1.0, 0.0]


@pytest.mark.live
def test_case_H13_tags_tell_messages_apart(live_world: Live) -> None:
    def tagged(comm: Communicator) -> list[float]:
        buffers = [torch.empty(1) for _ in range(3)]
        if comm.rank == 0:
            pending = [comm.isend(torch.tensor([float(tag)]), 1, str(tag)) for tag in range(3)]
        else:
            pending = [comm.irecv(buffers[tag], 0, str(tag)) for tag in (2, 1, 0)]
        for message in pending:
            message.wait()
        return torch.cat(buffers).tolist() if comm.rank else []

    assert live_world(2).run(tagged)[1] == [0.0, 1.0, 2.0]


@pytest.mark.live
def test_case_H15_ranks_of_a_group_count_from_its_first(live_world: Live) -> None:
    def from_the_first(comm: Communicator) -> float | str:
        group = comm.subgroup([1, 2])
        x = torch.tensor([float(comm.rank)])
        try:
            if group.rank == 0:
                group.send(x, 1)
            else:
                group.recv(x, 0)
        except NotInGroup as refusal:
            return str(refusal)
        return x.item()

    outside, *inside = live_world(3).run(from_the_first)
    assert inside == [1.0, 1.0]
    assert "rank 0 is not in group" in outside


@pytest.mark.live
def test_groups_of_one_world_do_not_disturb_each_other(live_world: Live) -> None:
    """The same tag and size between the same two ranks, in two groups, posted crosswise."""

    def crosswise(comm: Communicator) -> tuple[float, float]:
        groups = comm.subgroup([0, 1], "one"), comm.subgroup([1, 0], "two")
        sends = [group.isend(torch.tensor([value]), 1 - group.rank) for group, value in zip(groups, (1.0, 2.0), strict=True)]
        buffers = [torch.empty(1), torch.empty(1)]
        receives = [group.irecv(buffer, 1 - group.rank) for group, buffer in reversed(list(zip(groups, buffers, strict=True)))]
        for message in (*receives, *sends):
            message.wait()
        return buffers[0].item(), buffers[1].item()

    assert list(live_world(2).run(crosswise)) == [(1.0, 2.0)] * 2


# -- the trace -------------------------------------------------------------------------------------------------------


@pytest.mark.live
def test_every_message_is_a_pair_of_events_with_its_source_line(live_world: Live) -> None:
    world = live_world(2)

    def send(comm: Communicator) -> None:
        with comm.span("step"):
            for _ in range(2):
                if comm.rank == 0:
                    comm.send(torch.ones(3, dtype=torch.float64), 1, "weights")
                else:
                    comm.recv(torch.empty(3, dtype=torch.float64), 0, "weights")

    world.run(send)
    messages = world.trace.messages()
    assert [(m.send.rank, m.send.peer, m.recv.rank, m.recv.peer, m.send.nbytes, m.recv.nbytes, m.send.seq) for m in messages] == [
        (0, 1, 1, 0, 24, 24, 0),
        (0, 1, 1, 0, 24, 24, 1),
    ]
    assert {(m.send.tag, m.send.span) for m in messages} == {("weights", "step")}
    first = send.__code__.co_firstlineno
    assert {m.send.site for m in messages} == {f"{os.path.basename(__file__)}:{first + 4}"}
    assert {m.recv.site for m in messages} == {f"{os.path.basename(__file__)}:{first + 6}"}
    assert all(0 <= e.start <= e.end for e in world.trace.events)


@pytest.mark.live
def test_spans_nest_and_keep_their_names_whatever_is_in_them(live_world: Live) -> None:
    world = live_world(2)

    def nested(comm: Communicator) -> None:
        with comm.span("train/epoch: 1"), comm.span("/tmp/batch:2"):
            comm.compute("f: x", seconds=0.0)

    world.run(nested)
    found = {(e.kind, e.tag, e.span) for e in world.trace.events}
    assert found == {("span", "train/epoch: 1", ""), ("span", "/tmp/batch:2", "train/epoch: 1"), ("compute", "f: x", "train/epoch: 1//tmp/batch:2")}


@pytest.mark.live
def test_numbers_of_messages_start_from_zero_in_every_run(live_world: Live) -> None:
    world = live_world(2)

    def exchange(comm: Communicator) -> None:
        comm.sendrecv(torch.ones(1), 1 - comm.rank, torch.empty(1), 1 - comm.rank)

    for _ in range(2):
        world.run(exchange)
        assert [e.seq for e in world.trace.events] == [0] * 4


@pytest.mark.live
def test_case_H12_a_dropped_message_is_told_with_its_line_and_does_not_disturb_the_next_run(live_world: Live) -> None:
    """Rank 0 posts and never waits; nobody receives. The next run finds clean connections."""
    world = live_world(2)
    with pytest.warns(UnwaitedMessages, match=r"rank 0: send float32\[1\] to rank 1 with tag 'late' at test_communicator\.py:\d+"):
        world.run(lambda comm: comm.isend(torch.tensor([666.0]), 1, "late") and None if comm.rank == 0 else None)
    got = world.run(lambda comm: comm.send(torch.tensor([1.0]), 1, "late") if comm.rank == 0 else comm.recv(torch.empty(1), 0, "late").item())
    assert got[1] == 1.0


def test_case_H12_dropped_messages_of_simulated_ranks_are_told_too() -> None:
    def drop(comm: Communicator) -> None:
        for tag in range(10):
            comm.irecv(torch.empty(1), 0, str(tag))

    with SimulatedWorld(2) as world, pytest.warns(UnwaitedMessages) as caught:
        world.run(drop)
    head, first, *_, more = str(caught[0].message).splitlines()
    assert head == "posted and never waited for, so nobody knows whether they arrived; call wait() on what isend and irecv return:"
    assert first.startswith("  rank 0: recv float32[1] from rank 0 with tag '0' at test_communicator.py:")
    assert more == "  and 12 more"


def change_before_wait(comm: Communicator, copy: bool) -> float | None:
    """Ones are sent and filled with 7 before the send is done; what the receiver got."""
    if comm.rank > 0:
        return comm.recv(torch.empty(1_000_000), 0).mean().item()
    x = torch.ones(1_000_000)
    pending = comm.isend(x.clone() if copy else x, 1)
    x.fill_(7)
    pending.wait()
    return None


@pytest.mark.live
def test_case_H12_a_tensor_that_changed_before_wait_is_told(live_world: Live) -> None:
    words = r"rank 0: RuntimeError: send float32\[1000000\] to rank 1 at .*: the tensor was changed before wait\(\)"
    with pytest.raises(RankError, match=words):
        live_world(2).run(change_before_wait, copy=False)
    assert list(live_world(2).run(change_before_wait, copy=True)) == [None, 1.0]


@pytest.mark.live
def test_errors_of_a_rank_name_the_argument(live_world: Live) -> None:
    with pytest.raises(RankError, match=re.escape("ranks 0-1: ValueError: dst=7 is outside this group, whose ranks are 0 to 1")):
        live_world(2).run(lambda comm: comm.send(torch.ones(1), 7))
