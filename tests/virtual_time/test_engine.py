"""The one-port model, by hand: when messages begin and end, who waits for whom."""

from __future__ import annotations

import pytest

from partkit.cluster import Cluster, Link
from partkit.virtual_time import Engine, Entry, Side
from partkit.virtual_time.program import meet

SECOND = Link(latency=1.0, bandwidth=1.0)
"""A message of n bytes takes 1 + n seconds."""


def message(src: int, dst: int, nbytes: int = 0) -> tuple[Side, Side]:
    send, recv = Side(src, dst, nbytes, True), Side(dst, src, nbytes, False)
    meet(send, recv)
    return send, recv


def times(*lists: list[Entry]) -> list[list[float]]:
    engine = Engine(len(lists), Cluster(link=SECOND).network(len(lists)))
    for own, entries in zip(engine.lists, lists, strict=True):
        own.extend(entries)
    assert engine.run() is None
    return engine.times


def test_a_message_begins_when_both_sides_are_posted() -> None:
    s, r = message(0, 1, 2)
    assert times([s, s], [5.0, r, 0.5, r]) == [[0, 0, 8], [0, 5, 5, 5.5, 8]]


def test_a_rank_sends_and_receives_at_once() -> None:
    (s, r), (t, q) = message(0, 1), message(1, 0)
    assert [own[-1] for own in times([q, s, q, s], [r, t, r, t])] == [1, 1]


def test_a_rank_sends_one_message_at_a_time_in_the_order_of_being_ready() -> None:
    """Rank 0 posts to 1, 2, 3; rank 3 is there first, then 2, then 1: the out-port serves them in that order."""
    pairs = [message(0, dst) for dst in (1, 2, 3)]
    sends = [s for s, _ in pairs]
    found = times([*sends, *sends], [0.75, pairs[0][1], pairs[0][1]], [0.5, pairs[1][1], pairs[1][1]], [pairs[2][1], pairs[2][1]])
    assert [own[-1] for own in found[1:]] == [3, 2, 1]


def test_who_waits_for_a_busy_port_does_not_hold_up_who_does_not() -> None:
    """0 -> 2 waits for 2's in-port, which 1 keeps until 10; 0 -> 3 becomes ready later and goes first."""
    (a, ra), (b, rb), (c, rc) = message(1, 2, 9), message(0, 2), message(0, 3)
    found = times([0.5, b, 0.5, c, c, b], [a, a], [ra, rb, ra, rb], [rc, rc])
    assert found[3][-1] == 2.0 and found[1][-1] == 10.0 and found[0][-1] == found[2][-1] == 11.0


def test_ties_go_to_the_lower_rank() -> None:
    """0 and 1 are both ready for rank 2 at time 1, where both receives are posted already."""
    (a, ra), (b, rb) = message(1, 2), message(0, 2)
    found = times([1.0, b, b], [1.0, a, a], [ra, rb, ra, rb])
    assert (found[0][-1], found[1][-1]) == (2, 3)


def test_a_message_to_oneself_takes_no_time() -> None:
    s, r = message(0, 0, 10**6)
    assert times([s, r, s, r]) == [[0, 0, 0, 0, 0]]


def test_what_never_meets_never_ends() -> None:
    s, r = message(0, 1)
    assert times([s, s, 1.0], []) == [[0, 0], [0]]
    assert r.end == s.end == float("inf")


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_rank_that_asks_is_told_in_the_order_of_time(size: int) -> None:
    engine = Engine(size, Cluster(link=SECOND).network(size))
    for rank in range(size):
        engine.lists[rank].append(float(size - rank))
        engine.asking.add(rank)
    assert [engine.run(()) if turn else engine.run() for turn in range(size)] == list(reversed(range(size)))
    assert engine.run() is None
