"""The checker of the cost exercise: a formula is taken apart, and told which half is wrong."""

from __future__ import annotations

from math import log2
from typing import Any

import pytest

from partkit.cluster import Link
from partkit.labs import check_cost
from tests.labs.solutions import halving_doubling_seconds as right


def ring_instead(numel: int, itemsize: int, size: int, link: Link) -> float:
    return 2 * (size - 1) * link.seconds(numel * itemsize / size)


def no_itemsize(numel: int, itemsize: int, size: int, link: Link) -> float:
    return right(numel, 1, size, link)


def bits(numel: int, itemsize: int, size: int, link: Link) -> float:
    return right(numel, 8 * itemsize, size, link)


def one_way(numel: int, itemsize: int, size: int, link: Link) -> float:
    return right(numel, itemsize, size, link) / 2


def whole_tensors(numel: int, itemsize: int, size: int, link: Link) -> float:
    return 2 * log2(size) * link.seconds(numel * itemsize)


def whichever_is_longer(numel: int, itemsize: int, size: int, link: Link) -> float:
    steps = size.bit_length() - 1
    return max(2 * steps * link.latency, 2 * (size - 1) / size * numel * itemsize / link.bandwidth)


def one_rank_too(numel: int, itemsize: int, size: int, link: Link) -> float:
    return right(numel, itemsize, size, link) + link.latency


def test_a_right_formula_is_solved() -> None:
    verdict = check_cost(right)
    assert verdict, verdict
    assert verdict.exercise == "cost of all_reduce, halving_doubling"


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (ring_instead, "4 ranks: your cost has 6 messages one after the other (times link.latency); it must be 4"),
        (
            no_itemsize,
            "2 ranks: your cost has 61440 bytes one after the other (over link.bandwidth); it must be 245760; elements have",
        ),
        (bits, "2 ranks: your cost has 1966080 bytes one after the other (over link.bandwidth); it must be 245760; these are bits: do not multiply by 8"),
        (one_way, "2 ranks: your cost has 1 message one after the other (times link.latency); it must be 2"),
        (whole_tensors, "2 ranks: your cost has 491520 bytes one after the other (over link.bandwidth); it must be 245760"),
        (whichever_is_longer, "2 ranks: messages and bytes are right, but not their sum"),
        (one_rank_too, "1 rank: your cost is 5e-05 s on a real link; it must be nothing, since one rank sends no message"),
        (lambda numel, itemsize, size, link: None, "1 rank: your function gives None; it must give a number of seconds"),
        (lambda numel, itemsize, size, link: 1 / (size - 1), "your function raised ZeroDivisionError: division by zero"),
        (
            lambda n, item, size, link: link.latency * (size - 1) + n * item * (size - 1) * link.bandwidth,
            "1 rank: your function gives nan; it must give a number of seconds; divide bytes by link.bandwidth",
        ),
        (lambda x: 0.0, "your function raised TypeError"),
    ],
)
def test_each_mistake_is_told_in_words(learner: Any, words: str) -> None:
    verdict = check_cost(learner)
    assert not verdict
    assert words in "\n".join(finding.text for finding in verdict.findings), verdict


def test_any_algorithm_can_be_asked_for() -> None:
    assert check_cost(ring_instead, "all_reduce", "ring")
    assert check_cost(lambda numel, itemsize, size, link: (size - 1).bit_length() * link.seconds(numel * itemsize), "broadcast", "tree", sizes=(1, 3, 5, 8))


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="give the function itself"):
        check_cost(3.0)  # type: ignore[arg-type]


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"algorithm='rung'\): choose one of .*all_reduce/ring"):
        check_cost(right, "all_reduce", "rung")
