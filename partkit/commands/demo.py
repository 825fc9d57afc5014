"""``partkit demo``: four live processes add up their tensors by passing chunks round a ring.

What each rank sent is counted in the trace of the run and set beside the closed form of `partkit.cluster`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from partkit.commands import Refusal
from partkit.commands.tables import table

if TYPE_CHECKING:
    from torch import Tensor

    from partkit.communicator import Communicator
    from partkit.tracing import Trace


def run(args: argparse.Namespace) -> int:
    """Start the ranks, reduce, compare. Gives 0 if sums and counts are as predicted."""
    if args.ranks < 1 or args.elements < 0:
        raise Refusal(f"--ranks {args.ranks} --elements {args.elements}: at least 1 rank and 0 elements")
    import torch

    from partkit.worlds.world import World

    with World(args.ranks) as world:
        print(f"{args.ranks} live processes: {', '.join(map(str, world.pids))}")
        sums = world.run(ring_sum, args.elements)
        trace = world.trace
    expected = sum((contribution(rank, args.elements) for rank in range(args.ranks)), torch.zeros(args.elements))
    right = all(torch.equal(x, expected) for x in sums)
    print(f"every rank holds the sum: {'yes' if right else 'NO'}, {expected.tolist()[:6]}{' ...' if args.elements > 6 else ''}\n")
    text, as_predicted = compare(trace, args.ranks, args.elements)
    print(text)
    return 0 if right and as_predicted else 1


def contribution(rank: int, elements: int) -> Tensor:
    """What a rank brings: whole numbers, so that every order of addition gives the same bits."""
    import torch

    return torch.arange(elements, dtype=torch.float32) + 10 * rank


def ring_sum(comm: Communicator, elements: int) -> Tensor:
    """What each rank does."""
    from partkit.collectives.all_reduce import all_reduce

    return all_reduce(contribution(comm.rank, elements), comm, algorithm="ring")


def compare(trace: Trace, ranks: int, elements: int) -> tuple[str, bool]:
    """A table of counted beside predicted, and whether they agree."""
    from partkit.cluster import COSTS

    cost = COSTS["all_reduce"]["ring"](elements, 4, ranks)
    counted = [(trace.num_messages(rank), trace.bytes_sent(rank)) for rank in range(ranks)]
    predicted = list(zip(cost.messages, cost.bytes_sent, strict=True))
    rows = [[f"rank {rank}", *counted[rank], *predicted[rank]] for rank in range(ranks)]
    verdict = "counted = predicted" if counted == predicted else "counted and predicted DIFFER"
    return f"{table(['', 'messages', 'bytes', 'predicted messages', 'predicted bytes'], rows)}\n\n{verdict}", counted == predicted
