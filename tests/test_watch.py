"""pk.watch() sees what torch.distributed does: which operations, how many bytes, in which group, from which line, how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

import partkit as pk
from partkit.tracing import Event
from partkit.watching import OPERATIONS, WAIT
from partkit.worlds.world import World

LiveWorld = Callable[[int], World]


def watched(world: World, fn: Callable[..., Any], rank: int = 0) -> list[Event]:
    """What a rank's torch.distributed did while ``fn(comm)`` ran under watch."""

    def run(comm: Any) -> None:
        with pk.watch():
            fn(comm)

    world.run(run)
    return [event for event in world.trace.events if event.rank == rank and event.tag.startswith("dist.")]


def names_and_bytes(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.tag.removeprefix("dist."), event.nbytes) for event in events]


# -- the table -----------------------------------------------------------------------------------------------------------

NOT_COMMUNICATION = {"c10d.check_for_nan", "_c10d_functional._wrap_tensor_autograd", WAIT}
MADE_OF_OTHERS = {"_c10d_functional.isend", "_c10d_functional.irecv", "_c10d_functional.batch_p2p_ops"}
"""Only compiled code uses these."""


def test_the_table_has_every_operator_of_this_torch_with_its_payload() -> None:
    schemas = {s.name.replace("::", "."): s for s in torch._C._jit_get_all_schemas() if s.name.startswith(("c10d::", "_c10d_functional::"))}
    assert schemas.keys() - OPERATIONS.keys() <= NOT_COMMUNICATION | MADE_OF_OTHERS
    for name, operation in OPERATIONS.items():
        arguments = {a.name for a in schemas[name].arguments}
        assert not operation.payload or operation.payload in arguments, name
        assert {"process_group", "group_name"} & arguments, name


def test_outside_of_a_rank_it_says_where_it_belongs() -> None:
    with pytest.raises(RuntimeError, match=r"use it inside a function that a world runs"):
        pk.watch()


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
    assert {(event.kind, event.group, event.site.split(":")[0]) for event in events} == {("collective", "", "test_watch.py")}
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
def test_after_the_watch_nothing_is_noted(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        with pk.watch():
            dist.barrier()
        dist.all_reduce(torch.ones(1))

    world = live_world(2)
    world.run(step)
    assert [event.tag for event in world.trace.events if event.rank == 0] == ["dist.barrier"]


# -- training code that knows nothing of partkit -----------------------------------------------------------------------------


def make_net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(10, 20), nn.Linear(20, 5))


@pytest.mark.live
@pytest.mark.parametrize("size", [2, 4])
def test_DistributedDataParallel(live_world: LiveWorld, size: int) -> None:
    """The replicas are made equal by broadcasts of all parameters; each backward all-reduces all gradients once."""

    def step(comm: Any) -> None:
        model = nn.parallel.DistributedDataParallel(make_net())
        for i in range(2):
            with comm.span(f"step {i}"):
                model(torch.ones(3, 10)).sum().backward()

    events = watched(live_world(size), step)
    weights = sum(p.numel() * 4 for p in make_net().parameters())
    assert sum(event.nbytes for event in events if event.tag == "dist.broadcast" and not event.span) >= weights
    reductions = [event for event in events if event.tag == "dist.all_reduce"]
    assert [(event.span, event.nbytes) for event in reductions] == [("step 0", weights), ("step 1", weights)]
    assert all(event.end > event.start for event in reductions)


@pytest.mark.live
def test_DistributedDataParallel_in_buckets(live_world: LiveWorld) -> None:
    """In the second step buckets are rebuilt with the given limit: 2 MB of gradients, a bucket of 1 MB and one of the rest."""

    def step(comm: Any) -> None:
        net = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(8)))
        model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
        for i in range(2):
            with comm.span(f"step {i}"):
                model(torch.ones(3, 256)).sum().backward()

    events = [event for event in watched(live_world(2), step) if event.tag == "dist.all_reduce" and event.span == "step 1"]
    assert len(events) > 1 and sum(event.nbytes for event in events) == 8 * 256 * 256 * 4


@pytest.mark.live
def test_fully_sharded_and_distributed_tensors(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

        mesh = init_device_mesh("cpu", (comm.size,))
        with comm.span("tensor"):
            assert distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)]).sum().full_tensor().item() == 12
        net = fully_shard(nn.Linear(4, 4, bias=False), mesh=mesh)
        with comm.span("fsdp"):
            net(torch.ones(2, 4)).sum().backward()

    events = watched(live_world(2), step)
    assert [(event.tag, event.nbytes) for event in events if event.span == "tensor"] == [("dist.scatter", 24), ("dist.all_reduce", 4)]
    sharded = [(event.tag, event.nbytes) for event in events if event.span == "fsdp"]
    assert (sharded[0], sharded[-1]) == (("dist.all_gather_single", 32), ("dist.reduce_scatter_single", 64))


@pytest.mark.live
def test_partkits_own_collectives_are_noted_once(live_world: LiveWorld) -> None:
    """They do not go through torch.distributed's operators, watch or no watch."""

    def step(comm: Any) -> None:
        with pk.watch():
            pk.all_reduce(torch.ones(4), comm, algorithm="native")
            pk.all_reduce(torch.ones(4), comm, algorithm="ring")

    world = live_world(2)
    world.run(step)
    tags = [event.tag for event in world.trace.events if event.rank == 0 and event.kind == "collective"]
    assert tags == ["all_reduce[sum, native]", "all_reduce[sum, ring]"]
