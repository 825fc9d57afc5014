"""DataParallel gives the gradients of one process that sees all items, on every rank the same bits, at the stated cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import partkit as pk
from partkit.cluster import COSTS
from partkit.data_parallel.buckets import fill_buckets
from partkit.data_parallel.exchange import bytes_sent
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.world import World

pytestmark = pytest.mark.live
LiveWorld = Callable[[int], World]
REDUCTIONS = ("overlapped", "naive")
LAYERS = (5, 7, 6, 3)


def make_net(seed: int = 0) -> nn.Sequential:
    """Three layers whose sizes divide by nothing; float64."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(LAYERS):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1]).double()


def make_data(num_items: int, step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    x = torch.randn(num_items, LAYERS[0], generator=generator, dtype=torch.float64)
    return x, torch.randint(LAYERS[-1], (num_items,), generator=generator)


def shares(counts: tuple[int, ...]) -> list[slice]:
    """Which rows of the whole batch each rank has, if it has ``counts[rank]`` of them."""
    ends = torch.tensor(counts).cumsum(0).tolist()
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def state(module: nn.Module) -> dict[str, Tensor]:
    """Weights and gradients by name."""
    found = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    return found | {f"{name}.grad": p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def train_serial(counts: tuple[int, ...], num_steps: int) -> dict[str, Tensor]:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(num_steps):
        x, y = make_data(sum(counts), step)
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return state(net)


def train_parallel(comm: Any, counts: tuple[int, ...], num_steps: int, reduction: str, bucket_bytes: int) -> dict[str, Tensor]:
    net = make_net(seed=comm.rank)  # unequal on purpose: rank 0's weights count
    model = pk.DataParallel(net, comm, reduction=reduction, bucket_bytes=bucket_bytes)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rows = shares(counts)[comm.rank]
    for step in range(num_steps):
        x, y = (part[rows] for part in make_data(sum(counts), step))
        optimizer.zero_grad()
        model.backward(F.cross_entropy(model(x), y), count=len(x))
        optimizer.step()
    return state(net)


def check_same(ranks: list[dict[str, Tensor]], serial: dict[str, Tensor]) -> None:
    for found in ranks:
        assert list(found) == list(serial)
        for name in serial:
            torch.testing.assert_close(found[name], serial[name], rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")
            assert torch.equal(found[name], ranks[0][name]), f"{name} differs in bits between ranks"


@pytest.mark.parametrize("bucket_bytes", [1, 300, 2**20])
@pytest.mark.parametrize("counts", [(8, 8, 8, 8), (5, 1, 0, 7), (3, 2), (4,)], ids=str)
def test_three_steps_equal_one_process(live_world: LiveWorld, counts: tuple[int, ...], bucket_bytes: int) -> None:
    ranks = live_world(len(counts)).run(train_parallel, counts, 3, "overlapped", bucket_bytes)
    check_same(ranks, train_serial(counts, 3))


@pytest.mark.parametrize("counts", [(5, 1, 0, 7), (4,)], ids=str)
def test_naive_equals_one_process_too(live_world: LiveWorld, counts: tuple[int, ...]) -> None:
    check_same(live_world(len(counts)).run(train_parallel, counts, 3, "naive", 1), train_serial(counts, 3))


def test_bucket_size_does_not_change_a_bit(world4: World) -> None:
    small, large = (world4.run(train_parallel, (5, 1, 0, 7), 2, "overlapped", nbytes)[0] for nbytes in (1, 2**20))
    assert all(torch.equal(small[name], large[name]) for name in small)


# -- counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_case_N01_unequal_batches(live_world: LiveWorld, reduction: str) -> None:
    """y = w x, w = 0, target x: [1, 1, 1] on rank 0 and [5] on rank 1. The mean of means would be -26."""

    def step(comm: Any) -> float:
        w = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(w.weight)
        model = pk.DataParallel(w, comm, reduction=reduction)  # type: ignore[arg-type]
        x = torch.tensor([[[1.0], [1.0], [1.0]], [[5.0]]][comm.rank])
        model.backward(F.mse_loss(model(x), x), count=len(x))
        return float(w.weight.grad)  # type: ignore[arg-type]

    assert live_world(2).run(step) == [-14.0, -14.0]


class Scale(nn.Module):
    """x -> w x, w = 1: the gradient of a mean of w x is the mean of x."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.w * x


@pytest.mark.parametrize(
    ("losses", "right"),
    [
        (([4.0], [1.0, 1.0, 1.0]), 1.75),
        (([], [1.0, 2.0, 3.0]), 2.0),  # a rank without a token: its own mean is nan
        (([5.0, 7.0], []), 6.0),
    ],
)
def test_case_N02_tokens_weigh_the_same_wherever_they_are(live_world: LiveWorld, losses: tuple[list[float], ...], right: float) -> None:
    def step(comm: Any) -> float:
        model = pk.DataParallel(Scale(), comm)
        tokens = torch.tensor(losses[comm.rank])
        model.backward(model(tokens).mean(), count=len(tokens))
        return float(model.module.w.grad)  # type: ignore[arg-type, operator]

    assert live_world(2).run(step) == [right, right]


def test_case_N02_the_last_single_micro_step_counts_by_its_own_count(live_world: LiveWorld) -> None:
    """Five micro-steps, a window of two: the third window has one micro-step only."""
    micro = [[1.0, 2.0], [6.0], [3.0], [4.0, 5.0, 9.0], [8.0]]

    def step(comm: Any) -> list[float]:
        model, found = pk.DataParallel(Scale(), comm), []
        for i, items in enumerate(micro):
            tokens = torch.tensor(items) * (comm.rank + 1)
            last = i % 2 == 1 or i == len(micro) - 1
            if last:
                model.backward(model(tokens).mean(), count=len(tokens))
                found.append(float(model.module.w.grad))  # type: ignore[arg-type, operator]
                model.zero_grad()
            else:
                with model.no_sync():
                    model.backward(model(tokens).mean(), count=len(tokens))
        return found

    right = [1.5 * 9 / 3, 1.5 * 21 / 4, 1.5 * 8]
    assert live_world(2).run(step) == [right, right]


BATCHES = [[[1.0], [2.0, 4.0], [5.0]], [[3.0], [0.0]]]
"""Case H06: rank 0 has three batches, rank 1 two."""


def test_case_H06_a_rank_without_a_batch_takes_part_with_no_items(live_world: LiveWorld) -> None:
    def step(comm: Any) -> list[float]:
        model, found = pk.DataParallel(Scale(), comm), []
        for i in range(3):
            if i < len(BATCHES[comm.rank]):
                items = torch.tensor(BATCHES[comm.rank][i])
                model.backward(model(items).mean(), count=len(items))
            else:
                model.backward(torch.zeros(()), count=0)
            found.append(float(model.module.w.grad))  # type: ignore[arg-type, operator]
            model.zero_grad()
        return found

    assert live_world(2).run(step) == [[2.0, 2.0, 5.0]] * 2


def test_case_H06_a_rank_that_leaves_early_is_named(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        model = pk.DataParallel(Scale(), comm)
        for batch in BATCHES[comm.rank]:
            model.backward(model(torch.tensor(batch)).mean(), count=len(batch))

    with pytest.raises(RanksStuck, match=re.escape("rank 1: finished after")) as caught:
        live_world(2).run(step)
    assert caught.value.diagnosis is not None and caught.value.diagnosis.code == "missing"


def test_no_items_anywhere_is_refused(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        model = pk.DataParallel(Scale(), comm)
        model.backward(model(torch.ones(0)).mean(), count=0)

    with pytest.raises(RankError, match=re.escape("backward(count=0) on every rank")):
        live_world(2).run(step)


# -- accumulation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_accumulation_is_one_larger_batch(live_world: LiveWorld, reduction: str) -> None:
    micro = [(2, 1), (3, 4), (1, 2)]

    def step(comm: Any) -> dict[str, Tensor]:
        model = pk.DataParallel(make_net(), comm, reduction=reduction, bucket_bytes=300)  # type: ignore[arg-type]
        for i, counts in enumerate(micro):
            x, y = (part[shares(counts)[comm.rank]] for part in make_data(sum(counts), i))
            loss = F.cross_entropy(model(x), y)
            if i < len(micro) - 1:
                with model.no_sync():
                    model.backward(loss, count=len(x))
            else:
                model.backward(loss, count=len(x))
        return state(model.module)

    net = make_net()
    batches = [make_data(sum(counts), i) for i, counts in enumerate(micro)]
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    F.cross_entropy(net(x), y).backward()
    check_same(live_world(2).run(step), state(net))


def test_without_zero_grad_gradients_add_up_as_in_one_process(live_world: LiveWorld) -> None:
    def step(comm: Any) -> dict[str, Tensor]:
        model = pk.DataParallel(make_net(), comm)
        for i, counts in enumerate([(2, 1), (1, 3)]):
            x, y = (part[shares(counts)[comm.rank]] for part in make_data(sum(counts), i))
            model.backward(F.cross_entropy(model(x), y), count=len(x))
        return state(model.module)

    net = make_net()
    for i, num_items in enumerate([3, 4]):
        x, y = make_data(num_items, i)
        F.cross_entropy(net(x), y).backward()
    check_same(live_world(2).run(step), state(net))


def test_a_failed_backward_leaves_the_model_usable(live_world: LiveWorld) -> None:
    def step(comm: Any) -> float:
        model = pk.DataParallel(Scale(), comm)
        with pytest.raises(RuntimeError, match="does not require grad"), model.no_sync():
            model.backward(torch.tensor(1.0), count=7)
        model.backward(model(torch.tensor([3.0])).mean(), count=1)
        return float(model.module.w.grad)  # type: ignore[arg-type, operator]

    assert live_world(2).run(step) == [3.0, 3.0]


def test_plain_backward_says_what_to_call(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        model = pk.DataParallel(Scale(), comm)
        model(torch.ones(2)).mean().backward()

    with pytest.raises(RankError, match=re.escape("call model.backward(loss, count=len(batch))")):
        live_world(2).run(step)


# -- unusual modules -------------------------------------------------------------------------------------------------


class Branches(nn.Module):
    """One linear layer for each rank, one for all, one for nobody."""

    def __init__(self, num_branches: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.branches = nn.ModuleList(nn.Linear(3, 3).double() for _ in range(num_branches))
        self.shared = nn.Linear(3, 1).double()
        self.nobody = nn.Linear(3, 3).double()

    def forward(self, x: Tensor, branch: int) -> Tensor:
        hidden: Tensor = self.branches[branch](x)
        out: Tensor = self.shared(hidden.relu())
        return out


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ranks_may_use_different_parameters(world4: World, reduction: str) -> None:
    """Rank 3 uses branch 0 as rank 0 does, so branch 3 and ``nobody`` are used by none: their gradient stays None, as in one process."""
    branch_of, counts = [0, 1, 2, 0], [2, 3, 1, 4]
    data = [torch.randn(count, 3, dtype=torch.float64) for count in counts]

    def step(comm: Any) -> dict[str, Tensor]:
        model = pk.DataParallel(Branches(4), comm, reduction=reduction, bucket_bytes=100)  # type: ignore[arg-type]
        x = data[comm.rank]
        model.backward(model(x, branch_of[comm.rank]).square().mean(), count=len(x))
        return state(model.module)

    net = Branches(4)
    torch.cat([net(x, branch).square() for x, branch in zip(data, branch_of, strict=True)]).mean().backward()
    serial = state(net)
    assert "nobody.weight.grad" not in serial and "branches.3.weight.grad" not in serial
    check_same(world4.run(step), serial)


class Tied(nn.Module):
    """An embedding that is also the output layer, and a frozen layer between."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(6, 4).double()
        self.frozen = nn.Linear(4, 4).double().requires_grad_(False)
        self.head = nn.Linear(4, 6, bias=False).double()
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.frozen(self.embedding(tokens)).tanh())
        return logits


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_tied_and_frozen_parameters(live_world: LiveWorld, reduction: str) -> None:
    tokens, targets = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([1, 2, 3, 4, 5])
    rows = shares((3, 2))

    def step(comm: Any) -> dict[str, Tensor]:
        model = pk.DataParallel(Tied(), comm, reduction=reduction)  # type: ignore[arg-type]
        mine = rows[comm.rank]
        model.backward(F.cross_entropy(model(tokens[mine]), targets[mine]), count=len(tokens[mine]))
        return state(model.module)

    net = Tied()
    F.cross_entropy(net(tokens), targets).backward()
    check_same(live_world(2).run(step), state(net))


def test_mixed_dtypes_and_non_contiguous_parameters(live_world: LiveWorld) -> None:
    class Mixed(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            torch.manual_seed(seed)
            self.a = nn.Parameter(torch.randn(3, 4).double().t())
            self.b = nn.Parameter(torch.randn(3))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.a) * self.b.double()

    x = torch.randn(5, 4, dtype=torch.float64)

    def step(comm: Any) -> dict[str, Tensor]:
        model, mine = pk.DataParallel(Mixed(comm.rank), comm), x[shares((3, 2))[comm.rank]]
        model.backward(model(mine).square().sum(dim=1).mean(), count=len(mine))
        return state(model.module)

    net = Mixed(0)
    net(x).square().sum(dim=1).mean().backward()
    ranks = live_world(2).run(step)
    for name, right in state(net).items():
        torch.testing.assert_close(ranks[1][name], right, rtol=1e-6 if right.dtype == torch.float32 else 1e-9, atol=1e-6)


def test_buffers_are_rank_0s_after_every_synchronised_backward(live_world: LiveWorld) -> None:
    data = [torch.tensor([[0.0], [2.0], [4.0]]), torch.tensor([[10.0], [20.0]])]

    def step(comm: Any) -> tuple[list[float], list[float]]:
        model = pk.DataParallel(nn.BatchNorm1d(1, momentum=1.0), comm)
        norm, x = model.module, data[comm.rank]
        with model.no_sync():
            model.backward(model(x).square().mean(), count=len(x))
        own = [float(norm.running_mean), int(norm.num_batches_tracked)]  # type: ignore[arg-type]
        model.backward(model(x + 1).square().mean(), count=len(x))
        return own, [float(norm.running_mean), int(norm.num_batches_tracked)]  # type: ignore[arg-type]

    assert live_world(2).run(step) == [([2.0, 1], [3.0, 2]), ([15.0, 1], [3.0, 2])]


def test_sparse_gradients_are_refused(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        model = pk.DataParallel(nn.Embedding(4, 2, sparse=True), comm)
        model.backward(model(torch.tensor([1])).mean(), count=1)

    with pytest.raises(RankError, match=re.escape("use a dense one, for example nn.Embedding(sparse=False)")):
        live_world(2).run(step)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"reduction": "magic"}, "reduction is one of 'overlapped', 'naive'"),
        ({"bucket_bytes": 0}, "at least 1 byte"),
        ({"loss": torch.ones(2)}, "loss is one number"),
        ({"count": -1}, "at least 0"),
    ],
)
def test_wrong_arguments(live_world: LiveWorld, arguments: dict[str, Any], words: str) -> None:
    def step(comm: Any) -> None:
        wrong = dict(arguments)
        backward = {"loss": wrong.pop("loss", torch.ones(())), "count": wrong.pop("count", 1)}
        pk.DataParallel(Scale(), comm, **wrong).backward(**backward)

    with pytest.raises(RankError, match=re.escape(words)):
        live_world(2).run(step)


