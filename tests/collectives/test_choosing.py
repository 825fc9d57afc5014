"""Which algorithm "auto" takes, and that it says why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, Link
from partkit.collectives.choosing import choose


@given(st.sampled_from(sorted(COSTS)), st.integers(0, 10**8), st.integers(1, 17), st.floats(0, 1e-2), st.floats(1e6, 1e12))
def test_nothing_is_faster_than_what_is_chosen(operation: str, nbytes: int, size: int, latency: float, bandwidth: float) -> None:
    link = Link(max(latency, 1e-7), bandwidth)
    choice = choose(operation, nbytes, size, link)
    assert set(choice.seconds) == set(COSTS[operation])
    times = {name: choice.seconds[name] + choice.local[name] for name in choice.seconds}
    assert times[choice.best] <= min(times.values()) * (1 + 1e-8)
    assert choice.seconds[choice.best] == COSTS[operation][choice.best](nbytes, 1, size, link).seconds


def test_latency_and_bandwidth_decide() -> None:
    assert choose("all_reduce", 100, 8, Link(1e-4, 1e9)).best == "recursive_doubling"
    assert choose("all_reduce", 10**8, 8, Link(1e-4, 1e9)).best in ("halving_doubling", "hierarchical")
    assert choose("broadcast", 10**9, 8, Link(1e-6, 1e9)).best == "chain"


def test_equals_do_not_alternate_with_the_size() -> None:
    """Rounding in the last digit makes now one, now the other of two equal times smaller."""
    link = Link(2e-4, 1e9)
    assert {choose("all_gather", 2**e, 4, link).best for e in range(8, 27)} == {"recursive_doubling"}


def test_a_choice_says_why() -> None:
    lines = repr(choose("all_to_all", 4_000_000, 4, Link(1e-3, 1e6))).splitlines()
    assert lines[0] == "all_to_all of 4,000,000 bytes on 4 ranks; a message: 0.001 s + bytes / 1e+06 bytes/s"
    assert [line.split() for line in lines[1:]] == [
        ["messages", "+", "adding,", "copying"],
        ["pairwise", "3,003,000.0", "us", "+", "300.0", "us", "<-", "chosen"],
        ["bruck", "4,002,000.0", "us", "+", "2,400.0", "us", "1.33", "times"],
    ]


def test_an_unknown_operation_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"choose\(operation='allreduce'\): operation is one of .*'all_reduce'"):
        choose("allreduce", 1, 2)
