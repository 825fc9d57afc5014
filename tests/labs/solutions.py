"""A right solution of each exercise, and what learners typically write before they have it."""

from __future__ import annotations

import os

import torch
from torch import Tensor

import partkit as pk
from partkit.cluster import Link
from partkit.communicator import Communicator
from partkit.partition import block_sizes


def neighbours(comm: Communicator) -> tuple[int, int]:
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def blocks(x: Tensor, comm: Communicator) -> list[Tensor]:
    return list(torch.split(x, list(block_sizes(len(x), comm.size))))


# -- tree broadcast --------------------------------------------------------------------------------------------------


def tree_broadcast(x: Tensor, comm: Communicator) -> Tensor:
    """Ranks 0 to 2^k - 1 have it; each hands it to the rank 2^k further on."""
    result, have = x.clone(), 1
    while have < comm.size:
        if comm.rank < have and comm.rank + have < comm.size:
            comm.send(result, comm.rank + have)
        elif have <= comm.rank < 2 * have:
            comm.recv(result, comm.rank - have)
        have *= 2
    return result


def halving_broadcast(x: Tensor, comm: Communicator) -> Tensor:
    """The other right way: each hands it to the middle of the ranks that it is still responsible for."""
    result, first, last = x.clone(), 0, comm.size
    while last - first > 1:
        middle = (first + last + 1) // 2
        if comm.rank < middle:
            if comm.rank == first:
                comm.send(result, middle)
            last = middle
        else:
            if comm.rank == middle:
                comm.recv(result, first)
            first = middle
    return result


def flat_broadcast(x: Tensor, comm: Communicator) -> Tensor:
    result = x.clone()
    if comm.rank == 0:
        for dst in range(1, comm.size):
            comm.send(result, dst)
    else:
        comm.recv(result, 0)
    return result


def flat_at_once(x: Tensor, comm: Communicator) -> Tensor:
    """Posted at once, but the root still has one way out only."""
    result = x.clone()
    if comm.rank == 0:
        for pending in [comm.isend(result, dst) for dst in range(1, comm.size)]:
            pending.wait()
    else:
        comm.recv(result, 0)
    return result


def chain_broadcast(x: Tensor, comm: Communicator) -> Tensor:
    result = x.clone()
    if comm.rank > 0:
        comm.recv(result, comm.rank - 1)
    if comm.rank + 1 < comm.size:
        comm.send(result, comm.rank + 1)
    return result


def tree_for_powers_of_two(x: Tensor, comm: Communicator) -> Tensor:
    """Sends to ranks that are not there."""
    result, have = x.clone(), 1
    while have < comm.size:
        if comm.rank < have:
            comm.send(result, comm.rank + have)
        elif comm.rank < 2 * have:
            comm.recv(result, comm.rank - have)
        have *= 2
    return result


def loop_without_end(x: Tensor, comm: Communicator) -> Tensor:
    """Ends for powers of two only."""
    have = 1
    while have != comm.size:
        have = 2 * have % 1024
    return tree_broadcast(x, comm)


def everybody_gets_it_twice(x: Tensor, comm: Communicator) -> Tensor:
    return tree_broadcast(tree_broadcast(x, comm), comm)


def dropped_handles(x: Tensor, comm: Communicator) -> Tensor:
    """Flat, posted at once, and nobody waits for the sends."""
    result = x.clone()
    if comm.rank == 0:
        for dst in range(1, comm.size):
            comm.isend(result, dst)
    else:
        comm.recv(result, 0)
    return result


def ends_a_rank(x: Tensor, comm: Communicator) -> Tensor:
    if comm.rank == 1:
        os._exit(3)
    return tree_broadcast(x, comm)


def back_to_the_root(x: Tensor, comm: Communicator) -> Tensor:
    """A ring: the last rank gives it back to the root."""
    right, left = neighbours(comm)
    result = x.clone()
    if comm.rank > 0:
        comm.recv(result, left)
        comm.send(result, right)
    elif comm.size > 1:
        comm.send(result, right)
        comm.recv(result, left)
    return result


