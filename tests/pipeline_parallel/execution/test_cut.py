"""Cutting: sequences by name and number, other modules along their graph; a model in pieces computes what it computed whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel.execution.cut import cut_module
from partkit.worlds.world import World
from tests.pipeline_parallel.execution.models import deep, pipe, rows, square


def names(cut: Any) -> list[list[str]]:
    return [[name for name, _ in piece.module.named_parameters()] for piece in cut.stages]


def test_children_keep_their_names() -> None:
    assert names(cut_module(deep(4), 2, ["1"])) == [["0.0.weight", "0.0.bias"], ["1.0.weight", "1.0.bias", "3.0.weight", "3.0.bias"]]


@pytest.mark.parametrize(
    ("num_stages", "cut", "words"),
    [
        (5, None, "4 layers can't be cut in 5 stages: each needs at least one"),
        (3, [1], "cut=[1] makes 2 stages, but the schedule has 3: name 2 places"),
        (2, [0], "stages begin at layers [0]; these must rise, and the first stage begins at layer 0"),
        (3, ["2", "1"], "stages begin at layers [2, 1]; these must rise"),
        (2, ["x"], "there is no layer 'x'; there are 0, 1, 2, 3"),
    ],
)
def test_sequences_that_can_not_be_cut_so(num_stages: int, cut: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        cut_module(deep(4), num_stages, cut)


def test_lists() -> None:
    with pytest.raises(ValueError, match="2 modules were given, but the schedule has 3 stages"):
        cut_module([nn.Identity(), nn.Identity()], 3)
    with pytest.raises(ValueError, match="leave cut away"):
        cut_module(nn.ModuleList([nn.Identity()]), 1, ["0"])


class Skip(nn.Module):
    """y = w2 (w1 h) + h with h = w0 x: the first result skips a stage."""

    def __init__(self) -> None:
        super().__init__()
        self.w0, self.w1, self.w2 = pipe(3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.w0(x)
        y: Tensor = self.w2(self.w1(h)) + h
        return y


@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_h1", "gpipe"])
def test_case_P08_skip_over_a_stage(live_world: Callable[[int], World], schedule: str) -> None:
    def step(comm: Any) -> Any:
        model = pk.PipelineParallel(Skip(), comm, loss=square, cut=["w1", "w2"], schedule=schedule, num_microbatches=2)
        return model.step(rows(4)).loss, {name: float(p.grad) for name, p in model.module.named_parameters() if p.grad is not None}

    world = live_world(3)
    found = list(world.run(step))
    assert found == [(None, {"w0.weight": 750.0}), (None, {"w1.weight": 600.0}), (torch.tensor(750.0, dtype=torch.float64), {"w2.weight": 600.0})]
    passed = [event.tag for event in world.trace.events if event.kind == "send" and event.tag.startswith("1SEND_F")]
    assert sorted(passed) == ["1SEND_F0", "1SEND_F0.1", "1SEND_F1", "1SEND_F1.1"]


class Block(nn.Module):
    """A block of a transformer, nearly: two branches, a mask, a parameter of its own, and decisions that no tracer can follow."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.branch = nn.ModuleList([Careful(width), nn.Linear(width, width)])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.branch:
            x = x + layer(x * self.scale) * mask
        return x


class Careful(nn.Module):
    """Looks at numbers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y.tanh() if float(y.detach().abs().max()) < 1e6 else y


class Language(nn.Module):
    """Embedding, blocks, tied head."""

    def __init__(self, *, tied: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(7, 4)
        self.blocks = nn.ModuleList(Block(4) for _ in range(3))
        self.head = nn.Linear(4, 7, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        self.double()

    def forward(self, tokens: Tensor, mask: Tensor, *, shift: float = 0.0) -> Tensor:
        x = first = self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask)
        logits: Tensor = self.head(x + first) + shift
        return logits


TOKENS = torch.arange(15).reshape(5, 3) % 7
MASK = (torch.arange(15).reshape(5, 3, 1) % 3 > 0).double()


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


@pytest.mark.parametrize("cut", [["blocks.1", "head"], ["blocks.0.branch.1", "blocks.2.branch.0"], None], ids=repr)
@pytest.mark.parametrize("schedule", ["one_f_one_b", "zb_h1"])
def test_along_the_graph_at_several_levels(cut: list[str] | None, schedule: str) -> None:
    """A skip over all stages, a tied head, arguments by position and by name, and blocks cut in the middle."""

    def steps(note: Any, model: Any, parameters: Any, step: Callable[[], Any]) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for number in range(2):
            optimizer.zero_grad()
            loss = step()
            optimizer.step()
            note(number, loss=loss, model=parameters())

    def serial(note: Any) -> None:
        net = Language()

        def step() -> Tensor:
            loss = cross_entropy(net(TOKENS, MASK, shift=0.5), TOKENS)
            loss.backward()
            return loss

        steps(note, net, lambda: net, step)

    def parallel(comm: Any, note: Any) -> None:
        net = pk.PipelineParallel(Language(), comm, loss=cross_entropy, cut=cut, schedule=schedule, num_microbatches=5)
        steps(note, net, lambda: names_of_serial(net.module), lambda: net.step(TOKENS, mask=MASK, shift=0.5, target=TOKENS).loss)

    with pk.SimulatedWorld(3) as world:
        report = pk.same_as_serial(world, parallel, serial, loss="sum", tolerance=1e-9)
    assert report, str(report)


def names_of_serial(part: nn.Module) -> dict[str, nn.Parameter]:
    """One process calls the tied weight by its first name."""
    return {name.replace("head.weight", "embed.weight"): parameter for name, parameter in part.named_parameters()}


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (["blocks.1", "nose"], "there is no submodule 'nose'; there are embed, blocks, blocks.0"),
        (["head", "blocks.1"], "give places in the order in which they are called: ['blocks.1', 'head']"),
        (["blocks", "head"], "'blocks' is never called by itself"),
        (
            ["blocks.0.branch.0.layer", "head"],
            "torch.fx can't follow the forward of Language into blocks, blocks.0, blocks.0.branch, blocks.0.branch.0: float() argument",
        ),
    ],
)
def test_graphs_that_can_not_be_cut_so(cut: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        cut_module(Language(), 3, cut)


def test_parts_of_all_ranks_are_the_whole() -> None:
    def part(comm: Any) -> dict[str, Tensor]:
        model = pk.PipelineParallel(
            Language(tied=False), comm, loss=cross_entropy, cut=["blocks.0", "blocks.1", "blocks.2"], schedule="interleaved", num_microbatches=2
        )
        return dict(model.module.state_dict())

    with pk.SimulatedWorld(2) as world:
        first, second = world.run(part)
    whole = Language(tied=False).state_dict()
    assert first.keys() | second.keys() == whole.keys() and not first.keys() & second.keys()
    torch.testing.assert_close({**first, **second}, dict(whole), rtol=0, atol=0)
