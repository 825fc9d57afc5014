"""What tests of algorithms ask of simulated ranks: that virtual time is the closed form's, and that a run is the same each time.

    from tests.simulated import assert_costs, simulated

    def test_time(size):
        trace = simulated(size, lambda comm: pk.all_reduce(torch.ones(10), comm, algorithm="ring"), LINK)
        assert_costs(trace, ring_all_reduce(10, 4, size, LINK))          # messages, bytes, seconds

The fixture ``simulated_world(n, link=LINK)`` gives a world of n simulated ranks with that link between any two.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from partkit.cluster import Cluster, Link
from partkit.cluster.cost import Cost
from partkit.tracing import Trace
from partkit.worlds.simulated import SimulatedWorld

LINK = Link(latency=1e-5, bandwidth=1e9)


def simulated(size: int, fn: Callable[..., Any], link: Link = LINK) -> Trace:
    """The trace of ``fn(comm)`` on so many simulated ranks."""
    with SimulatedWorld(size, Cluster(link=link)) as world:
        world.run(fn)
        return world.trace


def assert_costs(trace: Trace, cost: Cost) -> None:
    """A trace of one collective shows what its closed form says: each rank's messages and bytes, and the time to 1e-12."""
    assert tuple(trace.num_messages(rank) for rank in range(trace.size)) == cost.messages
    assert tuple(trace.bytes_sent(rank) for rank in range(trace.size)) == cost.bytes_sent
    assert abs(trace.makespan - cost.seconds) <= 1e-12 * cost.seconds, f"virtual time {trace.makespan!r}, closed form {cost.seconds!r}"


def fingerprint(trace: Trace) -> str:
    """Equal for equal traces: every column of every event, in the order of their arrival."""
    return sha256(trace.columns.tobytes() + "\0".join(trace.strings).encode()).hexdigest()
