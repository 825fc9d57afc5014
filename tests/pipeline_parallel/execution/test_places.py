"""Cutting a model that nobody has prepared: what crosses a cut, where the cuts go, and what is said if there are none."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel.execution import Balanced, measure
from partkit.pipeline_parallel.execution.cut import cut_module
from partkit.pipeline_parallel.execution.places import places
from partkit.pipeline_parallel.execution.weighing import count
from partkit.worlds.errors import RankError


class Block(nn.Module):
    """A residual block with a buffer that moves."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.BatchNorm1d(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: Tensor, length: int) -> Tensor:
        y = self.norm(x.flatten(0, 1)).view(-1, length, x.shape[-1])
        return x + self.down(torch.tanh(self.up(y)))


class Gpt(nn.Module):
    """As people write them: a shape unpacked, an assertion, a table sliced, options, a skip, a tied head, several inputs and outputs."""

    def __init__(self, num_blocks: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.limit = 8
        self.embed = nn.Embedding(7, 4)
        self.positions = nn.Parameter(torch.randn(8, 4))
        self.register_buffer("table", torch.randn(8, 4))
        self.blocks = nn.ModuleList(Block(4) for _ in range(num_blocks))
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor, weights: Tensor, mask: Tensor | None = None, scale: float = 1.0, return_hidden: bool = False) -> Any:
        _rows, length = tokens.shape
        assert length <= self.limit, "too long"
        first = self.embed(tokens) + self.positions[:length]
        x = first
        for block in self.blocks:
            x = block(x, length)
            if mask is not None:
                x = x * mask
        x = x + first * self.table[:length]
        logits = self.head(x) * scale
        return (logits, x) if return_hidden else (logits, weights)


TOKENS = torch.arange(30).reshape(6, 5) % 7
WEIGHTS = torch.rand(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
MASK = (torch.arange(30).reshape(6, 5, 1) % 4 > 0).double()


def weighted(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    logits, weights = output
    each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(target.shape)
    return (each * weights).mean()


def evaluated(net: nn.Module) -> nn.Module:
    """Batch norm that does not depend on how rows are split."""
    return net.double().eval()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("size", "schedule"), [(2, "one_f_one_b"), (3, "zb_h1"), (2, "interleaved")])
def test_an_unmodified_model_is_cut_and_computes_the_same(size: int, schedule: str, masked: bool) -> None:
    given = {"mask": MASK} if masked else {}
    net = evaluated(Gpt())
    right = weighted(net(TOKENS, WEIGHTS, scale=2.0, **given), TOKENS)
    right.backward()

    def step(comm: Any) -> Any:
        split: dict[str, int | None] = {"mask": 0} if masked else {}
        model = pk.PipelineParallel(evaluated(Gpt()), comm, loss=weighted, schedule=schedule, num_microbatches=3, split=split)
        found = model.step(TOKENS, WEIGHTS, scale=2.0, target=TOKENS, **given)
        return found.loss, {name: p.grad for name, p in model.module.named_parameters()}

    with pk.SimulatedWorld(size) as world:
        results = list(world.run(step))
    torch.testing.assert_close(sum(loss for loss, _ in results if loss is not None), right.detach(), rtol=1e-12, atol=0)
    wanted = {name: p.grad for name, p in net.named_parameters(remove_duplicate=False)}
    names = [name for _, gradients in results for name in gradients]
    assert set(names) | {"head.weight"} == wanted.keys()
    for _, gradients in results:
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, wanted[name], rtol=1e-9, atol=1e-14)


def test_several_outputs_in_order() -> None:
    def outputs(comm: Any) -> Any:
        return pk.PipelineParallel(evaluated(Gpt()), comm, schedule="one_f_one_b", num_microbatches=3)(TOKENS, WEIGHTS)

    with pk.SimulatedWorld(2) as world:
        _, found = world.run(outputs)
    torch.testing.assert_close(found, evaluated(Gpt())(TOKENS, WEIGHTS), rtol=1e-12, atol=1e-14)


def test_an_option_that_was_left_out_is_refused_with_the_way_out() -> None:
    def step(comm: Any, **given: Any) -> None:
        pk.PipelineParallel(evaluated(Gpt()), comm, loss=weighted, num_microbatches=3).step(TOKENS, WEIGHTS, target=TOKENS, **given)

    with pk.SimulatedWorld(2) as world:
        world.run(step, mask=None, return_hidden=False)
        with pytest.raises(RankError, match=re.escape("mask kept its default, None, when the model was cut along its graph")):
            world.run(step, mask=MASK)


# -- where ---------------------------------------------------------------------------------------------------------------


