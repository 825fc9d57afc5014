"""pk.watch() sees the functions of torch.distributed: which, how many bytes, in which group, from which line, how long."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import partkit as pk
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World
from tests.watching.watched import LiveWorld, names_and_bytes, watched


def test_outside_of_a_rank_it_says_where_it_belongs() -> None:
    with pytest.raises(RuntimeError, match=r"use it inside a function that a world runs"):
        pk.watch()


def in_a_thread(comm: Any) -> str:
    """What a watch in another thread says, and how many operations of another thread a watch here sees."""
    said = []

    def other() -> None:
        dist.barrier()
        with pytest.raises(RuntimeError) as problem:
            pk.watch()
        said.append(str(problem.value))

    with pk.watch() as watching:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert watching.events == []
    return said[0]


@pytest.mark.live
def test_in_another_thread_it_says_so_and_operations_of_another_thread_are_not_seen(live_world: LiveWorld) -> None:
    assert all("in the rank's own thread, not in one that it starts" in said for said in live_world(2).run(in_a_thread))


# -- plain collectives ---------------------------------------------------------------------------------------------------


def plain(comm: Any) -> None:
    x = torch.ones(6)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.all_gather([torch.empty(6) for _ in range(comm.size)], x)
    dist.reduce(x, 0)
    dist.gather(x, [torch.empty(6) for _ in range(comm.size)] if comm.rank == 0 else None)
    dist.scatter(x, [torch.ones(6) for _ in range(comm.size)] if comm.rank == 0 else None)
    dist.all_to_all_single(torch.empty(6), x)
    dist.barrier()


@pytest.mark.live
@pytest.mark.parametrize("rank", [0, 1])
def test_plain_collectives(live_world: LiveWorld, rank: int) -> None:
    names = ["all_reduce", "broadcast", "all_gather", "reduce", "gather", "scatter", "all_to_all_single"]
    events = watched(live_world(2), plain, rank)
    assert names_and_bytes(events) == [(name, 24) for name in names] + [("barrier", 0)]
    assert {(event.kind, event.group, event.site.split(":")[0]) for event in events} == {("collective", "", "test_mode.py")}
    lines = [int(event.site.split(":")[1]) for event in events]
    assert lines == sorted(set(lines))


@pytest.mark.live
def test_groups_and_numbers(world4: World) -> None:
    def step(comm: Any) -> None:
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        with comm.span("pairs"):
            for _ in range(2):
                dist.all_reduce(torch.ones(2, dtype=torch.float64), group=groups[comm.rank % 2])

    events = [event for event in watched(world4, step, rank=3) if event.tag == "dist.all_reduce"]
    assert [(event.group, event.nbytes, event.seq, event.span) for event in events] == [("ranks 1,3", 16, 0, "pairs"), ("ranks 1,3", 16, 1, "pairs")]


@pytest.mark.live
def test_messages_are_sends_and_receives_that_pair_up(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        for i in range(2):
            if comm.rank == 0:
                dist.send(torch.ones(3 + i), 1, tag=7 * i)
            else:
                dist.recv(torch.empty(3 + i), 0, tag=7 * i)

    world = live_world(2)
    watched(world, step)
    found = [(m.send.rank, m.recv.rank, m.send.tag, m.send.nbytes, m.recv.nbytes) for m in world.trace.messages()]
    assert found == [(0, 1, "dist.message", 12, 12), (0, 1, "dist.message 7", 16, 16)]


@pytest.mark.live
def test_operations_of_single_tensors_lists_and_barriers(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        parts, x = [torch.ones(3) for _ in range(comm.size)], torch.ones(3 * comm.size)
        dist.reduce_scatter(torch.empty(3), parts)
        dist.reduce_scatter_single(torch.empty(3), x)
        dist.all_gather_single(torch.empty(3 * comm.size), torch.ones(3))
        dist.all_to_all([torch.empty(3) for _ in parts], parts)
        dist.all_to_all_single(torch.empty(3 * comm.size), x)
        dist.monitored_barrier()

    events = watched(live_world(2), step)
    sums = [("reduce_scatter", 24), ("reduce_scatter_single", 24)]
    assert names_and_bytes(events) == [*sums, ("all_gather_single", 12), ("all_to_all", 24), ("all_to_all_single", 24), ("monitored_barrier", 0)]
    assert all(event.end > event.start for event in events)


@pytest.mark.live
def test_of_a_sparse_tensor_indices_and_values_count(live_world: LiveWorld) -> None:
    """One number, 4 bytes, at one index, 8 bytes, of a thousand."""

    def step(comm: Any) -> None:
        dist.all_reduce(torch.sparse_coo_tensor(torch.tensor([[7]]), torch.ones(1), (1000,), check_invariants=True))

    assert names_and_bytes(watched(live_world(2), step)) == [("all_reduce", 12)]


@pytest.mark.live
def test_the_line_of_a_deprecated_function_is_the_caller_s(live_world: LiveWorld) -> None:
    """Its decorator stands between the call and torch."""

    def step(comm: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.all_gather_into_tensor(torch.empty(3 * comm.size), torch.ones(3))

    (event,) = watched(live_world(2), step)
    assert event.site.startswith("test_mode.py:")


@pytest.mark.live
def test_functions_made_of_several_operations_are_named(live_world: LiveWorld) -> None:
    """An object travels as its length, 8 bytes, and its pickle, of a size that is the same on both ranks here."""

    def step(comm: Any) -> None:
        objects: list[Any] = [None] * comm.size
        dist.all_gather_object(objects, "word")
        dist.broadcast_object_list(objects, 0)
        dist.gather_object("word", objects if comm.rank == 0 else None)
        dist.scatter_object_list([None], ["word"] * comm.size if comm.rank == 0 else None)

    events = watched(live_world(2), step)
    by_call: dict[str, list[str]] = {}
    for event in events:
        by_call.setdefault(event.span, []).append(event.tag.removeprefix("dist."))
    assert by_call["all_gather_object"] == ["all_gather", "all_gather"]
    assert by_call["broadcast_object_list"] == ["broadcast", "broadcast"]
    assert by_call["gather_object"] == ["all_gather", "gather"]
    assert by_call["scatter_object_list"] == ["broadcast", "scatter", "scatter"]
    assert len({event.site for event in events}) == 4


@pytest.mark.live
def test_groups_are_called_by_their_mesh_dim_their_description_or_their_ranks(world4: World) -> None:
    def step(comm: Any) -> None:
        from torch.distributed.tensor import init_device_mesh

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        mine = dist.new_group([0, 1, 2, 3], group_desc="mine")
        pairs = [dist.new_group([0, 3]), dist.new_group([1, 2])]
        for group in (mesh.get_group("dp"), mesh.get_group("tp"), mine, pairs[comm.rank in (1, 2)], None):
            dist.all_reduce(torch.ones(1), group=group)

    events = [event for event in watched(world4, step, rank=2) if event.tag == "dist.all_reduce"]
    assert [event.group for event in events] == ["dp", "tp", "mine", "ranks 1,2", ""]


# -- messages ----------------------------------------------------------------------------------------------------------------


@pytest.mark.live
def test_batched_messages_pair_up(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        other = 1 - comm.rank
        operations = [dist.P2POp(dist.isend, torch.ones(2), other), dist.P2POp(dist.irecv, torch.empty(2), other)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    world = live_world(2)
    watched(world, step)
    messages = world.trace.messages()
    assert sorted((m.send.rank, m.recv.rank, m.send.nbytes) for m in messages) == [(0, 1, 8), (1, 0, 8)]
    assert {(side.span, side.tag) for message in messages for side in message} == {("batch_isend_irecv", "dist.message")}


@pytest.mark.live
def test_a_receive_from_anybody_knows_in_the_end_who_it_was(world4: World) -> None:
    """Also in a group, where torch counts ranks from 0: here rank 1 of the group is rank 3 of the world."""

    def step(comm: Any) -> None:
        pair = dist.new_group([1, 3])
        for group in (None, pair):
            if comm.rank == 3:
                dist.send(torch.ones(5), 1, group=group)
            elif comm.rank == 1:
                dist.recv(torch.empty(5), group=group)

    watched(world4, step)
    messages = [message for message in world4.trace.messages() if message.send.tag == "dist.message"]
    assert [(m.send.rank, m.recv.rank, m.recv.peer, m.recv.group, m.recv.seq) for m in messages] == [(3, 1, 3, "", 0), (3, 1, 3, "ranks 1,3", 0)]


@pytest.mark.live
def test_a_message_lasts_until_it_has_been_waited_for(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        work = dist.isend(torch.ones(1), 1) if comm.rank == 0 else dist.irecv(torch.empty(1), 0)
        assert work is not None
        with comm.span("meanwhile"):
            pass
        work.wait()

    world = live_world(2)
    for event in watched(world, step, rank=None):
        (meanwhile,) = (e for e in world.trace.events if e.rank == event.rank and e.tag == "meanwhile")
        assert event.tag == "dist.message" and event.start < meanwhile.start and meanwhile.end < event.end


# -- when they end ---------------------------------------------------------------------------------------------------------


@pytest.mark.live
def test_an_asynchronous_operation_lasts_until_its_work_is_done(live_world: LiveWorld) -> None:
    """Rank 0 starts; rank 1 joins only after it has a message that rank 0 sends later. So the work ends after that message."""

    def step(comm: Any) -> None:
        if comm.rank == 1:
            comm.recv(torch.empty(1), 0, tag="now you")
        work = dist.all_reduce(torch.ones(1), async_op=True)
        if comm.rank == 0:
            comm.send(torch.ones(1), 1, tag="now you")
        work.wait()

    world = live_world(2)
    (operation,) = watched(world, step)
    (message,) = (event for event in world.trace.events if event.kind == "send" and event.tag == "now you")
    assert operation.start < message.start < operation.end


@pytest.mark.live
def test_a_functional_collective_lasts_until_its_result_is_used(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        result = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
        with comm.span("meanwhile"):
            pass
        assert (result + 1).tolist() == [3.0, 3.0, 3.0]

    world = live_world(2)
    (operation,) = watched(world, step)
    (meanwhile,) = (event for event in world.trace.events if event.rank == 0 and event.tag == "meanwhile")
    assert names_and_bytes([operation]) == [("all_reduce", 12)]
    assert operation.start < meanwhile.start and meanwhile.end < operation.end


@pytest.mark.live
def test_what_is_not_done_at_the_end_is_marked(live_world: LiveWorld) -> None:
    kept = []

    def step(comm: Any) -> None:
        kept.append(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD))

    assert [event.tag for event in watched(live_world(2), step)] == ["dist.all_reduce..."]


@pytest.mark.live
def test_an_operation_that_raises_is_marked(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        with pytest.raises(RuntimeError, match="expected length 2"):
            dist.all_gather([torch.empty(2)], torch.ones(2))  # a list for one rank, on two

    assert [event.tag for event in watched(live_world(2), step)] == ["dist.all_gather!"]


@pytest.mark.live
def test_after_the_watch_nothing_is_noted(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        with pk.watch():
            dist.barrier()
        dist.all_reduce(torch.ones(1))

    world = live_world(2)
    world.run(step)
    assert [event.tag for event in world.trace.events if event.rank == 0] == ["dist.barrier"]


@pytest.mark.live
def test_waiting_is_torch_s_own_again_after_the_watch_and_after_an_error_in_it(live_world: LiveWorld) -> None:
    def step(comm: Any) -> list[bool]:
        before, same = dist.Work.wait, []
        for problem in (None, ValueError("boom")):
            try:
                with pk.watch():
                    same.append(dist.Work.wait is before)
                    if problem is not None:
                        raise problem
            except ValueError:
                pass
            same.append(dist.Work.wait is before)
        return same

    assert live_world(2).run(step)[0] == [False, True, False, True]


def test_simulated_ranks_may_watch_and_see_nothing() -> None:
    """Their watches overlap in one process, and none leaves a trace in torch."""

    def step(comm: Any) -> tuple[int, str]:
        with pk.watch() as watching:
            pk.all_reduce(torch.ones(2), comm)
        return len(watching.events), repr(watching)

    before = dist.Work.wait
    with SimulatedWorld(3) as world:
        assert list(world.run(step)) == [(0, "no operation of torch.distributed and no collective")] * 3
    assert dist.Work.wait is before


@pytest.mark.live
def test_a_watch_inside_of_a_watch_is_refused_and_the_outer_one_goes_on(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        with pytest.raises(RuntimeError, match=r"pk\.watch\(\) inside of pk\.watch\(\): each operation would be noted twice"), pk.watch():
            pass
        dist.all_reduce(torch.ones(2))

    assert names_and_bytes(watched(live_world(2), step)) == [("all_reduce", 8)]


# -- the summary -------------------------------------------------------------------------------------------------------------


@pytest.mark.live
def test_the_summary_counts_what_this_rank_has_done_and_travels(live_world: LiveWorld) -> None:
    def step(comm: Any) -> Any:
        with pk.watch() as watching:
            for _ in range(3):
                dist.all_reduce(torch.ones(4))
        assert repr(watching) == repr(watching.summary())
        return watching.summary()

    world = live_world(2)
    (row,) = world.run(step)[1].rows
    assert (row.operation, row.ranks, row.calls, row.nbytes) == ("dist.all_reduce", (1,), 3, 48)
    (row,) = pk.operation_table(world.trace).rows
    assert (row.ranks, row.calls, row.nbytes, len(row.sites)) == ((0, 1), 6, 96, 1)
