"""The best number of segments for a pipeline of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import Link
from partkit.cluster.segments import num_segments


@given(st.integers(0, 400), st.sampled_from([1, 4, 8]), st.integers(0, 20), st.floats(1e-9, 1e-3), st.floats(1e3, 1e10))
def test_no_other_number_is_faster(numel: int, itemsize: int, fill: int, latency: float, bandwidth: float) -> None:
    link = Link(latency, bandwidth)

    def seconds(segments: int) -> float:
        return (fill + segments) * (latency + numel * itemsize / (segments * bandwidth))

    best = min(seconds(segments) for segments in range(1, max(1, numel) + 1))
    assert seconds(num_segments(numel, itemsize, fill, link)) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(
    ("numel", "fill", "latency", "segments"),
    [(100, 3, 0.0, 100), (100, 0, 0.0, 1), (0, 3, 1e-6, 1), (1, 3, 1e-6, 1), (10**6, -1, 1e-6, 1), (10**6, 0, 1e-6, 1)],
)
def test_at_the_edges(numel: int, fill: int, latency: float, segments: int) -> None:
    """Without latency every element alone; without a pipeline to fill (two ranks), or without elements, one segment."""
    assert num_segments(numel, 4, fill, Link(latency, 1e9)) == segments
