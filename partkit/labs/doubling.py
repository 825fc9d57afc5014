"""Exercise: write your own all-reduce by recursive doubling, for p = 2^k ranks.

In step s rank r meets the rank whose number differs in bit s; both then hold the sum of twice as many ranks. With four ranks:

    step    pairs        rank 0    rank 1    rank 2    rank 3
     1      0-1  2-3     0+1       0+1       2+3       2+3
     2      0-2  1-3     all       all       all       all

log2 p steps of the whole tensor, against 2 (p - 1) short ones of the ring: best for small tensors, whose messages cost latency only.
"""

from __future__ import annotations

from collections.abc import Iterator

from partkit.labs.exercise import Exercise, judge, total
from partkit.labs.rules import no_more_messages, no_more_steps, right_bytes
from partkit.labs.traffic import Traffic
from partkit.labs.trial import AnyWorld, Case, Learner
from partkit.labs.verdict import Verdict


def check_doubling(learner: Learner, world: AnyWorld) -> Verdict:
    """Judge ``learner(x, comm)``, an all-reduce by recursive doubling.

    Args:
        learner: sums ``x`` over the ranks of ``comm``, whose number is a power of two, and returns a new tensor.
        world: live ranks to try it on; its powers of two are tried, and 8, 4, 2 and 1 simulated ranks.

    Returns:
        A verdict that says in words what is right, and what to look at first.

    Example:
        >>> import partkit as pk
        >>> from partkit.labs import check_doubling
        >>> with pk.World(2) as world:
        ...     print(check_doubling(lambda x, comm: 2 * x, world).findings[0].text)
        2 ranks, shape [12]: rank 0, element 0 (12 of 12 elements are wrong): the part of rank 1 is missing and the part of rank 0 was added more than once
    """
    return judge(DOUBLING, learner, world)


def _doubling_messages(case: Case, seen: Traffic) -> Iterator[str]:
    steps = (case.size - 1).bit_length()
    yield from no_more_messages(seen, steps, f"recursive doubling sends log2(p) = {steps}")
    yield from right_bytes(seen, [steps * case.nbytes] * case.size, f"the whole tensor in each of log2(p) = {steps} steps")
    yield from no_more_steps(seen, steps, "log2(p)")


DOUBLING = Exercise(
    name="recursive doubling",
    right=lambda inputs, rank: total(inputs),
    messages=_doubling_messages,
    shapes=((12,), (7,), (3, 5), (1,)),
    sizes=lambda size: size & (size - 1) == 0,
    solved=(
        "right sums on every rank, on live ranks and on 8, 4, 2 and 1 simulated ones",
        "the input stays as it was",
        "log2(p) messages a rank, each of the whole tensor: 3 n bytes with 8 ranks",
        "log2(p) steps, 3 with 8 ranks, where the ring takes 14",
    ),
)
"""The first exercise of the third notebook."""
