"""Exercise: write your own ring all-reduce. The checker runs it on odd sizes and odd rank counts, and watches every message.

The digits of a sum say whose parts are in it and how often (`partkit.labs.marks`). With four ranks

    1111    right: each rank's part once            1101    the part of rank 1 is missing
    1211    the part of rank 2 was added twice      1000    nothing was added to rank 3's own

and the trace says which messages were sent: a ring sends 2 (p - 1) messages a rank, only to one neighbour, 2 (p - 1) / p of
the tensor in all, in 2 (p - 1) steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from partkit.cluster import COSTS
from partkit.labs.exercise import Exercise, Shapes, judge, total
from partkit.labs.rules import no_more_messages, no_more_steps, one_neighbour
from partkit.labs.traffic import Traffic
from partkit.labs.trial import AnyWorld, Case, Learner
from partkit.labs.verdict import Verdict

SHAPES: Shapes = ((12,), (10,), (7,), (3, 5), (2,), (1,))
"""Sizes that divide and sizes that do not, a matrix, fewer elements than ranks."""


def check_ring(learner: Learner, world: AnyWorld) -> Verdict:
    """Judge ``learner(x, comm)``, an all-reduce written with ``comm.sendrecv`` or ``isend``/``irecv``.

    Args:
        learner: sums ``x`` over the ranks of ``comm`` and returns a new tensor of the same shape.
        world: live ranks to try it on; all counts from its size down to 1 are tried, and 8 to 1 simulated ranks.

    Returns:
        A verdict that says in words what is right, and what to look at first.

    Example:
        >>> import partkit as pk
        >>> from partkit.labs import check_ring
        >>> with pk.World(3) as world:
        ...     bool(check_ring(lambda x, comm: pk.all_reduce(x, comm, algorithm="ring"), world))
        False
    """
    return judge(RING, learner, world)


def _messages(case: Case, seen: Traffic) -> Iterator[str]:
    """What the trace says against a ring."""
    steps, item = 2 * (case.size - 1), torch.float64.itemsize
    yield from no_more_messages(seen, steps, f"a ring sends 2 (p - 1) = {steps}")
    yield from one_neighbour(seen)
    ring = COSTS["all_reduce"]["ring"](case.numel, item, case.size)
    for rank, nbytes in enumerate(seen.nbytes):
        if nbytes > max(ring.bytes_sent):
            yield f"rank {rank} sent {nbytes} bytes, a ring sends {ring.bytes_sent[rank]}: pass on one chunk at a step, not the whole tensor"
    yield from no_more_steps(seen, steps, "2 (p - 1)")


RING = Exercise(
    name="ring all-reduce",
    right=lambda inputs, rank: total(inputs),
    messages=_messages,
    shapes=SHAPES,
    solved=(
        f"right sums on every rank, live and on 8 to 1 simulated ranks, for the shapes {', '.join(str(list(s)) for s in SHAPES)}",
        "the input stays as it was",
        "2 (p - 1) messages a rank, 6 with 4 ranks, each to the same neighbour, in 2 (p - 1) steps",
        "2 (p - 1) / p of the tensor sent by each rank, which no algorithm can beat",
    ),
)
"""The exercise of the first notebook."""