# -- ring all-gather -------------------------------------------------------------------------------------------------


def ring_all_gather(x: Tensor, comm: Communicator) -> Tensor:
    right, left = neighbours(comm)
    pieces = [torch.empty_like(x) for _ in range(comm.size)]
    pieces[comm.rank].copy_(x)
    for step in range(comm.size - 1):
        outgoing, incoming = pieces[(comm.rank - step) % comm.size], pieces[(comm.rank - step - 1) % comm.size]
        comm.sendrecv(outgoing, right, incoming, left)
    return torch.cat(pieces)


def left_all_gather(x: Tensor, comm: Communicator) -> Tensor:
    """The other way round."""
    right, left = neighbours(comm)
    pieces = [x] * comm.size
    for step in range(1, comm.size):
        pieces[(comm.rank + step) % comm.size] = comm.sendrecv(pieces[(comm.rank + step - 1) % comm.size], left, torch.empty_like(x), right)
    return torch.cat(pieces)


def own_piece_only(x: Tensor, comm: Communicator) -> Tensor:
    """Sends its own piece in each step, in place of the one that came in."""
    right, left = neighbours(comm)
    return torch.cat([x, *(comm.sendrecv(x, right, torch.empty_like(x), left) for _ in range(comm.size - 1))])


def order_of_arrival(x: Tensor, comm: Communicator) -> Tensor:
    right, left = neighbours(comm)
    pieces = [x]
    for _ in range(comm.size - 1):
        pieces.append(comm.sendrecv(pieces[-1], right, torch.empty_like(x), left))
    return torch.cat(pieces)


def direct_all_gather(x: Tensor, comm: Communicator) -> Tensor:
    """Right, as many messages and bytes, but no ring."""
    pieces = [x if rank == comm.rank else torch.empty_like(x) for rank in range(comm.size)]
    for step in range(1, comm.size):
        dst, src = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        comm.sendrecv(x, dst, pieces[src], src)
    return torch.cat(pieces)


def whole_result_round(x: Tensor, comm: Communicator) -> Tensor:
    """Hands on everything that it has so far, in the memory of the result."""
    right, left = neighbours(comm)
    result = torch.zeros(comm.size, *x.shape, dtype=x.dtype)
    result[comm.rank] = x
    for _ in range(comm.size - 1):
        arrived = comm.sendrecv(result, right, torch.empty_like(result), left)
        missing = (result == 0).flatten(1).all(1)
        result[missing] = arrived[missing]
    return result.flatten(0, 1)


def in_turns(x: Tensor, comm: Communicator) -> Tensor:
    """Rank 0 sends first, the others receive first: no deadlock, but each waits for the one before."""
    right, left = neighbours(comm)
    pieces = [x] * comm.size
    for step in range(comm.size - 1):
        outgoing, incoming = pieces[(comm.rank - step) % comm.size].clone(), torch.empty_like(x)
        if comm.rank == 0:
            comm.send(outgoing, right)
            comm.recv(incoming, left)
        else:
            comm.recv(incoming, left)
            comm.send(outgoing, right)
        pieces[(comm.rank - step - 1) % comm.size] = incoming
    return torch.cat(pieces)


def buffer_of_float32(x: Tensor, comm: Communicator) -> Tensor:
    right, left = neighbours(comm)
    pieces = [x] * comm.size
    for step in range(comm.size - 1):
        pieces[(comm.rank - step - 1) % comm.size] = comm.sendrecv(pieces[(comm.rank - step) % comm.size], right, torch.empty(x.shape), left)
    return torch.cat(pieces)


# -- ring reduce-scatter ---------------------------------------------------------------------------------------------


def ring_reduce_scatter(x: Tensor, comm: Communicator) -> Tensor:
    right, left = neighbours(comm)
    sums = [block.clone() for block in blocks(x, comm)]
    for step in range(comm.size - 1):
        outgoing, place = sums[(comm.rank - step - 1) % comm.size], sums[(comm.rank - step - 2) % comm.size]
        place += comm.sendrecv(outgoing, right, torch.empty_like(place), left)
    return sums[comm.rank]


