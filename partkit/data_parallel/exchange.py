"""One all-reduce in two halves that move by themselves, so that a rank computes meanwhile.

The ring of `partkit.collectives.all_reduce` needs its rank at each of 2 (p - 1) steps: what a step sends is what the step before
has brought. Here every chunk goes straight to the rank that adds it up, so all messages of a half are posted at once and the
wire moves them on its own. The rank is needed only in the middle:

    rank 0                                        rank 1                       rank 2
    [1] posts c1 -> 1, c2 -> 2, expects c0 twice  c0 -> 0, c2 -> 2             c0 -> 0, c1 -> 1        scatter
        ... goes on with backward ...
    [2] adds up c0, posts it to 1 and 2           adds up c1, posts it         adds up c2, posts it    gather
        ... goes on with backward ...
    [3] waits: all chunks are there

p ranks, n bytes, c_r bytes in the chunk of rank r: rank r sends 2 (p - 1) messages and n + (p - 2) c_r bytes, which is the ring's
2 (p - 1) / p n if p divides n. Each chunk is added up by one rank, in the order of ranks: all ranks get the same bits.

Reference: Thakur, Rabenseifner and Gropp 2005, section 4.2 (pairwise exchange); Rabenseifner 2004 for the two halves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from partkit.communicator import Communicator, Pending
from partkit.partition import block_sizes


def bytes_sent(numel: int, itemsize: int, size: int) -> tuple[int, ...]:
    """Bytes that each rank sends in one exchange, by rank: n + (p - 2) c_r; nothing for one rank.

    Example:
        >>> bytes_sent(10, 4, size=4)
        (64, 64, 56, 56)
    """
    if size == 1:
        return (0,)
    return tuple(itemsize * (numel + (size - 2) * chunk) for chunk in block_sizes(numel, size))


class Exchange:
    """The sum of one tensor over all ranks, under way.

    Call `scatter`, `gather` and `finish` in this order; of several exchanges, all ranks call them in the same order.

    Args:
        x: one dimension, contiguous; the same length and dtype on each rank. Becomes the sum, in place; don't touch before `finish`.
        comm: the ranks.
        name: for the trace.
    """

    def __init__(self, x: Tensor, comm: Communicator, name: str) -> None:
        self._comm = comm
        self._call = comm.ongoing("all_reduce", x, f"sum, {name}")
        self._chunks = list(torch.split(x, list(block_sizes(x.numel(), comm.size))))
        mine = self._chunks[comm.rank]
        self._parts = [mine.clone() if rank == comm.rank else torch.empty_like(mine) for rank in range(comm.size)]
        self._others = [((comm.rank + k) % comm.size, (comm.rank - k) % comm.size) for k in range(1, comm.size)]
        """(dst, src) pairs: first the next neighbours, so that not all ranks send to the same one first."""
        self._under_way: list[Pending] = []

    def scatter(self) -> None:
        """[1] Send each chunk to the rank that adds it up."""
        with self._call:
            for dst, src in self._others:
                self._under_way += [
                    self._comm.irecv(self._parts[src], src, tag="scatter"),
                    self._comm.isend(self._chunks[dst], dst, tag="scatter"),
                ]

    def gather(self) -> None:
        """[2] Add up the own chunk and send it to everyone."""
        with self._call:
            self._wait()
            mine = self._chunks[self._comm.rank]
            mine.copy_(self._parts[0])
            for part in self._parts[1:]:
                mine.add_(part)
            for dst, src in self._others:
                self._under_way += [
                    self._comm.irecv(self._chunks[src], src, tag="gather"),
                    self._comm.isend(mine, dst, tag="gather"),
                ]

    def finish(self) -> None:
        """[3] Wait for the other chunks."""
        with self._call:
            self._wait()
        self._call.end()

    def _wait(self) -> None:
        for message in self._under_way:
            message.wait()
        self._under_way.clear()
