"""Predicted = counted on live ranks, for the collectives whose calls take one tensor of so many float64 numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from partkit.cluster.cost import CostFunction
from partkit.communicator import Communicator
from partkit.worlds.world import World

NUMELS = (0, 1, 10, 30_000)


def assert_live_ranks_send_as_predicted(world: World, call: Callable[[Tensor, Communicator], object], cost: CostFunction, tag: str) -> None:
    """Each rank's messages and bytes are the closed form's, and each call is in the trace with its bytes and its name."""
    world.run(lambda comm: [call(torch.ones(n, dtype=torch.float64), comm) for n in NUMELS] and None)
    costs = [cost(n, 8, world.size) for n in NUMELS]
    for rank in range(world.size):
        assert world.trace.num_messages(rank) == sum(cost.messages[rank] for cost in costs)
        assert world.trace.bytes_sent(rank) == sum(cost.bytes_sent[rank] for cost in costs)
    calls = [(e.nbytes, e.tag) for e in world.trace.events if e.kind == "collective" and e.rank == 1]
    assert calls == [(8 * n, tag) for n in NUMELS]
