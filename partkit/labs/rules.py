"""What exercises ask of messages: how many, how many bytes, to whom, in how many steps. Each rule gives what is against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partkit.diagnosis import name_ranks
from partkit.labs.traffic import Traffic
from partkit.labs.trial import Case


def no_more_messages(seen: Traffic, most: int, why: str) -> Iterator[str]:
    """Each rank sends at most ``most`` messages.

    Example:
        >>> list(no_more_messages(Traffic((3, 1), (24, 8), ((1, 1, 1), (0,)), (), None), 1, "one is enough"))
        ['rank 0 sent 3 messages, one is enough']
    """
    for rank, messages in enumerate(seen.messages):
        if messages > most:
            yield f"rank {rank} sent {_count(messages)}, {why}"


def one_neighbour(seen: Traffic) -> Iterator[str]:
    """Each rank sends to one other rank only, and all of these pairs make one ring.

    Example:
        >>> list(one_neighbour(Traffic((2, 0, 0), (16, 0, 0), ((1, 2), (), ()), (), None)))
        ['rank 0 sent to ranks 1-2; in a ring each rank sends to one neighbour only']
    """
    next_of: dict[int, int] = {}
    for rank, receivers in enumerate(seen.receivers):
        peers = sorted(set(receivers))
        if len(peers) > 1:
            yield f"rank {rank} sent to {name_ranks(peers)}; in a ring each rank sends to one neighbour only"
            return
        next_of.update(dict.fromkeys([rank], peers[0]) if peers else {})
    shared = [rank for rank in set(next_of.values()) if list(next_of.values()).count(rank) > 1]
    if shared:
        yield f"{name_ranks([r for r in next_of if next_of[r] == shared[0]])} all send to rank {shared[0]}; in a ring each rank has one sender"


def right_bytes(seen: Traffic, bytes_sent: Sequence[int], why: str) -> Iterator[str]:
    """Rank r sends ``bytes_sent[r]``.

    Example:
        >>> list(right_bytes(Traffic((1, 1), (96, 48), ((1,), (0,)), (), None), (48, 48), "one block"))
        ['rank 0 sent 96 bytes, not 48: one block']
    """
    for rank, (sent, right) in enumerate(zip(seen.nbytes, bytes_sent, strict=True)):
        if sent != right:
            yield f"rank {rank} sent {sent} bytes, not {right}: {why}"


def no_more_steps(seen: Traffic, most: int, formula: str, why: str = "", slack: int = 0) -> Iterator[str]:
    """The rounds of messages, one after the other, are at most ``most``, or ``slack`` more. Known on simulated ranks only.

    Example:
        >>> list(no_more_steps(Traffic((2, 0, 0), (16, 0, 0), ((1, 2), (), ()), (), 4), 2, "p - 1"))
        ['it takes 4 steps, one after the other, where p - 1 = 2 are enough; ranks wait for each other: comm.sendrecv sends and receives at once']
    """
    if seen.steps is not None and seen.steps > most + slack:
        reason = why or "ranks wait for each other: comm.sendrecv sends and receives at once"
        yield f"it takes {seen.steps} steps, one after the other, where {formula} = {most} are enough; {reason}"


def one_round(case: Case, seen: Traffic, bytes_sent: Sequence[int], why: str) -> Iterator[str]:
    """One round of a ring: p - 1 messages in p - 1 steps from each rank to its neighbour, and rank r sends ``bytes_sent[r]``.

    Example:
        >>> case = Case(2, (3,))
        >>> list(one_round(case, Traffic((1, 1), (48, 24), ((1,), (0,)), (), None), [24, 24], "one piece at a step"))
        ['rank 0 sent 48 bytes, not 24: one piece at a step']
    """
    others = case.size - 1
    yield from no_more_messages(seen, others, f"one round of a ring takes p - 1 = {others}")
    yield from one_neighbour(seen)
    yield from right_bytes(seen, bytes_sent, why)
    yield from no_more_steps(seen, others, "p - 1")


def _count(messages: int) -> str:
    return f"{messages} message" + ("" if messages == 1 else "s")