class Wrapped(nn.Module):
    """All of it in one submodule."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *, tokens: Tensor, weights: Tensor) -> Any:
        return self.inner(tokens, weights)


def test_a_call_that_is_too_large_for_a_stage_is_opened_and_no_other() -> None:
    assert places(Gpt(), 2, Balanced()) == ["blocks.2"]
    assert places(Wrapped(Gpt()), 2, Balanced()) == ["inner.blocks.2"]
    assert places(Gpt(1), 3, Balanced()) == ["blocks.0.up", "blocks.0.down"]


class Uneven(nn.Module):
    """Many parameters that work little, none that work more, few that work most."""

    def __init__(self) -> None:
        super().__init__()
        self.many, self.none, self.few = nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.many(x)
        for _ in range(50):
            y = self.none(y)
        z: Tensor = self.few(y.expand(2, 50, 20))
        return z


EXAMPLE = (torch.ones(2, 1, 20),)


def test_even_by_what_is_asked_for() -> None:
    assert places(Uneven(), 2, Balanced()) == ["none"]
    assert count(Uneven(), *EXAMPLE).flops["none"] == 50 * 2 * 20
    assert places(Uneven(), 2, Balanced("flops", EXAMPLE)) == ["few"]
    assert places(Uneven(), 2, Balanced({"many": 3.0, "none": 1.0, "few": 1.0})) == ["none"]
    assert places(Uneven(), 2, Balanced({"many": 1.0, "none": 1.0, "few": 3.0})) == ["few"]


def test_a_cap_counts_microbatches_in_flight() -> None:
    """Layers alike, 800 bytes of weights and gradients and 400 kept of a micro-batch each: 1F1B keeps two on the first stage."""
    net = Wrapped2(nn.Sequential(*[nn.Sequential(nn.Linear(10, 10, bias=False), nn.Tanh()) for _ in range(4)]))
    x = (torch.ones(10, 10),)
    counts = count(net, *x)
    assert [counts.kept[f"inner.{i}"] for i in range(4)] == [800, 400, 400, 400]  # the first keeps its input too
    free, tight = Balanced(example=x), Balanced(example=x, cap=3600)
    assert places(net, 2, free, alive=[2, 1]) == ["inner.2"]
    assert places(net, 2, tight, alive=[2, 1]) == ["inner.1"]
    with pytest.raises(ValueError, match="no cut in 2 stages keeps to cap=1000"):
        places(net, 2, Balanced(example=x, cap=1000), alive=[2, 1])

    def cut(comm: Any, wanted: Balanced) -> list[str]:
        model = pk.PipelineParallel(net, comm, cut=wanted, loss=lambda y, _: y.sum(), num_microbatches=4)
        return [name for name, _ in model.module.named_parameters()]

    with pk.SimulatedWorld(2) as world:
        assert [len(names) for names in world.run(cut, free)] == [2, 2]
        assert [len(names) for names in world.run(cut, tight)] == [1, 3]


class Wrapped2(nn.Module):
    """A sequence inside."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x)
        return y


def test_measured_seconds_are_the_same_on_all_ranks() -> None:
    def cut(comm: Any) -> Any:
        net = Uneven()
        seconds = measure(comm, net, *EXAMPLE)
        return seconds, places(net, 2, Balanced(seconds))

    with pk.SimulatedWorld(2, compute="counted") as world:
        first, second = world.run(cut)
    assert first == second and first[0]["few"] > first[0]["many"] and first[1] == places(Uneven(), 2, Balanced(first[0]))


def test_counting_leaves_nothing_behind() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    before, state = {name: x.clone() for name, x in net.state_dict().items()}, torch.get_rng_state()
    count(net, torch.ones(4, 3))
    torch.testing.assert_close(dict(net.state_dict()), before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state) and not net[0]._forward_hooks and net[0].weight.grad is None


# -- refusals ------------------------------------------------------------------------------------------------------------


class Deciding(nn.Module):
    """Decides by numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(1, 1), nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.a(x)
        if y.sum() > 0:  # here
            y = self.b(y)
        return y


def test_the_line_that_can_not_be_followed_is_named() -> None:
    with pytest.raises(ValueError) as refused:
        cut_module(Deciding(), 2)
    assert "torch.fx can't follow the forward of Deciding" in str(refused.value)
    assert "test_places.py" in str(refused.value) and "if y.sum() > 0:  # here]" in str(refused.value)
    assert "give a list of modules" in str(refused.value)


def test_what_can_not_be_opened_stays_whole_and_is_told_if_that_is_too_little() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.deciding, self.head = Deciding(), nn.Linear(1, 1)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.head(self.deciding(x))
            return y

    assert places(Two(), 2, Balanced()) == ["head"]
    with pytest.raises(ValueError, match=r"(?s)a Two has 2 calls .*\(deciding, head\), too few for 3 stages; .*if y.sum\(\) > 0"):
        places(Two(), 3, Balanced())


@pytest.mark.parametrize(
    ("wanted", "words"),
    [(Balanced("flops"), "give an example of a micro-batch"), (Balanced("fleas", EXAMPLE), "by is 'parameters', 'flops'")],  # type: ignore[arg-type]
)
def test_wrong_wishes(wanted: Balanced, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        places(Uneven(), 2, wanted)
