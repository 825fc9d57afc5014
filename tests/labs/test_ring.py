"""The checker of the ring exercise: the right solution passes, each usual mistake is told in its own words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import partkit as pk
from partkit.collectives.all_gather import ring_all_gather
from partkit.collectives.reduce_scatter import ring_reduce_scatter
from partkit.communicator import Communicator
from partkit.labs import check_ring
from partkit.partition import block_sizes

Learner = Callable[[Tensor, Communicator], Tensor]


def right(x: Tensor, comm: Communicator) -> Tensor:
    result = x.clone()
    sizes = block_sizes(x.numel(), comm.size)
    sums = torch.split(result.view(-1), list(sizes))
    ring_reduce_scatter(torch.split(x.view(-1), list(sizes)), sums, comm)
    ring_all_gather(sums, comm)
    return result


def nothing(x: Tensor, comm: Communicator) -> Tensor:
    return x.clone()


def in_place(x: Tensor, comm: Communicator) -> Tensor:
    x.copy_(right(x, comm))
    return x


def ready_made(x: Tensor, comm: Communicator) -> Tensor:
    return pk.all_reduce(x, comm)


def whole_tensors(x: Tensor, comm: Communicator) -> Tensor:
    """Passes the whole tensor round, size - 1 times, then once more to have the ring's number of messages."""
    total, passing = x.clone(), x.clone()
    for step in range(2 * (comm.size - 1)):
        passing = comm.sendrecv(passing, (comm.rank + 1) % comm.size, torch.empty_like(x), (comm.rank - 1) % comm.size)
        if step < comm.size - 1:
            total += passing
    return total


def everyone_to_everyone(x: Tensor, comm: Communicator) -> Tensor:
    total = x.clone()
    for step in range(1, comm.size):
        total += comm.sendrecv(x, (comm.rank + step) % comm.size, torch.empty_like(x), (comm.rank - step) % comm.size)
    return total


def half_way(x: Tensor, comm: Communicator) -> Tensor:
    result = x.clone()
    sizes = block_sizes(x.numel(), comm.size)
    ring_reduce_scatter(torch.split(x.view(-1), list(sizes)), torch.split(result.view(-1), list(sizes)), comm)
    return result


def own_part_twice(x: Tensor, comm: Communicator) -> Tensor:
    return right(x, comm) + x


def mean(x: Tensor, comm: Communicator) -> Tensor:
    return right(x, comm) / 3


def flat(x: Tensor, comm: Communicator) -> Tensor:
    return right(x, comm).view(-1)


def only_even(x: Tensor, comm: Communicator) -> Tensor:
    if x.numel() % comm.size:
        raise ValueError("sizes must divide")
    return right(x, comm)


def blocking(x: Tensor, comm: Communicator) -> Tensor:
    comm.send(x, (comm.rank + 1) % comm.size)
    return comm.recv(torch.empty_like(x), (comm.rank - 1) % comm.size)


def in_turns(x: Tensor, comm: Communicator) -> Tensor:
    """Right, but the ranks wait for each other: only rank 0 sends before it receives."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    result = x.clone()
    chunks = torch.split(result.view(-1), list(block_sizes(x.numel(), comm.size)))
    for step in range(2 * comm.size - 2):
        outgoing, place = chunks[(comm.rank - step) % comm.size], chunks[(comm.rank - step - 1) % comm.size]
        incoming = torch.empty_like(place)
        for send in (comm.rank == 0, comm.rank != 0):
            if send:
                comm.send(outgoing.clone(), right)
            else:
                comm.recv(incoming, left)
        place.copy_(place + incoming if step < comm.size - 1 else incoming)
    return result


def test_a_right_ring_is_solved(world4: pk.World) -> None:
    verdict = check_ring(right, world4)
    assert verdict, verdict
    assert "6 with 4 ranks" in repr(verdict)


def test_a_ring_in_turns_takes_too_many_steps(world4: pk.World) -> None:
    verdict = check_ring(in_turns, world4)
    assert "8 simulated ranks, shape [24]: it takes 112 steps, one after the other, where 2 (p - 1) = 14 are enough" in repr(verdict)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (nothing, "rank 0, element 0 (12 of 12 elements are wrong): the part of ranks 1-3 is missing"),
        (half_way, "is missing"),
        (own_part_twice, "rank 0, element 0 (12 of 12 elements are wrong): the part of rank 0 was added more than once"),
        (mean, "is no sum of whole parts"),
        (flat, "returned the shape [15]; it must be [3, 5]"),
        (in_place, "the input was changed"),
        (ready_made, "a ready-made collective made it (all_reduce)"),
        (whole_tensors, "rank 0 sent 576 bytes, a ring sends 144"),
        (everyone_to_everyone, "rank 0 sent to ranks 1-3; in a ring each rank sends to one neighbour only"),
        (only_even, "shape [10]: it raises an error.\nranks 0-3: ValueError: sizes must divide"),
        (blocking, "each waits for the next, a cycle"),
        (lambda x, comm: None, "rank 0 returned nothing (None); return the tensor"),
    ],
)
def test_each_mistake_is_told_in_words(world4: pk.World, learner: Learner, words: str) -> None:
    verdict = check_ring(learner, world4)
    assert not verdict
    assert words in "\n".join(finding.text for finding in verdict.findings), verdict
