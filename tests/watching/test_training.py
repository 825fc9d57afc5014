"""pk.watch() sees training code that knows nothing of partkit: every collective of forward and backward."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

import partkit as pk
from partkit.figures.operations import phase
from partkit.tracing import Event
from partkit.worlds.world import World
from tests.watching.watched import LiveWorld, names_and_bytes, watched


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
    assert [(event.span, event.nbytes) for event in reductions] == [("step 0/backward", weights), ("step 1/backward", weights)]
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

    events = [event for event in watched(live_world(2), step) if event.tag == "dist.all_reduce" and event.span == "step 1/backward"]
    assert len(events) > 1 and sum(event.nbytes for event in events) == 8 * 256 * 256 * 4


def counts(events: list[Event], rank: int = 0) -> Counter[tuple[str, str, str, int]]:
    """How often each operation, group, phase and number of bytes."""
    return Counter((event.tag.removeprefix("dist."), event.group, phase(event.span), event.nbytes) for event in events if event.rank == rank)


@pytest.mark.live
def test_distributed_tensors(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

        mesh = init_device_mesh("cpu", (comm.size,))
        assert distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)]).sum().full_tensor().item() == 12

    assert names_and_bytes(watched(live_world(2), step)) == [("scatter", 24), ("all_reduce", 4)]


@pytest.mark.live
def test_fully_sharded_data_parallel(world4: World) -> None:
    """Two layers of 4 x 4 weights, 64 bytes each, in halves on two shards, copied on two replicas.

    A layer's weights are gathered for forward and, but for the last one's, which are still there, for backward again; its gradient is
    summed over the shards and, the half that is left, over the replicas.
    """

    def step(comm: Any) -> None:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import init_device_mesh

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
        net = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(2)))
        for layer in net:
            fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)(torch.ones(2, 4)).sum().backward()

    found = counts(watched(world4, step))
    assert found["all_gather_single", "shards", "forward", 32] == 2
    assert found["all_gather_single", "shards", "backward", 32] in (1, 2)  # whether the last layer's weights stay is torch's choice
    assert found["reduce_scatter_single", "shards", "backward", 64] == 2
    assert found["all_reduce", "replicas", "backward", 32] == 2
    assert {operation for operation, _, when, _ in found if when} == {"all_gather_single", "reduce_scatter_single", "all_reduce"}


@pytest.mark.live
def test_tensor_parallel(world4: World) -> None:
    """A column-parallel layer, then a row-parallel one: a sum of outputs in forward, one of inputs' gradients in backward."""

    def step(comm: Any) -> None:
        from torch.distributed.tensor import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        with comm.span("train"):
            net(torch.ones(3, 4, requires_grad=True)).sum().backward()

    events = [event for event in watched(world4, step) if event.span.startswith("train")]
    assert [(event.tag, event.group, event.span, event.nbytes) for event in events] == [
        ("dist.all_reduce", "tp", "train/forward", 48),
        ("dist.all_reduce", "tp", "train/backward", 48),
    ]
    assert len({event.site for event in events}) == 1


@pytest.mark.live
@pytest.mark.parametrize("name", ["ScheduleGPipe", "Schedule1F1B"])
def test_pipeline_stages(live_world: LiveWorld, name: str) -> None:
    """Two stages, three microbatches of 2 x 4 numbers: as many activations go on and gradients come back, each met on the other side."""

    def step(comm: Any) -> None:
        from torch.distributed import pipelining
        from torch.distributed.tensor import init_device_mesh

        mesh = init_device_mesh("cpu", (comm.size,), mesh_dim_names=("pp",))
        stage = pipelining.PipelineStage(nn.Linear(4, 4), comm.rank, comm.size, torch.device("cpu"), group=mesh.get_group())
        schedule = getattr(pipelining, name)(stage, n_microbatches=3, loss_fn=nn.functional.mse_loss)
        for i in range(2):
            with comm.span(f"step {i}"):
                schedule.step(*([torch.ones(6, 4)] if comm.rank == 0 else []), **({"target": torch.ones(6, 4)} if comm.rank == 1 else {}))

    world = live_world(2)
    events = watched(world, step, rank=None)
    messages = [message for message in world.trace.messages() if message.send.span.startswith("step 1")]  # the first step also tells shapes
    assert Counter((m.send.rank, m.recv.rank, m.send.nbytes, m.recv.nbytes) for m in messages) == {(0, 1, 32, 32): 3, (1, 0, 32, 32): 3}
    assert len(world.trace.messages()) == world.trace.num_messages() and {event.tag for event in events} == {"dist.message"}


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
