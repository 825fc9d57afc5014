"""Exercise: write your own reduce-scatter, one round of a ring for partial sums.

Block b starts at the rank after its owner, and every rank that it reaches adds its own share, the owner last. With three ranks:

    step     rank 0                 rank 1                 rank 2
     1       sends 2, adds to 1     sends 0, adds to 2     sends 1, adds to 0
     2       sends 1, adds to 0     sends 2, adds to 1     sends 0, adds to 2

Every block but its own leaves a rank once: (p - 1) / p of the tensor. The other direction does as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from partkit.labs.exercise import Exercise, blocks, judge, total
from partkit.labs.rules import one_round
from partkit.labs.traffic import Traffic
from partkit.labs.trial import AnyWorld, Case, Learner
from partkit.labs.verdict import Verdict
from partkit.partition import block_sizes


def check_reduce_scatter(learner: Learner, world: AnyWorld) -> Verdict:
    """Judge ``learner(x, comm)``, a reduce-scatter round a ring.

    Args:
        learner: sums ``x``, which has one dim, over the ranks; rank r returns block r of the sum, of
            ``block_sizes(x.numel(), comm.size)``.
        world: live ranks to try it on; all counts from its size down to 1 are tried, and 8 to 1 simulated ranks.

    Returns:
        A verdict that says in words what is right, and what to look at first.

    Example:
        >>> import partkit as pk
        >>> from partkit.labs import check_reduce_scatter
        >>> with pk.World(2) as world:
        ...     check_reduce_scatter(lambda x, comm: x.chunk(2)[comm.rank], world)
        ring reduce-scatter: not yet
          look  2 ranks, shape [12]: rank 0, element 0 (6 of 6 elements are wrong): the part of rank 1 is missing
          look  2 ranks, shape [12]: rank 1, element 0 (6 of 6 elements are wrong): the part of rank 0 is missing
    """
    return judge(REDUCE_SCATTER, learner, world)


def _reduce_scatter_messages(case: Case, seen: Traffic) -> Iterator[str]:
    item = torch.float64.itemsize
    sent = [item * (case.numel - block) for block in block_sizes(case.numel, case.size)]
    return one_round(case, seen, sent, "hand on one block at a step, each block but your own once")


def _whose_block(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> str:
    """Blocks that are finished but on the wrong rank; where blocks are cut wrongly, only that is told."""
    finished = blocks(total(inputs), len(inputs))
    if any(result.shape != block.shape for result, block in zip(results, finished, strict=True)):
        uneven = f"{len(inputs[0])} elements on {len(inputs)} ranks make blocks of {', '.join(str(len(block)) for block in finished)}"
        return f"{uneven}: cut x with pk.partition.block_sizes(len(x), comm.size)" if len(inputs[0]) % len(inputs) else ""
    for rank, result in enumerate(results):
        owners = [owner for owner, block in enumerate(finished) if block.numel() and torch.equal(block, result)]
        if owners and rank not in owners:
            return f"rank {rank} holds the finished block {owners[0]}, but rank r must end with block r: let each block start one rank earlier or later"
    return ""


REDUCE_SCATTER = Exercise(
    name="ring reduce-scatter",
    right=lambda inputs, rank: blocks(total(inputs), len(inputs))[rank],
    messages=_reduce_scatter_messages,
    shapes=((12,), (10,), (7,), (3,), (1,)),
    hint=_whose_block,
    solved=(
        "rank r ends with block r of the sum, live and on 8 to 1 simulated ranks, also where blocks are uneven or empty",
        "the input stays as it was",
        "p - 1 messages a rank, each to the same neighbour, in p - 1 steps",
        "each rank sends every block but its own once: (p - 1) / p of the tensor",
    ),
)
"""The third exercise of the second notebook."""