def one_too_early(x: Tensor, comm: Communicator) -> Tensor:
    """The ring of most textbooks, in which rank r ends with block r + 1."""
    right, left = neighbours(comm)
    sums = [block.clone() for block in blocks(x, comm)]
    for step in range(comm.size - 1):
        outgoing, place = sums[(comm.rank - step) % comm.size], sums[(comm.rank - step - 1) % comm.size]
        place += comm.sendrecv(outgoing, right, torch.empty_like(place), left)
    return sums[(comm.rank + 1) % comm.size]


def own_share_sent_on(x: Tensor, comm: Communicator) -> Tensor:
    """Sends its own blocks in place of the partial sums."""
    right, left = neighbours(comm)
    mine = blocks(x, comm)
    result = mine[comm.rank].clone()
    for step in range(comm.size - 1):
        outgoing = mine[(comm.rank - step - 1) % comm.size]
        arrived = comm.sendrecv(outgoing, right, torch.empty_like(mine[(comm.rank - step - 2) % comm.size]), left)
        if step == comm.size - 2:
            result += arrived
    return result


def all_reduce_and_cut(x: Tensor, comm: Communicator) -> Tensor:
    """Right, but everything goes to everyone."""
    total = x.clone()
    for step in range(1, comm.size):
        total += comm.sendrecv(x, (comm.rank + step) % comm.size, torch.empty_like(x), (comm.rank - step) % comm.size)
    return blocks(total, comm)[comm.rank].clone()


def whole_sum(x: Tensor, comm: Communicator) -> Tensor:
    total = x.clone()
    for step in range(1, comm.size):
        total += comm.sendrecv(x, (comm.rank + step) % comm.size, torch.empty_like(x), (comm.rank - step) % comm.size)
    return total


def blocks_that_divide(x: Tensor, comm: Communicator) -> Tensor:
    """Forgets the rest where sizes do not divide."""
    (right, left), length = neighbours(comm), len(x) // comm.size
    sums = [x[start : start + length].clone() for start in range(0, comm.size * length, max(length, 1))]
    for step in range(comm.size - 1):
        sent, added = sums[(comm.rank - step - 1) % comm.size], sums[(comm.rank - step - 2) % comm.size]
        comm.sendrecv(sent, right, added, left, combine=torch.Tensor.add_)
    return sums[comm.rank]


def in_the_input(x: Tensor, comm: Communicator) -> Tensor:
    """Without the clone."""
    right, left = neighbours(comm)
    sums = blocks(x, comm)
    for step in range(comm.size - 1):
        outgoing, place = sums[(comm.rank - step - 1) % comm.size], sums[(comm.rank - step - 2) % comm.size]
        place += comm.sendrecv(outgoing, right, torch.empty_like(place), left)
    return sums[comm.rank]


# -- all-to-all ------------------------------------------------------------------------------------------------------


def pairwise_all_to_all(x: Tensor, comm: Communicator) -> Tensor:
    mine = blocks(x, comm)
    result = [torch.empty_like(mine[comm.rank]) for _ in range(comm.size)]
    result[comm.rank].copy_(mine[comm.rank])
    for step in range(1, comm.size):
        dst, src = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        comm.sendrecv(mine[dst], dst, result[src], src)
    return torch.cat(result)


def posted_at_once(x: Tensor, comm: Communicator) -> Tensor:
    """Right as well: everything posted, nearest rank first."""
    mine = blocks(x, comm)
    result = [torch.empty_like(mine[comm.rank]) for _ in range(comm.size)]
    result[comm.rank].copy_(mine[comm.rank])
    steps = range(1, comm.size)
    pending = [comm.irecv(result[(comm.rank - s) % comm.size], (comm.rank - s) % comm.size) for s in steps]
    pending += [comm.isend(mine[(comm.rank + s) % comm.size], (comm.rank + s) % comm.size) for s in steps]
    for message in pending:
        message.wait()
    return torch.cat(result)


