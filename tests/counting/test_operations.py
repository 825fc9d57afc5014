"""FLOPs and bytes of operations, against counts by hand, and the time that they become."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import partkit as pk
from partkit.communicator import Communicator
from partkit.counting import cost_of
from partkit.virtual_time import Computation


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What every operation inside costs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.costs: list[tuple[str, Computation]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        cost = cost_of(func, args, kwargs or {}, result)
        if cost is not None:
            self.costs.append((func._opname, cost))
        return result


def test_a_linear_layer_costs_three_products_of_matrices() -> None:
    """n rows, k inputs, m outputs: 2nkm forward, 2nkm for the weight's gradient, 2nkm for the input's."""
    n, k, m = 3, 5, 7
    layer, x = torch.nn.Linear(k, m), torch.ones(n, k, requires_grad=True)
    with Ledger() as ledger:
        torch.autograd.backward(layer(x).sum())
    products = [(name, cost.flops) for name, cost in ledger.costs if name in ("addmm", "mm")]
    assert products == [("addmm", 2 * n * k * m), ("mm", 2 * n * k * m), ("mm", 2 * n * k * m)]
    forward = dict(ledger.costs)["addmm"]
    assert forward.nbytes == 4 * (m + n * k + k * m + n * m)


def test_a_convolution_costs_a_product_for_each_place() -> None:
    with Ledger() as ledger:
        torch.nn.Conv2d(3, 8, 3)(torch.ones(2, 3, 6, 6))
    assert dict(ledger.costs)["convolution"].flops == 2 * (3 * 3 * 3) * 8 * 4 * 4 * 2


@pytest.mark.parametrize(
    ("make", "flops", "nbytes", "dtype"),
    [
        (lambda x: x + x, 12, 2 * 48, "float32"),
        (lambda x: x.double(), 12, 48 + 96, "float64"),
        (lambda x: x.add_(1), 12, 48, "float32"),
        (lambda x: x.sum(), 1, 48 + 4, "float32"),
    ],
)
def test_other_operations_cost_one_for_each_element_and_touch_each_tensor_once(make: Any, flops: int, nbytes: int, dtype: str) -> None:
    with Ledger() as ledger:
        make(torch.ones(3, 4))
    assert ledger.costs[-1][1] == (flops, nbytes, dtype)


def test_views_and_unwritten_memory_cost_nothing() -> None:
    x = torch.ones(3, 4)
    with Ledger() as ledger:
        x.t(), x[1:], x.view(-1), torch.empty(1000), torch.empty_like(x), x.detach()
    assert ledger.costs == []


def test_counted_operations_take_the_time_of_the_rank_s_device() -> None:
    """A product of 10 x 10 matrices is 2000 FLOPs: rank 1's device needs twice as long."""
    devices = [pk.Device(2000.0, 1e9, 1e12), pk.Device(1000.0, 1e9, 1e12)]

    def product(comm: Communicator, x: torch.Tensor) -> float:
        x @ x
        pk.all_reduce(x, comm, algorithm="ring")
        return comm.now()

    with pk.SimulatedWorld(2, pk.Cluster(devices, pk.Link(0.0, float("inf"))), compute="counted") as world:
        assert world.run(product, torch.ones(10, 10))[0] >= 2.0
        products = [(e.rank, e.tag, e.end - e.start) for e in world.trace.events if e.tag.startswith("mm")]
        assert products == [(0, "mm [float32]", 1.0), (1, "mm [float32]", 2.0)]
        inside = [e for e in world.trace.events if e.kind == "compute" and "all_reduce" in e.span]
        assert inside == []


def test_backward_is_counted_too_and_replays() -> None:
    def step(comm: Communicator) -> None:
        layer = torch.nn.Linear(64, 64)
        torch.autograd.backward(layer(torch.ones(8, 64)).sum())

    with pk.SimulatedWorld(1, compute="counted") as world:
        world.run(step)
        seconds = {e.tag: e.end - e.start for e in world.trace.events}
        twice = world.trace.replay(pk.Cluster(pk.Device(25e9, 4e9, 5e9)))
    assert {"addmm [float32]", "mm [float32]"} <= seconds.keys()
    assert twice.makespan == pytest.approx(2 * world.trace.makespan)