def test_replicas_of_different_shape_are_named(live_world: LiveWorld) -> None:
    with pytest.raises(RanksStuck, match=re.escape("float32[3, 2]")) as caught:
        live_world(2).run(lambda comm: pk.DataParallel(nn.Linear(2 + comm.rank, 3 - comm.rank), comm) and None)
    assert "float32[2, 3]" in str(caught.value) and "broadcast" in str(caught.value)


# -- cost ------------------------------------------------------------------------------------------------------------


def expected_bytes(net: nn.Module, size: int, rank: int, reduction: str, bucket_bytes: int) -> tuple[int, int]:
    """Messages and bytes that a rank sends in the start and one step, by the formulas in the docstrings."""
    parameters = list(net.parameters())
    if reduction == "naive":
        costs = [COSTS["all_reduce"]["ring"](p.numel(), p.element_size(), size).bytes_sent[rank] for p in parameters]
    else:
        lengths = [sum(parameters[i].numel() for i in bucket) for bucket in fill_buckets(parameters, bucket_bytes)]
        costs = [bytes_sent(length, 8, size)[rank] for length in lengths]
    roll_call = (size - 1) * 8 * (1 + len(parameters))
    start = (size - 1) * sum(p.numel() * 8 for p in parameters) if rank == 0 else 0
    messages = 2 * (size - 1) * len(costs) + (size - 1) + ((size - 1) * len(parameters) if rank == 0 else 0)
    return messages, sum(costs) + roll_call + start


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("reduction", "bucket_bytes"), [("naive", 1), ("overlapped", 1), ("overlapped", 300), ("overlapped", 2**20)])
def test_predicted_is_counted(live_world: LiveWorld, size: int, reduction: str, bucket_bytes: int) -> None:
    world = live_world(size)
    world.run(train_parallel, (2,) * size, 1, reduction, bucket_bytes)
    for rank in range(size):
        counted = (world.trace.num_messages(rank), world.trace.bytes_sent(rank))
        assert counted == expected_bytes(make_net(), size, rank, reduction, bucket_bytes)