def rank_zero_first(x: Tensor, comm: Communicator) -> Tensor:
    """All begin with rank 0, who can take one message at a time."""
    mine = blocks(x, comm)
    result = [torch.empty_like(mine[comm.rank]) for _ in range(comm.size)]
    result[comm.rank].copy_(mine[comm.rank])
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    incoming = [comm.irecv(result[src], src) for src in others]
    for dst in others:
        comm.send(mine[dst], dst)
    for message in incoming:
        message.wait()
    return torch.cat(result)


def send_then_receive(x: Tensor, comm: Communicator) -> Tensor:
    mine = blocks(x, comm)
    result = [mine[comm.rank]] * comm.size
    for step in range(1, comm.size):
        dst, src = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        comm.send(mine[dst], dst)
        result[src] = comm.recv(torch.empty_like(mine[comm.rank]), src)
    return torch.cat(result)


def gather_all_and_pick(x: Tensor, comm: Communicator) -> Tensor:
    parts = [x] * comm.size
    for step in range(1, comm.size):
        src = (comm.rank - step) % comm.size
        parts[src] = comm.sendrecv(x, (comm.rank + step) % comm.size, torch.empty_like(x), src)
    return torch.cat([blocks(part, comm)[comm.rank] for part in parts])


def in_order_of_steps(x: Tensor, comm: Communicator) -> Tensor:
    mine = blocks(x, comm)
    result = [mine[comm.rank]]
    for step in range(1, comm.size):
        dst, src = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        result.append(comm.sendrecv(mine[dst], dst, torch.empty_like(mine[comm.rank]), src))
    return torch.cat(result)


# -- recursive doubling ----------------------------------------------------------------------------------------------


def recursive_doubling(x: Tensor, comm: Communicator) -> Tensor:
    total, distance = x.clone(), 1
    while distance < comm.size:
        partner = comm.rank ^ distance
        total += comm.sendrecv(total, partner, torch.empty_like(total), partner)
        distance *= 2
    return total


def same_partner(x: Tensor, comm: Communicator) -> Tensor:
    """Forgets to go further on in each step."""
    total = x.clone()
    for _ in range((comm.size - 1).bit_length()):
        total += comm.sendrecv(total, comm.rank ^ 1, torch.empty_like(total), comm.rank ^ 1)
    return total


def sends_the_input(x: Tensor, comm: Communicator) -> Tensor:
    """Sends its own part in each step, in place of the sum so far."""
    total, distance = x.clone(), 1
    while distance < comm.size:
        partner = comm.rank ^ distance
        total += comm.sendrecv(x, partner, torch.empty_like(total), partner)
        distance *= 2
    return total


def ring_instead(x: Tensor, comm: Communicator) -> Tensor:
    """Right, but round the ring."""
    right, left = neighbours(comm)
    total, passing = x.clone(), x.clone()
    for _ in range(comm.size - 1):
        passing = comm.sendrecv(passing, right, torch.empty_like(x), left)
        total += passing
    return total


def one_after_the_other(x: Tensor, comm: Communicator) -> Tensor:
    """The lower rank of a pair sends first, then receives: twice as many steps."""
    total, distance = x.clone(), 1
    while distance < comm.size:
        partner, arrived = comm.rank ^ distance, torch.empty_like(x)
        if comm.rank < partner:
            comm.send(total, partner)
            comm.recv(arrived, partner)
        else:
            comm.recv(arrived, partner)
            comm.send(total, partner)
        total += arrived
        distance *= 2
    return total


def torchs_own_broadcast(x: Tensor, comm: Communicator) -> Tensor:
    result = x.clone()
    torch.distributed.broadcast(result, 0)
    return result


def ready_made(x: Tensor, comm: Communicator) -> Tensor:
    return pk.all_reduce(x, comm, algorithm="ring")


# -- costs -----------------------------------------------------------------------------------------------------------


def halving_doubling_seconds(numel: int, itemsize: int, size: int, link: Link) -> float:
    """Halves, quarters, ... there and back: log2 p messages and (p - 1) / p of the tensor each way."""
    steps = size.bit_length() - 1
    return 2 * steps * link.latency + 2 * (size - 1) / size * numel * itemsize / link.bandwidth
