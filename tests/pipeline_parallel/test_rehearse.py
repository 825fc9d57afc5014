"""Rehearsed on simulated ranks a schedule takes what is planned; on live ones it does what the plan says, in its order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import partkit as pk
from partkit.pipeline_parallel import SCHEDULES, Costs, add_communication, make, simulate
from partkit.pipeline_parallel.rehearse import rehearse
from partkit.worlds.errors import RankError

COSTS = Costs(forward=1.1, backward_input=1.3, backward_weight=0.7, step=0.2, activation_bytes=80)


def computed(trace: pk.Trace) -> list[tuple[int, str, float, float]]:
    return sorted((event.rank, event.tag, event.start, event.end) for event in trace.events if event.kind == "compute" and event.end > event.start)


@pytest.mark.parametrize("name", [name for name in SCHEDULES if not name.startswith("dual")])
def test_on_simulated_ranks_it_is_the_plan(name: str) -> None:
    schedule, link = make(name, 4, 4), pk.Link(0.05, 1e3)
    with pk.SimulatedWorld(4, pk.Cluster(link=link)) as world:
        world.run(rehearse, add_communication(schedule), COSTS)
        assert computed(world.trace) == computed(simulate(schedule, COSTS, link))


def test_a_world_of_another_size_is_refused() -> None:
    with pk.SimulatedWorld(3) as world, pytest.raises(RankError, match="a schedule of 2 ranks on a world of 3"):
        world.run(rehearse, add_communication(make("gpipe", 2, 2)))


def test_live_ranks_keep_the_order_of_their_lists(live_world: Callable[[int], pk.World]) -> None:
    schedule = make("one_f_one_b", 2, 3)
    world = live_world(2)
    world.run(rehearse, add_communication(schedule), COSTS, 0.001)
    for rank in range(2):
        names = [event.tag for event in sorted(world.trace.events, key=lambda event: event.start) if event.kind == "compute" and event.rank == rank]
        assert names == [str(action) for action in schedule.ranks[rank]]
    assert world.trace.num_messages() == 6