def test_buckets_go_on_while_backward_does(live_world: LiveWorld) -> None:
    world = live_world(2)
    world.run(train_parallel, (2, 2), 1, "overlapped", 1)
    events = [e for e in world.trace.events if e.rank == 1]
    (backward,) = (e for e in events if e.tag == "backward")
    (forward,) = (e for e in events if e.tag == "forward")
    buckets = [e for e in events if "bucket" in e.tag]
    assert [e.tag for e in buckets] == [f"all_reduce[sum, bucket {i}]" for i in range(6)]
    assert all(backward.start < e.start < backward.end for e in buckets)
    assert all(e.end < backward.end for e in buckets[:4])  # the last two are in their second and first half when it ends
    assert all(a.start < b.start < a.end for a, b in pairwise(buckets))
    assert forward.end <= backward.start
    assert {e.span for e in events if e.kind in ("send", "recv") and e.tag in ("scatter", "gather")} == {
        "backward/all_reduce",
        "wait for gradients/all_reduce",
    }


def test_nothing_is_sent_without_synchronisation(live_world: LiveWorld) -> None:
    def step(comm: Any) -> None:
        model = pk.DataParallel(Scale(), comm)
        with model.no_sync():
            model.backward(model(torch.ones(2)).mean(), count=2)

    world = live_world(2)
    world.run(step)
    assert {e.span for e in world.trace.events if e.kind == "send"} == {"replicate/broadcast"}


# -- torch's own beside it -------------------------------------------------------------------------------------------


def test_same_weights_as_torchs_DistributedDataParallel(live_world: LiveWorld) -> None:
    def both(comm: Any) -> float:
        ours = pk.DataParallel(make_net(), comm, bucket_bytes=300)
        theirs = nn.parallel.DistributedDataParallel(make_net())
        for model in (ours, theirs):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for step in range(3):
                x, y = (part[shares((4, 4))[comm.rank]] for part in make_data(8, step))
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                if model is ours:
                    ours.backward(loss, count=len(x))
                else:
                    loss.backward()
                optimizer.step()
        return max(float((a - b).abs().max()) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))

    assert max(live_world(2).run(both)) < 1e-14
