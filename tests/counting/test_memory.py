"""Live tensors by what they are for, against counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

import partkit as pk
from partkit.communicator import Communicator
from partkit.counting import Memory, Use
from partkit.worlds.errors import RankError
from partkit.worlds.world import World

Held = dict[Use, int]
NAMES: tuple[Use, ...] = ("parameters", "buffers", "gradients", "optimizer state", "activations", "other")


def training_step(comm: Communicator) -> list[Held]:
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


def check(seen: list[Held]) -> None:
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
        assert {f"memory: {name}" for name in NAMES} < noted
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


WIDTHS = (20, 64, 64, 10)
"""Of a small MLP: Linear, ReLU, Linear, ReLU, Linear."""
ROWS = 16
N = sum(i * o + o for i, o in pairwise(WIDTHS))
KEPT = 4 * ROWS * (20 + 64 + 64)
"""What the backward of each Linear needs: its input, which for the second and third is what the ReLU before keeps too."""


def mlp_step(comm: Communicator, device: str = "cpu") -> dict[str, Held]:
    """One step of Adam on an MLP; what is held after each part."""
    layers: list[torch.nn.Module] = []
    for i, o in pairwise(WIDTHS):
        layers += [torch.nn.Linear(i, o, device=device), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters())
    seen: dict[str, Held] = {}
    with Memory(comm, model, optimizer) as memory:
        with comm.span("forward"):
            x = torch.ones(ROWS, WIDTHS[0], device=device)
            loss = model(x).sum()
        seen["forward"] = dict(memory.held)
        with comm.span("backward"):
            torch.autograd.backward(loss)
        seen["backward"] = dict(memory.held)
        with comm.span("step"):
            optimizer.step()
        seen["step"] = dict(memory.held)
    seen["peak"] = memory.peak
    return seen


def check_mlp(seen: dict[str, Held]) -> None:
    parts = {part: {use: nbytes for use, nbytes in held.items() if nbytes} for part, held in seen.items() if part != "peak"}
    loss, batch, counters = 4, 4 * ROWS * WIDTHS[0], 4 * 6
    assert parts["forward"] == {"parameters": 4 * N, "activations": KEPT, "other": loss}
    assert parts["backward"] == {"parameters": 4 * N, "gradients": 4 * N, "other": loss + batch}  # nobody keeps the batch but us
    assert parts["step"] == {"parameters": 4 * N, "gradients": 4 * N, "optimizer state": 8 * N + counters, "other": loss + batch}
    assert sum(seen["peak"].values()) >= 16 * N


def test_an_mlp_with_adam_holds_4n_4n_8n_and_its_activations_exactly() -> None:
    with pk.SimulatedWorld(2) as world:
        for seen in world.run(mlp_step):
            check_mlp(seen)


@pytest.mark.live
def test_both_worlds_write_the_same_account(live_world: Callable[[int], World]) -> None:
    """Every change of every use, in the same order, with the same span and line; and what filled the peak."""

    def story(world: World | pk.SimulatedWorld) -> list[tuple[str, float, str, str]]:
        for seen in world.run(mlp_step):
            check_mlp(seen)
        return [(e.tag, e.value, e.span, e.site) for e in world.trace.events if e.kind == "metric" and e.rank == 1]

    with pk.SimulatedWorld(2) as simulated:
        expected = story(simulated)
    assert story(live_world(2)) == expected
    assert expected[0][:2] == ("memory: cap", pk.Cluster().device_of(0).memory)
    assert ("memory: at the peak: parameters: 1 x float32[64, 64]", 4.0 * 64 * 64) in [row[:2] for row in expected]


def test_without_numbers_the_account_is_the_same() -> None:
    with pk.SimulatedWorld(2, numbers=False) as world:
        for seen in world.run(mlp_step, "meta"):
            check_mlp(seen)


def test_what_the_backward_of_a_graph_that_is_dropped_would_have_needed_is_no_activation_any_more() -> None:
    def drop(comm: Communicator) -> list[int]:
        weight = torch.ones(10, 10, requires_grad=True)
        with Memory(comm) as memory:
            x = torch.ones(5, 10)
            y = x @ weight
            seen = [memory.held["activations"], memory.held["other"]]
            del y
            return [*seen, memory.held["activations"], memory.held["other"]]

    with pk.SimulatedWorld(1) as world:  # the weight is not kept: x needs no gradient
        assert world.run(drop)[0] == [200, 200, 0, 200]


def test_modules_made_inside_can_be_told_apart_too() -> None:
    def inside(comm: Communicator) -> tuple[int, int]:
        with Memory(comm) as memory:
            layer = torch.nn.Linear(10, 10)
            before = memory.held["parameters"]
            memory.track(layer)
            return before, memory.held["parameters"]

    with pk.SimulatedWorld(1) as world:
        assert world.run(inside)[0] == (0, 440)


def test_gradients_put_in_place_by_hand_and_the_state_of_a_first_step_are_told_apart() -> None:
    """As after an all-reduce that gives a new tensor. The peak is within the step, among Adam's intermediate results."""

    def step(comm: Communicator) -> Held:
        layer = torch.nn.Linear(10, 10, bias=False)
        optimizer = torch.optim.Adam(layer.parameters())
        with Memory(comm, layer, optimizer) as memory:
            layer.weight.grad = torch.ones(10, 10)
            optimizer.step()
        return memory.peak

    with pk.SimulatedWorld(1) as world:
        peak = world.run(step)[0]
    assert (peak["parameters"], peak["gradients"], peak["optimizer state"]) == (400, 400, 800 + 4)
    assert peak["other"] >= 400


