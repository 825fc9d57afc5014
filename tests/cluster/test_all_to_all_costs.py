"""The closed forms of all-to-all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, Link
from partkit.cluster.costs.all_to_all import all_to_all_v
from partkit.partition import block_sizes

LINK = Link(latency=1e-6, bandwidth=1e9)
ALL_TO_ALL = COSTS["all_to_all"]


@given(st.integers(0, 100), st.integers(1, 17))
def test_pairwise_is_the_case_of_equal_rows(numel: int, size: int) -> None:
    walked, closed = all_to_all_v([block_sizes(numel, size)] * size, 4, LINK), ALL_TO_ALL["pairwise"](numel, 4, size, LINK)
    assert closed[:3] == walked[:3]
    assert closed.seconds == pytest.approx(walked.seconds, rel=1e-12)


@given(st.integers(0, 20), st.integers(1, 4))
def test_bruck_saves_latencies_and_pays_with_bytes(multiple: int, exponent: int) -> None:
    size, nbytes = 2**exponent, 4 * multiple * 2**exponent
    cost = ALL_TO_ALL["bruck"](multiple * size, 4, size, LINK)
    assert cost.messages == (exponent,) * size and cost.steps == exponent
    assert cost.bytes_sent == (exponent * nbytes // 2,) * size
    assert cost.seconds == pytest.approx(exponent * (LINK.latency + nbytes / 2 / LINK.bandwidth))


@pytest.mark.parametrize("size", range(1, 18))
def test_bruck_moves_each_block_once_for_every_bit_of_its_way(size: int) -> None:
    cost = ALL_TO_ALL["bruck"](3 * size, 1, size, LINK)
    assert cost.bytes_sent == (3 * sum(bin(way).count("1") for way in range(size)),) * size


def test_asking_first_costs_one_number_for_each_other_rank() -> None:
    counts = [[1, 2, 3], [0, 0, 0], [4, 0, 4]]
    plain, asked = (all_to_all_v(counts, 4, LINK, ask=ask) for ask in (False, True))
    assert [b - a for a, b in zip(plain.bytes_sent, asked.bytes_sent, strict=True)] == [16] * 3
    assert [b - a for a, b in zip(plain.messages, asked.messages, strict=True)] == [2] * 3


@pytest.mark.parametrize("algorithm", ALL_TO_ALL)
def test_one_rank_sends_nothing(algorithm: str) -> None:
    assert ALL_TO_ALL[algorithm](10, 4, 1, LINK) == ((0,), (0,), 0, 0.0)
