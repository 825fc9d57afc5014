"""A sweep calls every algorithm equally often at every size, and the explorer finds its points."""

from __future__ import annotations

from collections import Counter

import pytest

from partkit.cluster import COSTS
from partkit.collectives.all_reduce import ALGORITHMS
from partkit.collectives.sweep import sweep
from partkit.figures.cost_points import points
from partkit.worlds.errors import RankError
from partkit.worlds.world import World


def test_all_algorithms_take_turns_at_all_sizes(world4: World) -> None:
    world4.run(sweep, "all_reduce", None, (0, 400), 2)
    found = points(world4.trace)
    assert {(point.algorithm, point.nbytes) for point in found} == {(name, nbytes) for name in ALGORITHMS for nbytes in (4, 400)}
    assert all(point.ranks == 4 and point.runs == 2 and 0 < point.low <= point.median <= point.high for point in found)
    calls = Counter((event.rank, event.tag) for event in world4.trace.events if event.kind == "collective")
    assert set(calls.values()) == {2 * 3}  # two sizes, a warm-up and two runs


@pytest.mark.parametrize("operation", list(COSTS))
def test_every_collective_with_a_known_cost_can_be_swept(world4: World, operation: str) -> None:
    """Rooted ones, those that cut their tensor, those that share a module, and the one without a tensor."""
    world4.run(sweep, operation, None, (1200,), 1)
    found = {point.algorithm for point in points(world4.trace) if point.operation == operation}
    assert found - {"native"} == set(COSTS[operation])


@pytest.mark.parametrize(
    ("operation", "sizes", "runs", "words"),
    [("all_sum", (4,), 1, "there is no such collective"), ("all_reduce", (-4,), 1, "sizes are at least 0"), ("all_reduce", (4,), 0, "runs at least 1")],
)
def test_refusals(world4: World, operation: str, sizes: tuple[int, ...], runs: int, words: str) -> None:
    with pytest.raises(RankError, match=words):
        world4.run(sweep, operation, None, sizes, runs)