def test_what_filled_the_peak_is_told_and_not_what_is_left_in_the_end() -> None:
    def rise_and_fall(comm: Communicator) -> None:
        with Memory(comm, cap=None):
            large = torch.ones(1000)
            del large
            small = torch.ones(10)
        del small

    with pk.SimulatedWorld(1) as world:
        world.run(rise_and_fall)
        assert {e.tag for e in world.trace.events if "at the peak" in e.tag} == {"memory: at the peak: other: 1 x float32[1000]"}


def test_owners_that_are_none_are_refused() -> None:
    def wrong(comm: Communicator) -> None:
        with Memory(comm, [torch.nn.Linear(2, 2)]):  # type: ignore[arg-type]
            pass

    def late(comm: Communicator) -> None:
        Memory(comm).track(torch.nn.Linear(2, 2))

    with pk.SimulatedWorld(1) as world:
        with pytest.raises(RankError, match=r"an owner of tensors is a torch.nn.Module or a torch.optim.Optimizer; this is a list"):
            world.run(wrong)
        with pytest.raises(RankError, match=r"the account is open inside `with Memory"):
            world.run(late)


def test_a_second_account_in_a_run_tells_everything_anew() -> None:
    def twice(comm: Communicator) -> None:
        for _ in range(2):
            with Memory(comm, cap=None):
                x = torch.ones(25)
            del x

    with pk.SimulatedWorld(1) as world:
        world.run(twice)
        assert world.trace.metric("memory: other") == [0, 100, 100, 0, 100, 100]


def test_a_full_device_says_what_does_not_fit_and_what_fills_it() -> None:
    def fill(comm: Communicator) -> None:
        model = torch.nn.Linear(1000, 1000)
        with Memory(comm, model):
            x = torch.ones(500, 1000)
            for _ in range(3):
                x = model(x)

    cluster = pk.Cluster(pk.Device(1e9, memory=11e6, memory_bandwidth=1e9, name="small"))
    with pk.SimulatedWorld(1, cluster) as world, pytest.raises(RankError) as caught:
        world.run(fill)
    line, head, held, *rows = str(caught.value.args[0]).splitlines()[0:1] + str(caught.value.args[0]).splitlines()
    assert line == head and head.startswith("rank 0: ")
    assert head.endswith("out of memory: addmm makes float32[500, 1000] of 2 MB, but of the 11 MB of the device (small) only 996 kB are left")
    assert held == "held are 10 MB: parameters 4 MB, activations 6 MB; the largest, and where they were made:"
    assert [row.split("  File")[0].split() for row in rows] == [
        ["4", "MB", "parameters", "float32[1000,", "1000]"],
        ["4", "MB", "activations", "2", "x", "float32[500,", "1000]"],
        ["2", "MB", "activations", "float32[500,", "1000]"],
        ["4", "kB", "parameters", "float32[1000]"],
    ]
    assert all("test_memory.py" in row for row in rows)
    assert max(world.trace.metric("memory: activations")) == 6e6  # the account of the failed run is there to look at


def test_memory_may_run_out_in_the_backward_too() -> None:
    def fill(comm: Communicator) -> None:
        model = torch.nn.Linear(1000, 1000)
        with Memory(comm, model, cap=7e6):
            torch.autograd.backward(model(torch.ones(1, 1000)).sum())

    with (
        pk.SimulatedWorld(1) as world,
        pytest.raises(RankError, match=r"out of memory: \w+ makes float32\[1000, 1000\] of 4 MB, but of the 7 MB of the cap only"),
    ):
        world.run(fill)


def test_no_cap_is_no_cap() -> None:
    def big(comm: Communicator) -> int:
        with Memory(comm, cap=None) as memory:
            torch.ones(3000)
        return memory.peak["other"]

    with pk.SimulatedWorld(1, pk.Cluster(pk.Device(1e9, memory=1.0, memory_bandwidth=1e9))) as world:
        assert world.run(big)[0] == 12000
