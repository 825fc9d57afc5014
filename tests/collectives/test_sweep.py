"""A sweep calls every algorithm equally often at every size, and the explorer finds its points."""

from __future__ import annotations

from collections import Counter

import pytest

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


def test_a_collective_without_a_tensor_is_swept_too(world4: World) -> None:
    world4.run(sweep, "barrier", None, (1000,), 1)
    assert [(point.operation, point.algorithm, point.runs) for point in points(world4.trace)] == [("barrier", "dissemination", 1)]


@pytest.mark.parametrize(
    ("operation", "sizes", "runs", "words"),
    [("all_sum", (4,), 1, "there is no such collective"), ("all_reduce", (-4,), 1, "sizes are at least 0"), ("all_reduce", (4,), 0, "runs at least 1")],
)
def test_refusals(world4: World, operation: str, sizes: tuple[int, ...], runs: int, words: str) -> None:
    with pytest.raises(RankError, match=words):
        world4.run(sweep, operation, None, sizes, runs)
