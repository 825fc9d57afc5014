"""Forwards that decide by shapes: an example of a micro-batch answers, and batches are held to the answers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel.execution import Balanced
from partkit.pipeline_parallel.execution.cut import cut_module
from partkit.pipeline_parallel.execution.deciding import Example
from partkit.pipeline_parallel.execution.following import follow
from partkit.worlds.errors import RankError


class Translator(nn.Module):
    """torch's own Transformer, which torch.fx alone can't follow, between embeddings and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.body = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, src: Tensor, tgt: Tensor, *, tgt_mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.head(self.body(self.embed(src), self.embed(tgt), tgt_mask=tgt_mask)).transpose(1, 2)
        return y


def translator() -> Translator:
    torch.manual_seed(0)
    return Translator().double()


SRC, TGT = torch.arange(7 * 5).view(7, 5) % 11, torch.arange(7 * 4).view(7, 4) % 7
CAUSAL = torch.ones(4, 4, dtype=torch.bool).triu(1)
OF_TWO = Balanced(example=(SRC[:2], TGT[:2]), keywords={"tgt_mask": CAUSAL})


@pytest.mark.parametrize(("size", "schedule", "masked"), [(2, "one_f_one_b", False), (4, "one_f_one_b", True), (3, "zb_h1", False)])
def test_a_transformer_of_torch_is_cut_and_computes_the_same(size: int, schedule: str, masked: bool) -> None:
    given: dict[str, Any] = {"tgt_mask": CAUSAL} if masked else {}
    net = translator()
    right = F.cross_entropy(net(SRC, TGT, **given), TGT)
    right.backward()

    def step(comm: Any) -> Any:
        split: dict[str, int | None] = {"tgt_mask": None} if masked else {}
        model = pk.PipelineParallel(translator(), comm, loss=F.cross_entropy, schedule=schedule, num_microbatches=3, cut=OF_TWO, split=split)
        found = model.step(SRC, TGT, target=TGT, **given)  # micro-batches of 3, 2 and 2 rows
        return found.loss, {name: p.grad for name, p in model.module.named_parameters()}

    with pk.SimulatedWorld(size) as world:
        results = list(world.run(step))
    torch.testing.assert_close(results[-1][0], right.detach(), rtol=1e-12, atol=0)
    wanted = {name: p.grad for name, p in net.named_parameters()}
    assert {name for _, gradients in results for name in gradients} == wanted.keys()
    assert all(gradients for _, gradients in results)
    for _, gradients in results:
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, wanted[name], rtol=1e-9, atol=1e-14)


class ByShape(nn.Module):
    """Decides by dims, by a width, and by a number of heads that it unpacks."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 3:
            x = x.flatten(0, 1)
        rows, width = x.shape
        x = self.norm(self.a(x))
        for _ in range(width // 2):
            x = x + 1  # twice
        if x.sum() > 1e6:
            x = x * 0
        y: Tensor = self.b(F.dropout(x, 0.0)).view(rows, width)
        return y


def test_a_forward_that_decides_by_shapes_is_cut_by_what_the_example_says() -> None:
    net, x = ByShape(), torch.randn(6, 4)
    first, second = cut_module(net, 2, Balanced(example=(x[:3],), at=["b"])).stages
    handed = first((), {"x": x})
    assert [value for value in handed if not isinstance(value, Tensor)] == [6, 4]  # sizes follow the batch, where they decide nothing
    torch.testing.assert_close(second(handed, {}), net(x))
    with pytest.raises(ValueError, match="If that depends on shapes alone, give an example of a micro-batch"):
        cut_module(net, 2)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.ones(4, 2, 4), "if x.dim() == 3:] was decided for the example of a micro-batch, where bool was False; in this batch it is True"),
        (torch.full((4, 4), 1e9), "if x.sum() > 1e6:] was decided for the example"),
    ],
)
def test_a_batch_that_would_decide_otherwise_is_refused(x: Tensor, words: str) -> None:
    def step(comm: Any) -> None:
        net = ByShape()
        nn.init.ones_(net.norm.eval().weight)
        nn.init.ones_(net.a.weight)
        pk.PipelineParallel(net, comm, loss=F.mse_loss, schedule="gpipe", num_microbatches=2, cut=Balanced(example=(torch.ones(2, 4),), at=["b"])).step(
            x, target=torch.ones(4, 4)
        )

    with pk.SimulatedWorld(2) as world, pytest.raises(RankError, match=re.escape(words)) as refused:
        world.run(step)
    assert "Cut with an example that is like your batches" in str(refused.value) and "test_deciding.py" in str(refused.value)


def test_following_an_example_leaves_nothing_behind() -> None:
    net, x = ByShape(), torch.randn(3, 4)
    before, state = {name: value.clone() for name, value in net.state_dict().items()}, torch.get_rng_state()
    graph = follow(net, example=Example((x,)))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(isinstance(value, Tensor) for node in graph.nodes for value in node.meta.values())
    assert [str(node.target) for node in graph.nodes if node.op == "call_module"] == ["a", "norm", "b"]


def test_an_example_that_lacks_an_argument_or_fails_is_told() -> None:
    with pytest.raises(ValueError, match="missing a required argument: 'tgt'"):
        cut_module(translator().body, 2, Balanced(example=(torch.ones(2, 5, 8),)))
    with pytest.raises(ValueError, match=r"can't be followed with the example: .*\[.*test_deciding.py"):
        cut_module(ByShape(), 2, Balanced(example=(torch.ones(2, 5),), at=["b"]))
