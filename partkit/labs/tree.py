"""Exercise: write your own broadcast, as a tree: p - 1 messages in ceil(log2 p) steps, for any number of ranks.

Whoever has the tensor hands it on, in every step, to somebody who has not. With six ranks:

    step    who has it at its end                sent                the flat way
     1      0 . . . 4 .                          0 -> 4              0 -> 1
     2      0 . 2 . 4 .       or another way:    0 -> 2, 4 -> 5 ...  0 -> 2        five steps, one
     3      0 1 2 3 4 5       any tree will do   0 -> 1, 2 -> 3      ...           after the other

The number of ranks that have it can at most double in a step, so that no algorithm that sends whole tensors needs fewer than
ceil(log2 p); and everybody but the root must receive it once, so that none sends fewer than p - 1 messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from partkit.diagnosis import name_ranks
from partkit.labs.exercise import Exercise, judge
from partkit.labs.rules import no_more_steps
from partkit.labs.traffic import Traffic
from partkit.labs.trial import AnyWorld, Case, Learner
from partkit.labs.verdict import Verdict


def check_broadcast(learner: Learner, world: AnyWorld) -> Verdict:
    """Judge ``learner(x, comm)``, a broadcast from rank 0 along a tree.

    Args:
        learner: gives every rank a new tensor with rank 0's values. On other ranks only shape and dtype of ``x`` count.
        world: live ranks to try it on; all counts from its size down to 1 are tried, and 8 to 1 simulated ranks.

    Returns:
        A verdict that says in words what is right, and what to look at first.

    Example:
        >>> import partkit as pk
        >>> from partkit.labs import check_broadcast
        >>> with pk.World(3) as world:
        ...     check_broadcast(lambda x, comm: x.clone(), world)
        tree broadcast: not yet
          look  3 ranks, shape [12]: rank 1, element 0 (12 of 12 elements are wrong): it holds element 0 of rank 1, it must hold element 0 of rank 0
          look  3 ranks, shape [12]: rank 2, element 0 (12 of 12 elements are wrong): it holds element 0 of rank 2, it must hold element 0 of rank 0
    """
    return judge(BROADCAST, learner, world)


def _messages(case: Case, seen: Traffic) -> Iterator[str]:
    """What the trace says against a tree."""
    received, others = seen.received, case.size - 1
    for rank, times in sorted(received.items()):
        if rank == 0:
            yield f"rank 0 received {'a message' if times == 1 else f'{times} messages'}; it is the root and has everything"
        elif times > 1:
            yield f"rank {rank} received {times} messages; once is enough, p - 1 = {others} messages in all (sent: {sum(seen.messages)})"
    if sum(seen.nbytes) > others * case.nbytes:
        yield f"{sum(seen.nbytes)} bytes were sent, (p - 1) n = {others * case.nbytes} are enough"
    yield from no_more_steps(seen, (case.size - 1).bit_length(), "ceil(log2 p)", _reason(seen))


def _reason(seen: Traffic) -> str:
    """Why there are so many steps: what the messages look like."""
    size = len(seen.messages)
    if seen.messages[0] == size - 1:
        return "this is the flat algorithm: rank 0 sends to each rank itself, while those that have it stand idle"
    if max(seen.messages) == 1:
        return "this is a chain: each rank hands it on once and then stands idle"
    idle = [rank for rank in range(1, size) if not seen.messages[rank]]
    return f"in every step all ranks that have it should send; {name_ranks(idle)} never did"


BROADCAST = Exercise(
    name="tree broadcast",
    right=lambda inputs, rank: inputs[0],
    messages=_messages,
    shapes=((12,), (3, 5), (1,), (0,)),
    solved=(
        "rank 0's values on every rank, live and on 8 to 1 simulated ranks",
        "the input stays as it was",
        "p - 1 messages: every rank but the root receives once, and nobody can do with less",
        "ceil(log2 p) steps, 3 with 5 to 8 ranks: in each the number of ranks that have it doubles",
    ),
)
"""The first exercise of the second notebook."""
