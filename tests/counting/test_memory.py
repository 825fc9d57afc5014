"""Live tensors by what they are for, against counts by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import partkit as pk
from partkit.communicator import Communicator
from partkit.counting import Memory
from partkit.worlds.errors import RankError
from partkit.worlds.world import World

NAMES = ("parameters", "buffers", "gradients", "optimizer state", "activations", "other")


def training_step(comm: Communicator) -> list[dict[str, int]]:
    """Linear 100 -> 50 and BatchNorm on 8 rows, with Adam: what is held before, after forward, after backward, after the step."""
    model = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.BatchNorm1d(50))
    optimizer = torch.optim.Adam(model.parameters())
    seen = []
    with Memory(comm, model, optimizer) as memory:
        seen.append(dict(memory.held))
        loss = model(torch.ones(8, 100)).sum()
        seen.append(dict(memory.held))
        torch.autograd.backward(loss)
        seen.append(dict(memory.held))
        optimizer.step()
        seen.append(dict(memory.held))
        del loss
        model.zero_grad()
        seen.append(dict(memory.held))
    return seen


WEIGHTS = 4 * (100 * 50 + 50 + 2 * 50)
BUFFERS = 4 * (50 + 50) + 8
ACTIVATIONS = 4 * (8 * 100 + 8 * 50 + 2 * 50)
"""The input of each layer; batch norm's mean and deviation of the batch."""


def check(seen: list[dict[str, int]]) -> None:
    before, forward, backward, step, cleared = ([held[name] for name in NAMES] for held in seen)
    assert before == [WEIGHTS, BUFFERS, 0, 0, 0, 0]
    assert forward[:5] == [WEIGHTS, BUFFERS, 0, 0, ACTIVATIONS]
    assert backward[:5] == [WEIGHTS, BUFFERS, WEIGHTS, 0, 0]
    assert step[:4] == [WEIGHTS, BUFFERS, WEIGHTS, 2 * WEIGHTS + 4 * 4]
    assert cleared == [WEIGHTS, BUFFERS, 0, 2 * WEIGHTS + 4 * 4, 0, 0]


def test_a_training_step_holds_what_a_count_by_hand_says() -> None:
    with pk.SimulatedWorld(2) as world:
        for seen in world.run(training_step):
            check(seen)
        noted = {e.tag for e in world.trace.events if e.kind == "metric"}
        assert noted == {f"memory: {name}" for name in NAMES}
        assert max(world.trace.metric("memory: gradients", rank=1)) == WEIGHTS


@pytest.mark.live
def test_live_ranks_give_the_same_account(live_world: Callable[[int], World]) -> None:
    world = live_world(2)
    for seen in world.run(training_step):
        check(seen)
    assert world.trace.metric("memory: activations", rank=0)[-1] == 0


def test_views_hold_nothing_and_what_dies_is_not_counted() -> None:
    def views(comm: Communicator) -> list[int]:
        with Memory(comm) as memory:
            x = torch.ones(1000)
            y = x[10:].view(2, 495)
            seen = [memory.held["other"]]
            del x
            seen.append(memory.held["other"])
            del y
            seen.append(memory.held["other"])
            return [*seen, memory.peak["other"]]

    with pk.SimulatedWorld(1) as world:
        assert world.run(views)[0] == [4000, 4000, 0, 4000]


def test_a_full_device_says_what_fills_it() -> None:
    def fill(comm: Communicator) -> None:
        model = torch.nn.Linear(1000, 1000)
        with Memory(comm, model):
            x = torch.ones(500, 1000)
            for _ in range(3):
                x = model(x)

    cluster = pk.Cluster(pk.Device(1e9, memory=11e6, memory_bandwidth=1e9))
    with pk.SimulatedWorld(1, cluster) as world, pytest.raises(RankError) as caught:
        world.run(fill)
    text = str(caught.value)
    assert "12.0 MB of tensors on a device of 11.0 MB: parameters 4.0 MB, activations 6.0 MB, other 2.0 MB; the largest:" in text
    assert "4.0 MB  parameters: float32[1000, 1000]" in text and "test_memory.py" in text


def test_no_cap_is_no_cap() -> None:
    def big(comm: Communicator) -> int:
        with Memory(comm, cap=None) as memory:
            torch.ones(3000)
        return memory.peak["other"]

    with pk.SimulatedWorld(1, pk.Cluster(pk.Device(1e9, memory=1.0, memory_bandwidth=1e9))) as world:
        assert world.run(big)[0] == 12000
