"""Hints, each from a made-up difference: what one mistake leaves behind, and beside it what looks like it and is another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from partkit.serial_twin.evidence import START
from partkit.serial_twin.hints import Clue, hint
from partkit.serial_twin.pairs import Pair, What

RIGHT = torch.tensor([1.0, -2.0, 4.0], dtype=torch.float64)
OTHER = torch.tensor([0.3, 0.7, -0.2], dtype=torch.float64)


def pair(what: What, mine: Any, right: Tensor = RIGHT, *, step: int = 0, rank: int | None = 0, name: str = "w", where: Any = ()) -> Pair:
    """A rank's tensor beside the right one."""
    return Pair(step, what, rank, name, mine, right, where, tuple(right.shape), 1.0)


def told(*pairs: Pair, at: int = 0, counts: tuple[int, ...] = (2, 2), wrong: tuple[Pair, ...] | None = None) -> str:
    """The hint for one of the pairs, the first by default; ``wrong``: those that differ, by default all that do."""
    differ = tuple(p for p in pairs if p.mine is None or p.mine.shape != p.right.shape or not torch.equal(p.mine, p.right))
    return hint(Clue(pairs[at], pairs, differ if wrong is None else wrong, counts, 1e-12))


def replicas(what: What, *tensors: Tensor, right: Tensor = RIGHT, step: int = 0, name: str = "w") -> list[Pair]:
    """The same tensor on several ranks."""
    return [pair(what, x, right, step=step, rank=rank, name=name) for rank, x in enumerate(tensors)]


# -- gradients -------------------------------------------------------------------------------------------------------


def test_nothing_arrived() -> None:
    assert told(pair("gradient", None)).startswith("no gradient arrived")
    assert "no gradient arrived" not in told(pair("gradient", 2 * RIGHT))


def test_another_shape() -> None:
    assert told(pair("weight", RIGHT[:2])).startswith("its shape is [2], in one process [3]")


@pytest.mark.parametrize(
    ("times", "counts", "words"),
    [
        (3, (2, 2, 2), "exactly 3 times too large, the number of ranks: a sum over ranks that was not divided"),
        (1 / 3, (2, 2, 2), "exactly 3 times too small, the number of ranks: divided once too often"),
        (9, (2, 2, 2), "exactly 9 times too large, the square of the number of ranks: summed over the ranks twice"),
        (12, (4, 4, 4), "exactly 12 times too large, the number of items: the loss is a sum over them"),
        (4, (4, 4, 4), "exactly 4 times too large, the items of a rank: the loss is a sum over them"),
        (-1, (4, 4, 4), "the sign is wrong"),
        (5, (4, 4, 4), "exactly 5 times too large: micro-batches, or accumulated steps, were summed without weights"),
        (1 / 5, (4, 4, 4), "exactly 5 times too small: divided once too often, by the number of micro-batches"),
        (1.3, (4, 4, 4), "exactly 1.3 times the right one"),
    ],
)
def test_a_multiple_of_the_right_gradient(times: float, counts: tuple[int, ...], words: str) -> None:
    assert told(*replicas("gradient", *[times * RIGHT] * len(counts)), counts=counts).startswith(words)


def test_what_is_nearly_a_multiple_is_none() -> None:
    for mine in (3 * RIGHT + torch.tensor([0.0, 0.0, 1e-3]), 3 * RIGHT + torch.tensor([0.0, 0.0, 1e-8]), RIGHT * (1 + 1e-5), OTHER):
        assert "exactly" not in told(*replicas("gradient", mine, mine, mine), counts=(2, 2, 2))
    near = 3.001 * RIGHT
    assert told(*replicas("gradient", near, near, near), counts=(2, 2, 2)) == "exactly 3.001 times the right one"


def test_of_a_parameter_on_one_rank_alone_no_sum_over_ranks_is_told() -> None:
    assert "number of ranks" not in told(pair("gradient", 2 * RIGHT))
    assert "number of ranks" in told(pair("loss", 2 * RIGHT, rank=None, name=""))  # a loss is always of all ranks


def test_nothing_is_told_of_multiples_where_there_are_none() -> None:
    zero = torch.zeros(3, dtype=torch.float64)
    assert told(*replicas("gradient", OTHER, OTHER, right=zero)) == ""
    assert told(*replicas("gradient", OTHER, -OTHER, right=zero)) == ""  # that nothing is left proves little
    complex_right = RIGHT.to(torch.complex128)
    assert told(*replicas("gradient", 2 * complex_right, 2 * complex_right, right=complex_right)) == ""


