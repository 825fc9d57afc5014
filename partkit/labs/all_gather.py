"""Exercise: write your own all-gather, one round of a ring.

Rank r starts with piece r and hands on, in each step, what came in the step before. With three ranks:

    step     rank 0                 rank 1                 rank 2
     1       sends 0, gets 2        sends 1, gets 0        sends 2, gets 1
     2       sends 2, gets 1        sends 0, gets 2        sends 1, gets 0

After p - 1 steps everyone has all. A rank sends (p - 1) n bytes, n for a piece; since each must receive p - 1 pieces, no
algorithm moves less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from partkit.labs.exercise import Exercise, judge
from partkit.labs.rules import one_round
from partkit.labs.traffic import Traffic
from partkit.labs.trial import AnyWorld, Case, Learner
from partkit.labs.verdict import Verdict


def check_all_gather(learner: Learner, world: AnyWorld) -> Verdict:
    """Judge ``learner(x, comm)``, an all-gather round a ring.

    Args:
        learner: joins the ranks' pieces, all of one shape, along dim 0, rank 0's first; every rank returns all of it.
        world: live ranks to try it on; all counts from its size down to 1 are tried, and 8 to 1 simulated ranks.

    Returns:
        A verdict that says in words what is right, and what to look at first.

    Example:
        >>> import partkit as pk
        >>> from partkit.labs import check_all_gather
        >>> with pk.World(2) as world:
        ...     check_all_gather(lambda x, comm: x, world)
        ring all-gather: not yet
          look  2 ranks, shape [3]: rank 0 returned the shape [3]; it must be [6]
          look  2 ranks, shape [3]: rank 1 returned the shape [3]; it must be [6]
    """
    return judge(ALL_GATHER, learner, world)


def _all_gather_messages(case: Case, seen: Traffic) -> Iterator[str]:
    sent = [(case.size - 1) * case.nbytes] * case.size
    return one_round(case, seen, sent, "hand on one piece at a step, the one that came in last")


def _own_piece_first(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> str:
    """Pieces in the order of arrival."""
    size = len(inputs)
    turned = [torch.cat([inputs[(rank + k) % size] for k in range(size)]) for rank in range(size)]
    back = [torch.cat([inputs[(rank - k) % size] for k in range(size)]) for rank in range(size)]
    if size > 1 and any(all(torch.equal(a, b) for a, b in zip(results, order, strict=True)) for order in (turned, back)):
        return "the pieces stand in the order in which they arrived; put rank r's piece in place r"
    return ""


ALL_GATHER = Exercise(
    name="ring all-gather",
    right=lambda inputs, rank: torch.cat(list(inputs)),
    messages=_all_gather_messages,
    shapes=((3,), (2, 3), (1,), (0,)),
    simulated_shapes=((3,), (2, 2)),
    hint=_own_piece_first,
    solved=(
        "all pieces in the order of ranks, on every rank, live and on 8 to 1 simulated ranks",
        "the input stays as it was",
        "p - 1 messages a rank, each to the same neighbour, in p - 1 steps",
        "(p - 1) n bytes sent by each rank: nobody can receive p - 1 pieces with less",
    ),
)
"""The second exercise of the second notebook."""
