"""The closed forms of reduce-scatter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, Link
from partkit.cluster.cost import Cost
from partkit.cluster.costs.rounds import reduce_scatter_ring
from partkit.partition import block_sizes

LINK = Link(latency=1e-6, bandwidth=1e9)
REDUCE_SCATTER = COSTS["reduce_scatter"]


@given(st.integers(0, 100), st.integers(1, 17))
def test_the_ring_is_the_sum_of_its_messages(numel: int, size: int) -> None:
    blocks = [4 * n for n in block_sizes(numel, size)]
    listed, closed = Cost.of_rounds(reduce_scatter_ring(blocks, range(size)), size, LINK), REDUCE_SCATTER["ring"](numel, 4, size, LINK)
    assert closed[:3] == listed[:3]
    assert closed.seconds == pytest.approx(listed.seconds, rel=1e-12)


@given(st.integers(0, 20), st.integers(0, 4))
def test_halving_moves_as_little_as_the_ring_in_log2_steps(multiple: int, exponent: int) -> None:
    size = 2**exponent
    ring, halving = (REDUCE_SCATTER[name](multiple * size, 4, size, LINK) for name in ("ring", "recursive_halving"))
    assert halving.bytes_sent == ring.bytes_sent
    assert halving.steps == exponent and halving.messages == (exponent,) * size
    assert halving.seconds == pytest.approx(exponent * LINK.latency + halving.bytes_sent[0] / LINK.bandwidth)


@pytest.mark.parametrize("algorithm", REDUCE_SCATTER)
def test_one_rank_sends_nothing(algorithm: str) -> None:
    assert REDUCE_SCATTER[algorithm](10, 4, 1, LINK) == ((0,), (0,), 0, 0.0)