@pytest.mark.parametrize(
    ("parts", "counts", "way"),
    [
        ([RIGHT + OTHER, RIGHT - OTHER], (2, 2), "their mean is the right one"),
        ([1.5 * RIGHT, 0.5 * RIGHT], (2, 2), "their mean is the right one"),  # not: a multiple
        ([OTHER, RIGHT - OTHER], (2, 2), "their sum is the right one"),
        ([RIGHT + OTHER, RIGHT - 3 * OTHER], (3, 1), "their mean, weighted by counts, is the right one"),
    ],
)
def test_never_reduced(parts: list[Tensor], counts: tuple[int, ...], way: str) -> None:
    assert f"each rank has its own gradient, and {way}: it was never reduced over the ranks" in told(*replicas("gradient", *parts), counts=counts)


def test_ranks_that_agree_have_been_reduced() -> None:
    assert "never reduced" not in told(*replicas("gradient", RIGHT / 2, RIGHT / 2))  # their sum would be right


def test_other_pieces_of_a_tensor_are_no_replicas() -> None:
    """Two ranks that hold different parts: their mean is nobody's."""
    first, second = (pair("gradient", RIGHT + sign * OTHER, rank=rank, where=(rank,)) for rank, sign in enumerate((1, -1)))
    assert "never reduced" not in told(first, second)


def test_one_parameter_forgotten() -> None:
    own = replicas("gradient", RIGHT + OTHER, RIGHT - OTHER)
    later = replicas("gradient", OTHER, OTHER, step=1, name="other")
    assert "so this one was forgotten" in told(*own, *replicas("gradient", RIGHT, RIGHT, name="other"), *later)
    assert "forgotten" not in told(*own, *replicas("gradient", OTHER, OTHER, name="other"))


@pytest.mark.parametrize(("before", "after", "averaged"), [(True, True, True), (False, True, False), (True, False, False)])
def test_weights_averaged_instead(before: bool, after: bool, averaged: bool) -> None:
    """The ranks' weights are equal before the step and after it, though gradients were not."""
    weights = [x for step, equal in ((1, before), (2, after)) for x in replicas("weight", OTHER, OTHER if equal else RIGHT, step=step)]
    found = told(*replicas("gradient", RIGHT + OTHER, RIGHT - OTHER, step=1), *weights)
    assert ("weights are averaged instead" in found) == averaged and "never reduced" in found


def test_the_gradient_of_the_step_before_is_still_in_it() -> None:
    before = [pair("gradient", RIGHT, step=0, name="other"), *replicas("gradient", OTHER, 5 * OTHER, right=OTHER)]
    strangers = [before[0], pair("gradient", OTHER, step=0, rank=1), pair("weight", OTHER, step=0), pair("gradient", OTHER, step=-1)]
    assert "plus that of the step before: call zero_grad()" in told(*replicas("gradient", RIGHT + OTHER, RIGHT + OTHER, step=1), *before)
    assert "step before" not in told(*replicas("gradient", RIGHT + OTHER, RIGHT + OTHER, step=1), *strangers)
    assert "step before" not in told(*replicas("gradient", RIGHT - OTHER, RIGHT - OTHER, step=1), *before)


def test_the_step_before_comes_before_other_reasons() -> None:
    """Twice the right gradient is, where gradients do not change, the one with that before."""
    before = replicas("gradient", RIGHT, RIGHT)
    assert "zero_grad" in told(*replicas("gradient", 2 * RIGHT, 2 * RIGHT, step=1), *before)


def test_a_mean_of_means() -> None:
    agreed = replicas("gradient", OTHER, OTHER)
    assert told(*agreed, counts=(3, 1)).startswith("ranks have different numbers of items (3, 1): the mean of their means")
    assert told(*agreed, counts=(2, 2)) == ""
    assert told(*replicas("gradient", OTHER, RIGHT + 7), counts=(3, 1)) == ""
    assert told(pair("gradient", OTHER), counts=(3, 1)) == ""


# -- weights ---------------------------------------------------------------------------------------------------------


def test_an_unequal_start() -> None:
    assert told(*replicas("weight", OTHER, RIGHT, step=START)).startswith("the replicas start unequal: broadcast rank 0's parameters")
    assert told(*replicas("weight", OTHER, OTHER, step=START)).startswith("the ranks agree, but the serial run starts from other weights")
    assert "start" not in told(*replicas("weight", RIGHT + OTHER, RIGHT - OTHER)).split(":")[0]


@pytest.mark.parametrize(
    ("parts", "counts"), [([RIGHT + OTHER, RIGHT - OTHER], (2, 2)), ([RIGHT + OTHER, RIGHT - OTHER], (3, 1)), ([RIGHT + OTHER, RIGHT - 3 * OTHER], (3, 1))]
)
def test_a_step_before_the_reduction(parts: list[Tensor], counts: tuple[int, ...]) -> None:
    before = replicas("weight", RIGHT, RIGHT, step=-1, right=RIGHT)
    assert "each rank stepped with its own gradient; reduce first" in told(*replicas("weight", *parts), *before, counts=counts)
    assert "reduce first" not in told(*replicas("weight", OTHER, OTHER), *before)
    assert "reduce first" not in told(*replicas("weight", RIGHT + OTHER, RIGHT + 2 * OTHER), *before)


