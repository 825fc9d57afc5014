"""Same as serial: right code passes, whatever its seed; planted mistakes are caught, located and explained."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import partkit as pk
from partkit.partition import block_range
from partkit.serial_twin.compare import Rules, compare
from partkit.serial_twin.evidence import Note, Observation, Piece
from partkit.serial_twin.report import Report
from partkit.worlds.world import World

LiveWorld = Callable[[int], World]
NUM_STEPS, SIZES = 3, (5, 6, 4)


# -- a training loop with a place for every mistake --------------------------------------------------------------------


class Case(NamedTuple):
    """What is trained; the same for both twins."""

    mistake: str = ""
    seed: int = 0
    counts: tuple[int, ...] = (3, 2)
    dtype: torch.dtype = torch.float64
    dropout: float = 0.0


def make_net(case: Case, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(SIZES[0], SIZES[1]), nn.Tanh(), nn.Dropout(case.dropout), nn.Linear(SIZES[1], SIZES[1]), nn.Tanh(), nn.Linear(SIZES[1], SIZES[2])
    )
    return net.to(case.dtype)


def batch(case: Case, step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * case.seed + step)
    num_items = sum(case.counts)
    return torch.randn(num_items, SIZES[0], generator=generator).to(case.dtype), torch.randint(SIZES[2], (num_items,), generator=generator)


def rows_of(case: Case, rank: int) -> range:
    start = sum(case.counts[:rank])
    return range(start, start + case.counts[rank])


def serial(note: Note, case: Case) -> None:
    net = make_net(case, case.seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    note("start", model=net)
    for step in range(NUM_STEPS):
        x, y = batch(case, step)
        optimizer.zero_grad()
        outputs = net(x)
        loss = F.cross_entropy(outputs, y)
        loss.backward()
        optimizer.step()
        note(step, loss=loss, outputs=outputs, model=net)


def forward(case: Case, net: nn.Sequential, x: Tensor) -> Tensor:
    if case.mistake == "layer detached":
        return net[3:](net[:3](x).detach())  # type: ignore[no-any-return]
    if case.mistake == "float16 cast":
        return net(x).half().to(case.dtype)  # type: ignore[no-any-return]
    return net(x)  # type: ignore[no-any-return]


def reduce_gradients(comm: Any, case: Case, net: nn.Sequential) -> None:
    """The right way: count * gradient, summed, divided by the items of all ranks. Unless there is a mistake."""
    count, total = case.counts[comm.rank], sum(case.counts)
    for name, p in net.named_parameters():
        if p.grad is None or (case.mistake == "one parameter forgotten" and name == "3.bias"):
            continue
        if case.mistake == "mean of means":
            p.grad = pk.all_reduce(p.grad, comm, op="mean")
        elif case.mistake == "no division":
            p.grad = pk.all_reduce(p.grad * (count * comm.size / total), comm)
        elif case.mistake == "reduced twice":
            p.grad = pk.all_reduce(pk.all_reduce(p.grad * (count / total), comm), comm)
        elif case.mistake == "gradients sent as bfloat16":
            p.grad = pk.all_reduce(p.grad * (count / total), comm).bfloat16().to(case.dtype)
        else:
            p.grad = pk.all_reduce(p.grad * (count / total), comm)


def parallel(comm: Any, note: Note, case: Case) -> None:
    mistake, rank = case.mistake, comm.rank
    net = make_net(case, case.seed + (rank if mistake == "unequal start" else 0))
    rate = 0.2 if mistake == "other learning rate" and rank == 1 else 0.1
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    note("start", model=net)
    if mistake == "other random numbers":
        torch.manual_seed(case.seed + 7)
    for step in range(NUM_STEPS):
        rows = rows_of(case, 0 if mistake == "wrong share of the data" and rank == 1 and step == 1 else rank)
        x, y = (part[list(rows)[: case.counts[rank]]] for part in batch(case, step))
        if not (mistake == "zero_grad forgotten" and step > 0):
            optimizer.zero_grad()
        outputs = forward(case, net, x)
        loss = F.cross_entropy(outputs, y, reduction="sum" if mistake == "sum loss" else "mean")
        loss.backward()
        if mistake == "step before the reduction":
            optimizer.step()
        if mistake not in ("never reduced", "averaged weights"):
            reduce_gradients(comm, case, net)
        if mistake != "step before the reduction":
            optimizer.step()
        if mistake == "averaged weights":
            for p in net.parameters():
                p.data = pk.all_reduce(p.data * (case.counts[rank] / sum(case.counts)), comm)
        note(step, loss=loss, outputs=outputs, model=net, rows=rows_of(case, rank))


class Planted(NamedTuple):
    """A mistake and where it must be found."""

    mistake: str
    step: int
    what: str
    rank: int | None
    name: str
    words: str
    counts: tuple[int, ...] = (3, 2)
    dropout: float = 0.0


PLANTED = [
    Planted("no division", 0, "gradient", 0, "5.bias", "exactly 2 times too large, the number of ranks"),
    Planted("no division", 0, "gradient", 0, "5.bias", "exactly 4 times too large, the number of ranks", (1, 2, 1, 3)),
    Planted("reduced twice", 0, "gradient", 0, "5.bias", "exactly 2 times too large"),
    Planted("mean of means", 0, "gradient", 0, "5.bias", "ranks have different numbers of items (3, 2)"),
    Planted("never reduced", 0, "gradient", 0, "5.bias", "it was never reduced over the ranks"),
    Planted("averaged weights", 0, "gradient", 0, "5.bias", "weights are averaged instead"),
    Planted("one parameter forgotten", 0, "gradient", 0, "3.bias", "the other parameters are right, so this one was forgotten"),
    Planted("unequal start", -1, "weight", 1, "0.weight", "the replicas start unequal: broadcast rank 0's"),
    Planted("sum loss", 0, "loss", None, "", "the loss is a sum over them, in one process it is a mean", (3, 3)),
    Planted("wrong share of the data", 1, "output", 1, "", "these are the outputs of rows [0, 1] of the batch, expected were rows [3, 4]"),
    Planted("other learning rate", 0, "weight", 1, "0.weight", "the update is 2 times the right one: the learning rate of rank 1"),
    Planted("step before the reduction", 0, "weight", 0, "0.weight", "each rank stepped with its own gradient; reduce first, then step", (3, 3)),
    Planted("layer detached", 0, "gradient", 0, "0.bias", "no gradient arrived: the layer is cut off"),
    Planted("zero_grad forgotten", 1, "gradient", 0, "5.bias", "plus that of the step before: call zero_grad()"),
    Planted("float16 cast", 0, "output", 0, "", "every number is exactly a float16"),
    Planted("gradients sent as bfloat16", 0, "gradient", 0, "5.bias", "every number is exactly a bfloat16"),
    Planted("other random numbers", 0, "output", 0, "", "other random numbers (dropout)", (3, 2), 0.5),
]


@pytest.mark.live
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: f"{planted.mistake} {len(planted.counts)}")
def test_a_planted_mistake_is_caught_located_and_explained(live_world: LiveWorld, planted: Planted) -> None:
    case = Case(planted.mistake, counts=planted.counts, dropout=planted.dropout)
    report = pk.same_as_serial(live_world(len(planted.counts)), parallel, serial, case)
    assert not report
    first = report.first
    assert first is not None
    assert (first.step, first.what, first.rank, first.name) == planted[1:5], report
    assert planted.words in first.hint, first.hint
    assert first.error > first.allowed


@pytest.mark.live
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("counts", [(3, 2), (1, 2, 1, 3), (4,)], ids=str)
def test_no_false_alarm(live_world: LiveWorld, counts: tuple[int, ...], dtype: torch.dtype) -> None:
    for seed in range(4):
        report = pk.same_as_serial(live_world(len(counts)), parallel, serial, Case(seed=seed, counts=counts, dtype=dtype))
        assert report, report
        assert report.comparison.num_compared == {
            "weight": 4 * 6 * len(counts),
            "output": 3 * len(counts),
            "loss": 3,
            "gradient": 3 * 6 * len(counts),
        }


@pytest.mark.live
@pytest.mark.parametrize("reduction", ["overlapped", "naive"])
def test_data_parallel_is_the_same_as_serial(live_world: LiveWorld, reduction: Any) -> None:
    def with_data_parallel(comm: Any, note: Note, case: Case) -> None:
        model = pk.DataParallel(make_net(case, comm.rank), comm, reduction=reduction, bucket_bytes=200)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        note("start", model=model)
        for step in range(NUM_STEPS):
            x, y = (part[list(rows_of(case, comm.rank))] for part in batch(case, step))
            optimizer.zero_grad()
            outputs = model(x)
            loss = F.cross_entropy(outputs, y)
            model.backward(loss, count=len(x))
            optimizer.step()
            note(step, loss=loss, outputs=outputs, model=model)  # rows: the ranks' shares one after the other

    for counts in ((3, 2), (1, 0, 4)):
        report = pk.same_as_serial(live_world(len(counts)), with_data_parallel, serial, Case(counts=counts))
        assert report, report


@pytest.mark.live
@pytest.mark.parametrize(("synchronised", "words"), [(False, "each rank keeps its own buffer"), (True, "not those of the whole batch")])
def test_buffers_of_batch_norm(live_world: LiveWorld, synchronised: bool, words: str) -> None:
    """Outputs do not depend on running statistics, so only buffers differ: each rank's own, or with DataParallel rank 0's."""
    data = torch.arange(4.0, dtype=torch.float64).reshape(4, 1)

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(1, dtype=torch.float64))
            self.register_buffer("mean", torch.zeros(1, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            self.mean = x.mean(0)
            return x * self.w

    def one(note: Note) -> None:
        net = Counter()
        out = net(data)
        out.square().mean().backward()
        note(0, outputs=out, model=net)

    def many(comm: Any, note: Note) -> None:
        net, mine = Counter(), data[list(block_range(4, comm.size, comm.rank))]
        model = pk.DataParallel(net, comm)
        out = model(mine)
        own = net.mean.clone()
        model.backward(out.square().mean(), count=len(mine))
        if not synchronised:
            net.mean = own
        note(0, outputs=out, model=model)

    assert pk.same_as_serial(live_world(2), many, one)
    first = pk.same_as_serial(live_world(2), many, one, buffers=True).first
    assert first is not None and (first.what, first.rank, first.name) == ("buffer", 0, "mean")
    assert words in first.hint


# -- evidence in parts -------------------------------------------------------------------------------------------------


class RanksOfThisProcess:
    """A world as far as `same_as_serial` needs one: ranks that do not communicate, one after the other."""

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, fn: Callable[..., Any], *args: Any) -> list[Any]:
        class Comm:
            size = self.size

            def __init__(self, rank: int) -> None:
                self.rank = rank

        return [fn(Comm(rank), *args) for rank in range(self.size)]


WEIGHT = torch.arange(35.0, dtype=torch.float64).reshape(7, 5).requires_grad_()


def whole_model(note: Note) -> None:
    weight = WEIGHT.detach().clone().requires_grad_()
    weight.square().sum().backward()
    note(0, loss=1.5, outputs=torch.arange(6.0), model={"0.weight": weight, "1.bias": weight[0].detach()})


def layouts(size: int) -> Iterator[tuple[str, list[Piece]]]:
    yield "rows", [Piece((block_range(7, size, rank),)) for rank in range(size)]
    yield "columns", [Piece((range(7), block_range(5, size, rank))) for rank in range(size)]
    yield "flat", [Piece((block_range(35, size, rank),), flat=True) for rank in range(size)]
    yield "strided", [Piece((range(rank, 7, size),)) for rank in range(size)]


def sharded(pieces: list[Piece], spoil: Callable[[int, Tensor], None] = lambda rank, shard: None) -> Callable[..., None]:
    def run(comm: Any, note: Note) -> None:
        piece = pieces[comm.rank]
        shard = piece.of(WEIGHT.detach()).clone().requires_grad_()
        shard.square().sum().backward()
        spoil(comm.rank, shard)
        model = {"0.weight": shard} | ({"1.bias": WEIGHT[0].detach()} if comm.rank == 0 else {})  # a pipeline stage has it alone
        last = comm.rank == comm.size - 1
        note(0, loss=1.5 if last else None, outputs=torch.arange(6.0) if last else None, model=model, layout={"0.weight": piece})

    return run


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", ["rows", "columns", "flat", "strided"])
def test_parts_are_compared_with_their_place(size: int, kind: str) -> None:
    pieces = dict(layouts(size))[kind]
    assert pk.same_as_serial(RanksOfThisProcess(size), sharded(pieces), whole_model)

    def spoil(rank: int, shard: Tensor) -> None:
        if rank == size - 1:
            shard.grad.view(-1)[-1] += 1  # type: ignore[union-attr]

    first = pk.same_as_serial(RanksOfThisProcess(size), sharded(pieces, spoil), whole_model).first
    assert first is not None
    mask = torch.arange(35).reshape(7, 5)
    place = divmod(int(pieces[-1].of(mask).reshape(-1)[-1]), 5)
    assert (first.rank, first.name, first.place, first.error) == (size - 1, "0.weight", place, 1.0)


def test_a_part_that_no_rank_has_is_missing() -> None:
    pieces = [Piece((range(0, 3),)), Piece((range(4, 7),))]
    first = pk.same_as_serial(RanksOfThisProcess(2), sharded(pieces), whole_model).first
    assert first is not None and (first.what, first.name, first.hint) == ("missing", "0.weight", "parts of this gradient are on no rank")


def observed(**noted: Any) -> list[Observation]:
    note = Note()
    note(noted.pop("step", 0), **noted)
    return note.observations


X = torch.arange(3.0)


@pytest.mark.parametrize(
    ("rank", "serial_run", "reason"),
    [
        ({"loss": 1.0}, {"loss": 1.0, "outputs": X}, "only the serial run noted outputs"),
        ({"loss": 1.0, "outputs": X}, {"loss": 1.0}, "only the ranks noted outputs"),
        ({"outputs": X}, {"loss": 1.0, "outputs": X}, "only the serial run noted loss"),
        ({"loss": 1.0}, {"loss": 1.0, "model": {"a": X}}, "only the serial run noted weights"),
        ({"loss": 1.0, "model": {"a": X}}, {"loss": 1.0}, "only the ranks noted weights"),
        ({"model": {"b": X}}, {"model": {"a": X}}, "no rank noted this weight"),
        ({"model": {"a": X, "b": X}}, {"model": {"a": X}}, "the serial model has no weight of this name; it has a"),
        ({"outputs": X, "rows": (7, 8, 9)}, {"outputs": X}, "this rank has output row 9; the serial run has only 3 rows"),
        ({"step": 1}, {"step": 0}, "only the serial run noted this step, not this rank"),
    ],
)
def test_what_one_side_has_not_noted_is_missing(rank: dict[str, Any], serial_run: dict[str, Any], reason: str) -> None:
    first = compare([observed(**rank)], observed(**serial_run)).differences[0]
    assert (first.what, first.hint) == ("missing", reason)


def test_a_wrong_shape_says_how_to_give_the_layout() -> None:
    first = compare([observed(model={"a": X[:2]})], observed(model={"a": X})).differences[0]
    assert first.what == "weight" and "its shape is [2], in one process [3]" in first.hint and "layout=" in first.hint


def test_without_a_note_of_the_start_unequal_replicas_are_suspected() -> None:
    (first, *_) = compare([observed(outputs=X), observed(outputs=X * 0.3)], observed(outputs=X)).differences
    assert (first.rank, first.what) == (1, "output")
    assert "or the replicas started unequal: note('start', model=model) shows it" in first.hint


@pytest.mark.parametrize(
    ("losses", "right", "words"),
    [
        ((6.0, 6.0), 3.0, "exactly 2 times too large, the number of ranks"),
        ((1.5, 1.5), 3.0, "exactly 2 times too small, the number of ranks"),
        ((12.0, 12.0), 2.0, "exactly 6 times too large, the number of items"),
        ((-3.0, -3.0), 3.0, "the sign is wrong"),
        ((4.2, 4.2), 3.0, "exactly 1.4 times the right one"),
        ((24.0, 24.0), 3.0, "exactly 8 times too large: micro-batches, or accumulated steps, were summed without weights"),
        ((0.6, 0.6), 3.0, "exactly 5 times too small: divided once too often, by the number of micro-batches"),
        ((0.0, 0.0), 3.0, "another loss function, other targets, or wrong counts"),
    ],
)
def test_a_loss_that_is_a_multiple_says_of_what(losses: tuple[float, ...], right: float, words: str) -> None:
    ranks = [observed(loss=torch.tensor(loss, dtype=torch.float64), count=3) for loss in losses]
    first = compare(ranks, observed(loss=torch.tensor(right, dtype=torch.float64))).differences[0]
    assert first.rank is None and words in first.hint


@pytest.mark.parametrize(("times", "words"), [(2.0, "exactly 2 times too large: micro-batches"), (0.5, "exactly 2 times too small: divided")])
def test_of_a_parameter_that_one_rank_alone_has_no_sum_over_ranks_is_suspected(times: float, words: str) -> None:
    def with_gradients(names: dict[str, float]) -> Any:
        model = nn.ParameterDict({name: nn.Parameter(torch.ones(3, dtype=torch.float64)) for name in names})
        for name, value in names.items():
            model[name].grad = torch.full((3,), value, dtype=torch.float64)
        return observed(model=model, count=5)

    first = compare([with_gradients({"a": times}), with_gradients({"b": 3 * times})], with_gradients({"a": 1.0, "b": 3.0})).differences[0]
    assert first.what == "gradient" and words in first.hint and "ranks" not in first.hint


# -- what counts as equal ----------------------------------------------------------------------------------------------


def weights_differ(mine: Tensor, right: Tensor, **rules: Any) -> bool:
    return bool(compare([observed(model={"a": mine})], observed(model={"a": right}), Rules(**rules)).differences)


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-9), (torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)])
def test_tolerance_by_dtype(dtype: torch.dtype, allowed: float) -> None:
    right = torch.full((3,), 8.0, dtype=dtype)
    assert not weights_differ(right.double() * (1 + 0.9 * allowed), right)
    assert weights_differ(right.double() * (1 + 1.1 * allowed), right)


def test_tolerance_is_relative_to_the_largest_tensor_of_its_kind() -> None:
    big, noise = torch.tensor([1e3], dtype=torch.float64), torch.tensor([1e-9], dtype=torch.float64)
    assert not compare([observed(model={"a": big, "b": noise})], observed(model={"a": big, "b": torch.zeros_like(noise)})).differences
    assert weights_differ(noise, 2 * noise)


def test_own_tolerance_and_bits() -> None:
    right = torch.ones(3, dtype=torch.float64)
    assert not weights_differ(right * 1.01, right, tolerance=0.02)
    assert weights_differ(right * (1 + 1e-12), right, bit_equal=True) and not weights_differ(right.clone(), right, bit_equal=True)
    assert weights_differ(right.float(), right, bit_equal=True) and not weights_differ(right.float(), right)


def test_nan_equals_nan_only() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert not weights_differ(nan.clone(), nan)
    assert weights_differ(torch.tensor([0.0, 1.0]), nan) and weights_differ(nan, torch.tensor([0.0, 1.0]))


def test_no_gradient_counts_as_zeros() -> None:
    with_zeros, without = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (with_zeros * 0).sum().backward()
    for mine, right in ((with_zeros, without), (without, with_zeros)):
        assert not compare([observed(model={"a": mine})], observed(model={"a": right})).differences


def test_losses_are_weighted_by_counts_or_summed() -> None:
    ranks = [observed(loss=4.0, count=1), observed(loss=1.0, count=3), observed(loss=float("nan"), count=0)]
    assert not compare(ranks, observed(loss=1.75)).differences
    assert compare(ranks, observed(loss=2.5)).differences
    assert not compare(ranks[:2], observed(loss=5.0), Rules(combine="sum")).differences


# -- notes and reports ---------------------------------------------------------------------------------------------------


def test_notes_are_copies() -> None:
    x = torch.zeros(2)
    seen = observed(outputs=x)
    x += 1
    assert torch.equal(seen[0].outputs, torch.zeros(2))  # type: ignore[arg-type]


def test_wrong_notes() -> None:
    note = Note()
    note(0)
    with pytest.raises(ValueError, match=re.escape("note(0, ...): this step has been noted already")):
        note(0)
    with pytest.raises(ValueError, match="the loss is one number"):
        note(1, loss=torch.ones(2))
    with pytest.raises(ValueError, match="nothing was noted"):
        pk.same_as_serial(RanksOfThisProcess(2), lambda comm, note: None, lambda note: None)


def test_random_state_is_as_before() -> None:
    before = torch.random.get_rng_state()
    pk.same_as_serial(RanksOfThisProcess(2), lambda comm, note: note(0, outputs=torch.rand(3)), lambda note: note(0, outputs=torch.rand(3)))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_badge_says_it_in_text_and_html() -> None:
    good = Report(compare([observed(loss=1.0)], observed(loss=1.0)), 1, 1, "equal within 1e-05")
    assert repr(good) == "✓ same as serial\n  1 rank, 1 step; 1 tensor compared: loss; equal within 1e-05"
    assert "✓ same as serial</span>" in good._repr_mimebundle_()["text/html"] and bool(good)

    bad = Report(compare([observed(loss=1.0, outputs=X), observed(loss=1.0, outputs=X + 1)], observed(loss=1.0, outputs=X)), 2, 1, "")
    assert repr(bad).splitlines()[:2] == ["✗ not same as serial", "  first at step 0, rank 1: output is 1 at [0], in one process 0; largest error 1"]
    html = bad._repr_mimebundle_()["text/html"]
    assert "✗ not same as serial</span>" in html and "<td>output</td>" in html and not bad


@pytest.mark.live
def test_an_error_on_a_rank_is_that_error(live_world: LiveWorld) -> None:
    def fails(comm: Any, note: Note) -> None:
        raise ValueError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        pk.same_as_serial(live_world(2), fails, lambda note: None)
