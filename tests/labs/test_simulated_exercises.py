"""The exercises of notebook 04: right answers pass, each usual mistake is told in its own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from partkit.cluster import Link
from partkit.labs import check_placement, check_slow_link, check_straggler
from partkit.labs.placement import Place, count_crossings
from partkit.labs.slow_link import Seconds
from partkit.labs.straggler import RUNS, Find
from partkit.tracing import Trace
from partkit.tracing.critical_path import critical_path


def by_node(nodes: Sequence[str]) -> list[int]:
    return sorted(range(len(nodes)), key=lambda rank: nodes[rank])


def test_ranks_of_a_node_side_by_side_are_the_best_ring() -> None:
    verdict = check_placement(by_node)
    assert verdict, verdict
    assert "takes 2 times as long" in repr(verdict) or "times as long in the order of ranks" in repr(verdict)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (lambda nodes: list(range(len(nodes))), "nodes a b a b a b a b: the ring 0 1 2 3 4 5 6 7 crosses 8 times from node to node, 2 times are enough"),
        (lambda nodes: [*range(0, len(nodes), 2), *range(1, len(nodes), 2)], "nodes a a b b a a b b: the ring 0 2 4 6 1 3 5 7 crosses 8 times"),
        (lambda nodes: [rank for rank in range(len(nodes)) if nodes[rank] == "a"], "you return [0, 2, 4, 6]; it must be each of the ranks 0 to 7 once"),
        (lambda nodes: nodes["a"], "your function raised TypeError"),
    ],
)
def test_a_ring_that_crosses_too_often_is_shown(place: Place, words: str) -> None:
    verdict = check_placement(place)
    assert not verdict and words in repr(verdict), verdict


@pytest.mark.parametrize(
    ("nodes", "order", "crossings"), [("aabb", [0, 1, 2, 3], 2), ("abba", [0, 1, 2, 3], 2), ("abc", [0, 1, 2], 3), ("ab", [0, 1], 2), ("a", [0], 0)]
)
def test_crossings_are_counted_all_round(nodes: str, order: list[int], crossings: int) -> None:
    assert count_crossings(nodes, order) == crossings
    assert sum(nodes[order[i - 1]] != nodes[order[i]] for i in range(len(order))) == crossings


def right(nbytes: int, size: int, link: Link, factor: float) -> float:
    return 2 * (size - 1) * factor * link.seconds(nbytes / size)


def test_everybody_waits_for_the_slow_link_in_each_step() -> None:
    verdict = check_slow_link(right)
    assert verdict, verdict


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (lambda n, p, link, f: 2 * (p - 1) * link.seconds(n / p), "gives 900 us, the run takes 2,700 us; this is the time without a slow link"),
        (lambda n, p, link, f: (2 * (p - 1) - 1 + f) * link.seconds(n / p), "the slow link is charged for one step of all"),
        (lambda n, p, link, f: 2 * (p - 1) * (p - 1 + f) / p * link.seconds(n / p), "the loss is shared out among the links"),
        (lambda n, p, link, f: 2 * (p - 1) * (link.latency + f * n / p / link.bandwidth), "the factor is on the bytes or on the latency only"),
        (lambda n, p, link, f: f * link.seconds(n), "4 ranks, one link 3 times slower: your formula gives 1,350 us, the run takes 2,700 us"),
        (lambda n, p, link, f: "long", "your function gives 'long'; it must give a number of seconds"),
        (lambda n, p, link, f: 1 / 0, "your function raised ZeroDivisionError"),
    ],
)
def test_usual_mistakes_about_a_slow_link_are_told(seconds: Seconds, words: str) -> None:
    verdict = check_slow_link(seconds)
    assert not verdict and words in repr(verdict), verdict


def most_on_the_path(trace: Trace) -> int:
    return Counter(step.rank for step in critical_path(trace).steps if step.kind == "compute").most_common(1)[0][0]


def waits_least(trace: Trace) -> int:
    waited = dict.fromkeys(range(trace.size), 0.0)
    for event in trace.events:
        waited[event.rank] += event.end - event.start if event.kind == "recv" else 0.0
    return min(waited, key=lambda rank: waited[rank])


def computes_longest(trace: Trace) -> int:
    worked = Counter[int]()
    for event in trace.events:
        worked[event.rank] += event.end - event.start if event.kind == "compute" else 0.0  # type: ignore[assignment]
    return max(worked, key=lambda rank: worked[rank])


@pytest.mark.parametrize("find", [most_on_the_path, waits_least, computes_longest])
def test_there_are_several_ways_to_find_a_straggler(find: Find) -> None:
    verdict = check_straggler(find)
    assert verdict, verdict


def waits_longest(trace: Trace) -> int:
    waited = Counter[int]()
    for event in trace.events:
        waited[event.rank] += event.end - event.start if event.kind == "recv" else 0.0  # type: ignore[assignment]
    return max(waited, key=lambda rank: waited[rank])


def longest_computation_last(trace: Trace) -> int:
    last = {event.rank: event.end - event.start for event in trace.events if event.kind == "compute"}
    return min(last, key=lambda rank: last[rank])


@pytest.mark.parametrize(
    ("find", "words"),
    [
        (waits_longest, "which computes as fast as most; all wait for another one"),
        (longest_computation_last, "which computes as fast as most"),
        (lambda trace: None, "your function returns None; it must be a rank from 0 to 3"),
        (lambda trace: trace.nobody, "your function raised AttributeError"),
    ],
)
def test_who_names_a_victim_is_told_so(find: Find, words: str) -> None:
    verdict = check_straggler(find)
    assert not verdict and words in repr(verdict), verdict


def test_no_rank_is_the_straggler_twice() -> None:
    """So that a constant can't pass."""
    assert len({run.rank for run in RUNS}) == len(RUNS)


@pytest.mark.parametrize("check", [check_placement, check_slow_link, check_straggler])
def test_what_is_no_function_is_refused(check: object) -> None:
    with pytest.raises(TypeError, match="give the function itself"):
        check(3)  # type: ignore[operator]