def test_a_step_before_the_reduction_is_no_other_learning_rate() -> None:
    """Though each rank's update is a multiple of the right one."""
    start = replicas("weight", RIGHT, RIGHT)
    target = RIGHT - 0.1 * OTHER
    assert "reduce first" in told(*replicas("weight", RIGHT - 0.15 * OTHER, RIGHT - 0.05 * OTHER, right=target, step=1), *start)


def test_another_learning_rate() -> None:
    start = replicas("weight", RIGHT, RIGHT, right=RIGHT)
    target = RIGHT - 0.1 * OTHER
    found = told(*replicas("weight", target, RIGHT - 0.2 * OTHER, right=target, step=1), *start, at=1)
    assert found == "the gradient is right, the update is 2 times the right one: the learning rate of rank 1 is another"
    both = told(*replicas("weight", RIGHT - 0.3 * OTHER, RIGHT - 0.3 * OTHER, right=target, step=1), *start)
    assert both.endswith("is 3 times the right one: the learning rate of all ranks is another")
    assert "learning rate" not in told(*replicas("weight", RIGHT + 0.1 * RIGHT, target, right=target, step=1), *start)


def test_another_optimizer() -> None:
    later = replicas("weight", OTHER, OTHER, step=3)  # wrong too, later, on all ranks
    assert "the optimizer of rank 0 has another setting or history" in told(*replicas("weight", OTHER, RIGHT), *later)
    assert "the optimizer of rank 0 has" in told(pair("weight", OTHER), counts=(2,))


# -- outputs, loss, buffers --------------------------------------------------------------------------------------------


def test_outputs_of_other_rows() -> None:
    rows = torch.arange(8.0, dtype=torch.float64).reshape(4, 2) ** 2 + 1
    first, second = pair("output", rows[:2], rows[:2], where=(0, 1), name=""), pair("output", rows[:2], rows[2:], rank=1, where=(2, 3), name="")
    assert (
        told(first, second, at=1)
        == "these are the outputs of rows [0, 1] of the batch, expected were rows [2, 3]: this rank works on the wrong share of the data"
    )
    mixed = second._replace(mine=torch.stack([rows[0], rows[1] + 0.5]))
    assert told(first, mixed, at=1).startswith("the forward pass differs")
    earlier = pair("output", rows[:2] + 9, rows[:2] + 9, step=-1, where=(0, 1), name="")
    assert told(earlier, second._replace(mine=rows[:2] + 9), at=1).startswith("the forward pass differs")  # rows of another step do not count


def test_outputs_off_by_rounding_are_no_other_rows() -> None:
    rows = torch.arange(4.0, dtype=torch.float64).reshape(2, 2) + 1
    assert told(pair("output", rows * (1 + 5e-12), rows, where=(0, 1), name="")).startswith("the forward pass differs")


def test_nothing_more_is_known_of_outputs() -> None:
    start, wrong = pair("weight", RIGHT, step=START), pair("output", OTHER, where=(0, 1, 2), name="")
    assert "or the replicas started unequal" in told(wrong) and "started unequal" not in told(wrong, start)
    assert "weights were right after the step before" in told(wrong, start) and "step before" not in told(wrong)


@pytest.mark.parametrize(("dtype", "name"), [(torch.float16, "float16"), (torch.bfloat16, "bfloat16")])
@pytest.mark.parametrize("what", ["output", "gradient", "weight"])
def test_numbers_that_were_cast(what: Any, dtype: torch.dtype, name: str) -> None:
    right = torch.tensor([0.1, -0.77, 3.14159], dtype=torch.float64)
    cast = right.to(dtype).to(torch.float64)
    where = (0, 1, 2) if what == "output" else ()
    assert told(pair(what, cast, right, where=where, name="" if what == "output" else "w")).startswith(f"every number is exactly a {name}, so it was cast on")
    assert "exactly a" not in told(pair(what, 8 * cast + 1, right, where=where))  # numbers of that type, but not the right ones
    assert "exactly a" not in told(pair(what, cast.to(dtype) + 1, right.to(dtype), where=where))  # so they are in one process


def test_another_loss() -> None:
    right = torch.tensor(2.0, dtype=torch.float64)
    assert told(pair("loss", right * 2, right, rank=None, name="")).startswith("exactly 2 times too large, the number of ranks")
    assert "weighted by counts 2, 2" in told(pair("loss", right - right, right, rank=None, name=""))


def test_buffers() -> None:
    assert told(*replicas("buffer", OTHER, RIGHT)).startswith("each rank keeps its own buffer")
    assert told(*replicas("buffer", OTHER, OTHER)).startswith("the ranks agree on another value")
