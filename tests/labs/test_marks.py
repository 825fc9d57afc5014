"""Marks: what a value says about where it comes from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from partkit.labs.marks import MOST_ELEMENTS, Source, explain, marked, read


@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any), place=st.integers(0, MOST_ELEMENTS - 1))
def test_a_sum_of_marks_is_read_again(counts: list[int], place: int) -> None:
    value = sum(count * float(marked(rank, (MOST_ELEMENTS,))[place]) for rank, count in enumerate(counts))
    assert read(value, len(counts)) == Source(tuple(counts), place)


@pytest.mark.parametrize("value", [0.0, -1.0, 1.0, 277.75, 1111.1, float("nan"), float("inf"), 1e300, float(marked(4, (1,))[0])])
def test_other_numbers_are_no_marks(value: float) -> None:
    assert read(value, 4) is None


def test_explanations() -> None:
    size, total = 3, sum(marked(rank, (4,)) for rank in range(3))
    assert isinstance(total, torch.Tensor)
    assert explain(total, total, size) == ""
    assert explain(total - marked(1, (4,)), total, size) == "element 0 (4 of 4 elements are wrong): the part of rank 1 is missing"
    assert explain(total + marked(1, (4,)), total, size).endswith("the part of rank 1 was added more than once")
    assert "is no sum of whole parts; was something divided" in explain(total / 3, total, size)
    assert explain(total.flip(0), total, size) == (
        "element 0 (4 of 4 elements are wrong): it holds the sum of element 3 of ranks 0-2, it must hold the sum of element 0 of ranks 0-2; "
        "all elements are there, but not in their places"
    )
    assert explain(0 * total, total, size).endswith("it holds 0, so nothing has come in here; it must hold the sum of element 0 of ranks 0-2")
    one = total.clone()
    one[2] = float("nan")
    assert explain(one, total, size).startswith("element 2: nan is no sum of whole parts")


def test_more_elements_than_can_be_told_apart_are_refused() -> None:
    with pytest.raises(ValueError, match=r"marked\(shape=\[41\]\): at most 40 elements"):
        marked(0, (41,))


def test_what_is_right_must_be_made_of_marks() -> None:
    with pytest.raises(ValueError, match="element 0 is no sum of marks"):
        explain(marked(0, (1,)), torch.zeros(1, dtype=torch.float64), 2)
