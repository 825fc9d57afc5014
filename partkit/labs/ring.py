"""Exercise: write your own ring all-reduce. The checker runs it on odd sizes and odd rank counts, and watches every message.

How it sees what is wrong: rank r contributes 10^r to every element, so that the digits of a sum say whose parts are in it and
how often. With four ranks

    1111    right: each rank's part once            1101    the part of rank 1 is missing
    1211    the part of rank 2 was added twice      1000    nothing was added to rank 3's own

and the trace says which messages were sent: a ring sends 2 (p - 1) messages a rank, only to one neighbour, 2 (p - 1) / p of
the tensor in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from partkit.cluster import COSTS, Cost
from partkit.communicator import Communicator
from partkit.diagnosis import name_ranks
from partkit.labs.verdict import Finding, Verdict
from partkit.tracing import Trace
from partkit.worlds.errors import RankError
from partkit.worlds.world import World

Learner = Callable[[Tensor, Communicator], Tensor]
SHAPES: tuple[tuple[int, ...], ...] = ((12,), (10,), (7,), (3, 5), (2,), (1,))
"""Sizes that divide and sizes that do not, a matrix, fewer elements than ranks."""


class Attempt(NamedTuple):
    """What the learner's function did on one rank."""

    result: Tensor | None
    kind: str
    """Type of what was returned, if it is no tensor."""
    modified: bool
    """Whether the input was changed."""


def check_ring(learner: Learner, world: World) -> Verdict:
    """Judge ``learner(x, comm)``, an all-reduce written with ``comm.sendrecv`` or ``isend``/``irecv``.

    Args:
        learner: sums ``x`` over the ranks of ``comm`` and returns a new tensor of the same shape.
        world: live ranks to try it on; all counts from its size down to 1 are tried.

    Returns:
        A verdict that says in words what is right, and what to look at first.

    Example:
        >>> import partkit as pk
        >>> from partkit.labs import check_ring
        >>> with pk.World(3) as world:
        ...     bool(check_ring(lambda x, comm: pk.all_reduce(x, comm, algorithm="ring"), world))
        False
    """
    for size in range(world.size, 0, -1):
        for shape in SHAPES:
            findings = _judge(learner, world, size, shape)
            if findings:
                return Verdict("ring all-reduce", findings)
    counts = "4 to 1" if world.size == 4 else f"{world.size} to 1"
    return Verdict(
        "ring all-reduce",
        [
            Finding(True, f"right sums on every rank, for {counts} ranks and the shapes {', '.join(str(list(s)) for s in SHAPES)}"),
            Finding(True, "the input stays as it was"),
            Finding(True, f"2 (p - 1) messages a rank: {2 * (world.size - 1)} with {world.size} ranks, each to the same neighbour"),
            Finding(True, "2 (p - 1) / p of the tensor sent by each rank, which no algorithm can beat"),
        ],
    )


def _judge(learner: Learner, world: World, size: int, shape: tuple[int, ...]) -> list[Finding]:
    """What is wrong with one case; empty if nothing."""
    case = f"{size} rank{'s' if size > 1 else ''}, shape {list(shape)}"
    try:
        attempts = list(world.run(_attempt, learner, size, shape))[:size]
    except RankError as error:
        return [Finding(False, f"{case}: it does not come to an end.\n{error}")]
    wrong = list(_wrong_results(attempts, size, shape)) or list(_wrong_messages(world.trace, size, shape))
    return [Finding(False, f"{case}: {text}") for text in wrong[:3]]


def _attempt(comm: Communicator, learner: Learner, size: int, shape: tuple[int, ...]) -> Attempt | None:
    """Run the learner's function on the first ``size`` ranks."""
    if comm.rank >= size:
        return None
    group = comm.subgroup(range(size), name="ring")
    x = torch.full(shape, 10.0**group.rank, dtype=torch.float64)
    before = x.clone()
    result: Any = learner(x, group)
    is_tensor = isinstance(result, Tensor)
    return Attempt(result.detach().clone() if is_tensor else None, type(result).__name__, not torch.equal(x, before))


def _wrong_results(attempts: list[Attempt], size: int, shape: tuple[int, ...]) -> Iterator[str]:
    for rank, attempt in enumerate(attempts):
        if attempt.result is None:
            yield f"rank {rank} returned a {attempt.kind}; return the summed tensor"
        elif tuple(attempt.result.shape) != shape:
            yield f"rank {rank} returned the shape {list(attempt.result.shape)}; it must be that of the input, {list(shape)}"
        else:
            yield from _wrong_digits(rank, attempt.result.flatten(), size)
        if attempt.modified:
            yield f"rank {rank}: the input was changed; work on a clone"


def _wrong_digits(rank: int, result: Tensor, size: int) -> Iterator[str]:
    """Whose parts are missing or double, from the digits of the first wrong element."""
    right = float(sum(10**r for r in range(size)))
    wrong = torch.nonzero(result != right).flatten()
    if not len(wrong):
        return
    place, value = int(wrong[0]), float(result[int(wrong[0])])
    where = f"rank {rank}, element {place}" + (f" ({len(wrong)} of {len(result)} elements are wrong)" if len(wrong) > 1 else "")
    digits = [int(value // 10**r) % 10 for r in range(size)]
    if value != sum(d * 10**r for r, d in enumerate(digits)):
        yield f"{where}: {value:g} is no sum of whole parts; was something divided, or a buffer read before it was filled?"
        return
    missing = [r for r, d in enumerate(digits) if d == 0]
    double = [r for r, d in enumerate(digits) if d > 1]
    told = []
    if missing:
        told.append(f"the part of {name_ranks(missing)} is missing")
    if double:
        told.append(f"the part of {name_ranks(double)} was added more than once")
    yield f"{where}: {' and '.join(told)}"


def _wrong_messages(trace: Trace, size: int, shape: tuple[int, ...]) -> Iterator[str]:
    """What the trace says against a ring."""
    if any(event.kind == "collective" for event in trace.events):
        yield "the sums are right, but a ready-made collective made them; send the messages yourself, with comm.sendrecv"
        return
    numel, item = torch.Size(shape).numel(), torch.float64.itemsize
    ring, naive = (COSTS["all_reduce"][algorithm](numel, item, size) for algorithm in ("ring", "naive"))
    for rank in range(size):
        sent = [event for event in trace.events if event.kind == "send" and event.rank == rank]
        peers = sorted({event.peer for event in sent if event.peer is not None})
        if len(sent) != ring.messages[rank]:
            yield f"rank {rank} sent {len(sent)} messages, a ring sends 2 (p - 1) = {ring.steps}{_looks_like(len(sent), trace.bytes_sent(rank), naive)}"
        elif len(peers) > 1:
            yield f"rank {rank} sent to {name_ranks(peers)}; in a ring each rank sends to one neighbour only"
        elif trace.bytes_sent(rank) > max(ring.bytes_sent):
            yield f"rank {rank} sent {trace.bytes_sent(rank)} bytes, a ring sends {ring.bytes_sent[rank]}: pass on one chunk at a step, not the whole tensor"


def _looks_like(messages: int, nbytes: int, naive: Cost) -> str:
    if messages == naive.messages[0] and nbytes == naive.bytes_sent[0]:
        return " (this is the naive algorithm: everything to everyone)"
    return ""
