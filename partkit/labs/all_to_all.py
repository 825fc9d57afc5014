"""Exercise: write your own all-to-all, in which ranks meet in pairs.

Block j of rank r goes to place r of rank j: the transpose of a matrix of blocks. With three ranks:

    before              after               step 1: rank r sends to r + 1    step 2: to r + 2
    rank 0: 00 01 02    00 10 20                    0->1  1->2  2->0                0->2  1->0  2->1
    rank 1: 10 11 12    01 11 21
    rank 2: 20 21 22    02 12 22

In each step every rank sends to one and receives from one, so that nobody waits for a rank that is busy with another: p - 1
steps, each block sent once. If all begin with rank 0 instead, they queue up in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from partkit.labs.exercise import Exercise, blocks, judge
from partkit.labs.rules import no_more_messages, no_more_steps, right_bytes
from partkit.labs.traffic import Traffic
from partkit.labs.trial import AnyWorld, Case, Learner
from partkit.labs.verdict import Verdict
from partkit.partition import block_sizes


def check_all_to_all(learner: Learner, world: AnyWorld) -> Verdict:
    """Judge ``learner(x, comm)``, an all-to-all in which ranks meet in pairs.

    Args:
        learner: sends block j of ``x``, which has one dim, to rank j (blocks by ``block_sizes(x.numel(), comm.size)``), and
            returns the blocks that came in, joined, rank 0's first.
        world: live ranks to try it on; all counts from its size down to 1 are tried, and 8 to 1 simulated ranks.

    Returns:
        A verdict that says in words what is right, and what to look at first.

    Example:
        >>> import partkit as pk
        >>> from partkit.labs import check_all_to_all
        >>> with pk.World(2) as world:
        ...     check_all_to_all(lambda x, comm: x.clone(), world)
        pairwise all-to-all: not yet
          look  2 ranks, shape [12]: rank 0, element 6 (6 of 12 elements are wrong): it holds element 6 of rank 0, it must hold element 0 of rank 1
          look  2 ranks, shape [12]: rank 1, element 0 (6 of 12 elements are wrong): it holds element 0 of rank 1, it must hold element 6 of rank 0
    """
    return judge(ALL_TO_ALL, learner, world)


def _all_to_all_messages(case: Case, seen: Traffic) -> Iterator[str]:
    others, item = case.size - 1, torch.float64.itemsize
    sent = [item * (case.numel - block) for block in block_sizes(case.numel, case.size)]
    yield from no_more_messages(seen, others, f"one to each other rank makes p - 1 = {others}")
    yield from right_bytes(seen, sent, "send each other rank its own block, and nothing else")
    # who posts everything at once leaves the order to chance, and may need a few steps more
    busy = "some ranks wait for one that is busy with another: in step s let rank r send to r + s while it receives from r - s"
    yield from no_more_steps(seen, others, "p - 1", busy, slack=others // 2)


ALL_TO_ALL = Exercise(
    name="pairwise all-to-all",
    right=lambda inputs, rank: torch.cat([blocks(x, len(inputs))[rank] for x in inputs]),
    messages=_all_to_all_messages,
    shapes=((12,), (10,), (7,), (2,)),
    solved=(
        "block j of rank r stands in place r of rank j, live and on 8 to 1 simulated ranks, also where blocks are uneven or empty",
        "the input stays as it was",
        "at most p - 1 messages a rank, one to each other rank; no block travels twice",
        "in steps in which every rank sends and receives; p - 1 are enough",
    ),
)
"""The fourth exercise of the second notebook."""
