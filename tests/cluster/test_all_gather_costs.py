"""The closed forms of all-gather against the lists of their messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, Link
from partkit.cluster.cost import Cost
from partkit.cluster.costs.all_gather import ROUNDS

LINK = Link(latency=1e-6, bandwidth=1e9)
ALL_GATHER = COSTS["all_gather"]


def test_every_algorithm_has_its_list_of_messages() -> None:
    assert list(ROUNDS) == list(ALL_GATHER)


@given(st.sampled_from(sorted(ALL_GATHER)), st.integers(0, 100), st.integers(1, 17))
def test_the_closed_form_is_the_sum_of_the_messages(algorithm: str, numel: int, size: int) -> None:
    listed, closed = Cost.of_rounds(ROUNDS[algorithm]([4 * numel] * size), size, LINK), ALL_GATHER[algorithm](numel, 4, size, LINK)
    assert closed[:3] == listed[:3]
    assert closed.seconds == pytest.approx(listed.seconds, rel=1e-12)


@given(st.sampled_from(sorted(ROUNDS)), st.lists(st.integers(0, 9), min_size=1, max_size=17))
def test_everyone_receives_all_pieces_but_its_own(algorithm: str, pieces: list[int]) -> None:
    size, received = len(pieces), [0] * len(pieces)
    for round_ in ROUNDS[algorithm](pieces):
        for _, dst, nbytes in round_:
            received[dst] += nbytes
    if algorithm != "recursive_doubling" or size & (size - 1) == 0:
        assert received == [sum(pieces) - piece for piece in pieces]
    else:
        assert all(got >= sum(pieces) - piece for got, piece in zip(received, pieces, strict=True))


@pytest.mark.parametrize("algorithm", ALL_GATHER)
def test_one_rank_sends_nothing(algorithm: str) -> None:
    assert ALL_GATHER[algorithm](10, 4, 1, LINK) == ((0,), (0,), 0, 0.0)
