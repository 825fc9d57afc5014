"""Models and training loops that the tests of pipelines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import SCHEDULES
from partkit.serial_twin import Note

TRAINING = tuple(name for name in SCHEDULES if name != "forward_only")


def pipe(num_layers: int) -> nn.Sequential:
    """The model of the cases: layers Linear(1, 1) without bias, weight 2."""
    net = nn.Sequential(*[nn.Linear(1, 1, bias=False) for _ in range(num_layers)]).double()
    for parameter in net.parameters():
        nn.init.constant_(parameter, 2.0)
    return net


def rows(n: int) -> Tensor:
    """(n, 1): 1 to n."""
    return torch.arange(1.0, n + 1, dtype=torch.float64).reshape(-1, 1)


def square(output: Tensor, target: Tensor | None) -> Tensor:
    """The loss of the cases: mean of squares, or of squared differences."""
    return (output if target is None else output - target).square().mean()


def deep(num_layers: int = 8) -> nn.Sequential:
    """Layers with weights, biases, and something between; a frozen one among them, and one without parameters."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(num_layers)]
    layers[1].requires_grad_(False)
    layers[2] = nn.Tanh()
    return nn.Sequential(*layers).double()


X = torch.randn(11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def serial(note: Note, make: Callable[[], nn.Module] = deep, **_: Any) -> None:
    """Two steps of SGD with momentum in one process."""
    net = make()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(2):
        optimizer.zero_grad()
        loss = F.mse_loss(net(X), Y)
        loss.backward()
        optimizer.step()
        note(step, loss=loss, model=net)


def train(comm: pk.Communicator, note: Any, make: Callable[[], nn.Module], settings: dict[str, Any]) -> None:
    """The same on ranks."""
    model = pk.PipelineParallel(make(), comm, loss=F.mse_loss, **settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(2):
        optimizer.zero_grad()
        found = model.step(X, target=Y)
        optimizer.step()
        note(step, loss=found.loss, model=dict(model.module.named_parameters()))


def same(world: Any, make: Callable[[], nn.Module] = deep, **settings: Any) -> Any:
    """The report of `pk.same_as_serial` on those two loops."""
    return pk.same_as_serial(world, lambda comm, note: train(comm, note, make, settings), lambda note: serial(note, make), loss="sum", tolerance=1e-9)
