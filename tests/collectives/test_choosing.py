"""Which algorithm "auto" takes, and that it says why."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, LAPTOP_CORE, LOOPBACK, Link
from partkit.cluster.costs.local import local_bytes
from partkit.collectives.choosing import choose

OWN = replace(LOOPBACK, channels=None)
"""The same numbers, but a link for each pair of ranks."""


@given(
    st.sampled_from(sorted(COSTS)),
    st.integers(0, 10**8),
    st.integers(1, 17),
    st.builds(Link, st.floats(1e-7, 1e-2), st.floats(1e6, 1e12), st.none() | st.integers(1, 64)),
)
def test_nothing_is_faster_than_what_is_chosen(operation: str, nbytes: int, size: int, link: Link) -> None:
    choice = choose(operation, nbytes, size, link)
    assert set(choice.seconds) == set(COSTS[operation])
    for name in choice.seconds:
        cost = COSTS[operation][name](nbytes, 1, size, link)
        busiest, together = (3 * nbytes_beside / LAPTOP_CORE.memory_bandwidth for nbytes_beside in local_bytes(operation, name, nbytes, size))
        work = (sum(cost.messages) * link.latency + sum(cost.bytes_sent) / link.bandwidth + together / 2) / (link.channels or math.inf)
        assert (choice.seconds[name], choice.local[name]) == pytest.approx((cost.seconds, busiest))
        assert choice.total(name) == pytest.approx(max(cost.seconds + busiest, work))
        assert choice.total(choice.best) <= choice.total(name) * (1 + 1e-8)


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


def test_ranks_of_one_machine_send_few_messages() -> None:
    """Measured on two cores in ms: broadcast of 1 MB on 8 ranks 5.8 flat, 6.8 by the tree, 12.4 by the chain; all-reduce of 256 kB on 8 ranks 6.3 by
    reduce and broadcast, 9.1 by recursive doubling, 26.8 by the ring."""
    assert choose("broadcast", 8_000_000, 4, OWN).best == "chain"
    assert choose("broadcast", 8_000_000, 4).best == "flat"
    assert choose("all_reduce", 256_000, 8, OWN).best == "recursive_doubling"
    assert choose("all_reduce", 256_000, 8).best == "reduce_broadcast"
    assert choose("all_reduce", 64_000_000, 8).best == "halving_doubling"


def test_many_channels_are_as_good_as_own_links() -> None:
    """8 ranks have 8 messages under way at most: each sends one at a time."""
    for nbytes in (1_000, 1_000_000, 100_000_000):
        assert choose("all_reduce", nbytes, 8, replace(OWN, channels=8)).best == choose("all_reduce", nbytes, 8, OWN).best


def test_of_equal_work_the_simplest_is_chosen() -> None:
    """Flat and tree send the same messages; those that hand on in the tree have to get a core first."""
    choice = choose("broadcast", 1_000, 8)
    assert choice.best == "flat"
    assert choice.total("flat") == pytest.approx(choice.total("tree"))


def test_a_choice_for_shared_channels_says_so() -> None:
    lines = repr(choose("broadcast", 1_000_000, 4, Link(1e-3, 1e9, channels=1))).splitlines()
    assert lines[1].split() == ["messages", "+", "adding,", "copying", "or", "all", "on", "shared", "cores"]
    assert lines[2].split() == ["flat", "6,000.0", "us", "+", "0.0", "us", "6,000.0", "us", "<-", "chosen"]
    assert lines[1].index("cores") + len("cores") == lines[2].rindex("us") + len("us")


def test_an_unknown_operation_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"choose\(operation='allreduce'\): operation is one of .*'all_reduce'"):
        choose("allreduce", 1, 2)


@pytest.mark.parametrize(("nbytes", "size"), [(-1, 2), (1, 0)])
def test_numbers_that_are_too_small_are_refused_by_name(nbytes: int, size: int) -> None:
    with pytest.raises(ValueError, match=rf"choose\(nbytes={nbytes}, size={size}\): nbytes is at least 0, size \(the number of ranks\) at least 1"):
        choose("all_reduce", nbytes, size)
