"""Backward in two halves gives what one backward gives, whatever the graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from partkit.pipeline_parallel.execution.halves import Halves


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, dtype=torch.float64))


def check(function: Callable[[Tensor], Tensor], weights: list[nn.Parameter], x: Tensor) -> None:
    """I gives the gradient of x alone, W those of the weights, and a weight that is not used gets none."""
    y = function(x)
    gradient = torch.randn_like(y)
    right = torch.autograd.grad([y], [x, *weights], [gradient], allow_unused=True)
    halves = Halves([function(x)], [gradient], [x])
    (of_x,) = halves.of_inputs()
    assert all(weight.grad is None for weight in weights)
    halves.of_weights()
    assert x.grad is None
    torch.testing.assert_close(of_x, right[0], rtol=1e-12, atol=1e-14)
    for weight, expected in zip(weights, right[1:], strict=True):
        torch.testing.assert_close(weight.grad, expected, rtol=1e-12, atol=1e-14) if expected is not None else None
        assert (weight.grad is None) == (expected is None)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)),
        nn.LSTM(4, 4, 2),
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
        nn.Sequential(nn.Conv1d(5, 5, 3, padding=1), nn.BatchNorm1d(5)),
    ],
    ids=lambda module: type(module).__name__,
)
def test_modules(module: nn.Module) -> None:
    x = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    module.double()
    check(lambda x: y if isinstance(y := module(x), Tensor) else y[0], list(module.parameters()), x)


def test_weights_used_in_ways_that_tempt_to_count_twice() -> None:
    w, unused, x = parameter(3), parameter(3), torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    for function in (
        lambda x: (x * w).tanh() * w,
        lambda x: torch.addcmul(x, w, 2 * w) * x,
        lambda x: torch.addcmul(x * w, w, x) * w + w,
        lambda x: x * 2,
    ):
        w.grad = None
        check(function, [w, unused], x)


def test_a_layer_used_twice() -> None:
    layer, x = nn.Linear(3, 3).double(), torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    check(lambda x: layer(layer(x).tanh()), list(layer.parameters()), x)


def test_case_P10_a_weight_cut_in_two() -> None:
    weight = nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    x = torch.ones(1, 2, requires_grad=True)
    a, b = torch.chunk(weight * 1, 2)
    halves = Halves([(x * a).sum() + 3 * (x * b).sum()], [torch.ones(())], [x])
    (gradient,) = halves.of_inputs()
    assert gradient is not None and gradient.tolist() == [[10.0, 14.0]] and weight.grad is None
    halves.of_weights()
    assert weight.grad is not None and weight.grad.tolist() == [[1.0, 1.0], [3.0, 3.0]]


def test_each_product_is_made_once() -> None:
    """Matrix products of forward, I and W of two layers: 2, 2 and 2, as many as one backward makes."""
    from torch.utils.flop_counter import FlopCounterMode

    layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    x = torch.randn(2, 8, requires_grad=True)
    y = layers(x)
    halves = Halves([y], [torch.ones_like(y)], [x])
    counts = []
    for half in (halves.of_inputs, halves.of_weights):
        with FlopCounterMode(display=False) as counter:
            half()
        counts.append(counter.get_total_flops())
    assert counts == [2 * 2 * 2 * 8 * 8] * 2


def test_without_inputs_all_is_left_for_the_second_half() -> None:
    layer = nn.Linear(2, 1)
    y = layer(torch.ones(3, 2))
    halves = Halves([y], [torch.ones_like(y)], [])
    assert halves.of_inputs() == () and layer.weight.grad is None
    halves.of_weights()
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[3.0, 3.0]]


def test_hooks_on_tensors_count_once() -> None:
    """Such as change gradients by more than a factor, on weights used once and twice, and on activations in front of such layers."""
    once, twice, x = nn.Linear(3, 3).double(), nn.Linear(3, 3).double(), torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    seen: list[str] = []
    for layer in (once, twice):
        for name, weight in layer.named_parameters():
            weight.register_hook(lambda g, name=name: (seen.append(name), g**3 + 1)[1])

    def function(x: Tensor) -> Tensor:
        y = once(twice(x).tanh())
        y.register_hook(lambda g: (seen.append("y"), g**2)[1])
        z: Tensor = twice(y)
        z.register_hook(lambda g: (seen.append("z"), g.clamp(-0.1, 0.1))[1])
        return z * z

    check(function, [*once.parameters(), *twice.parameters()], x)
    assert sorted(seen) == ["bias"] * 4 + ["weight"] * 4 + ["y"] * 3 + ["z"] * 3  # y and z again in W, to no effect


def test_what_is_dropped_between_the_halves_is_gone() -> None:
    """A step that fails elsewhere leaves no graph behind, hooks of I or not."""
    layer, x = nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    inside = layer(x).exp()
    alive = weakref.ref(inside.untyped_storage())
    y = layer(inside)
    halves = Halves([y], [torch.ones_like(y)], [x])
    halves.of_inputs()
    del halves, y, inside
    assert alive() is None
