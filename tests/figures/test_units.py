"""Numbers as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.figures.units import axis, nbytes, seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (1, "1 s"), (0.9999999, "1 s"), (0.5, "500 ms"), (1.5e-6, "1.5 us"), (2e-12, "0.002 ns"), (-0.25, "-250 ms"), (3600, "3600 s")],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 bytes"), (1000, "1 kB"), (1234567, "1.23 MB"), (10**16, "10 PB")])
def test_bytes(value: int, text: str) -> None:
    assert nbytes(value) == text


def test_an_axis_with_negative_times_and_one_of_no_length() -> None:
    assert axis(-0.001, 0.001, 4).labels == ("-1", "-0.5", "0", "0.5", "1")
    assert axis(0.0, 0.0).labels == ("0",)


@given(st.floats(-1e3, 1e3), st.floats(1e-9, 1e4), st.integers(2, 12))
def test_ticks_are_inside_and_neither_few_nor_many(start: float, width: float, num_ticks: int) -> None:
    marks = axis(start, start + width, num_ticks)
    assert all(start - 1e-6 * width <= tick <= start + width * (1 + 1e-6) for tick in marks.ticks)
    assert num_ticks / 2 - 1 <= len(marks.ticks) <= num_ticks + 1
