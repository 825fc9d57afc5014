"""Recursive halving and recursive doubling: the exchanges of `partkit.butterfly`, with messages, on any number of ranks.

What the operations put together from these parts:

    all_gather        recursive_doubling    fold    doubling                 unfold
    reduce_scatter    recursive_halving     fold    halving                  unfold
    all_reduce        halving_doubling      fold    halving     doubling     unfold
                      recursive_doubling    fold    whole tensors both ways  unfold

*fold* and *unfold* are for a number of ranks that is no power of two: the second rank of each team of two hands what it has to
the first, which takes part for both, and gets its result in the end. That costs two more steps.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from partkit.butterfly import doubling, halving, teams
from partkit.collectives.blocks import Blocks
from partkit.collectives.reducing import COMBINE, Op
from partkit.communicator import Communicator


class Team(NamedTuple):
    """This rank's team, and where it stands among the others."""

    place: int
    ranks: range
    """The team's ranks: the first takes part, the second, if there is one, is folded into it."""
    all: tuple[range, ...]
    """The ranks of every team, by place."""

    @staticmethod
    def of(comm: Communicator) -> Team:
        """The team of the rank that asks."""
        return _team(comm.rank, comm.size)

    def first(self, place: int) -> int:
        """The rank that takes part at ``place``."""
        return self.all[place][0]

    def folded(self, comm: Communicator) -> bool:
        """Whether this rank is the second of its team."""
        return comm.rank != self.ranks[0]


@cache
def _team(rank: int, size: int) -> Team:
    every = teams(size)
    place = next(place for place, ranks in enumerate(every) if rank in ranks)
    return Team(place, every[place], every)


def fold(x: Tensor, team: Team, comm: Communicator, op: Op) -> Tensor | None:
    """What this rank takes part with: ``x`` and that of its second rank, combined; None on the second. ``x`` is only read."""
    if team.folded(comm):
        comm.send(x, team.ranks[0], tag="fold")
        return None
    if len(team.ranks) == 1:
        return x
    both = comm.recv(torch.empty_like(x), team.ranks[1], tag="fold")
    COMBINE[op](both, x)
    return both


def unfold(result: Tensor, team: Team, comm: Communicator) -> Tensor:
    """Give the second rank its result: the first sends ``result``, the second fills it."""
    if team.folded(comm):
        return comm.recv(result, team.ranks[0], tag="unfold")
    if len(team.ranks) == 2:
        comm.send(result, team.ranks[1], tag="unfold")
    return result


def halve(blocks: Blocks, sums: Blocks, team: Team, comm: Communicator, op: Op) -> None:
    """Combine the places' blocks, each at its own place: ``sums[place]`` is finished afterwards.

    Args:
        blocks: one for each place, what this rank adds; only read.
        sums: memory of the same sizes; what else is in it afterwards does not count.
        team: this rank's, of which it is the first.
        comm: two ranks or more.
        op: how two blocks are combined.
    """
    (partner, give, take), *later = halving(team.place, len(team.all))
    peer = team.first(partner)
    comm.sendrecv(blocks.over(give), peer, sums.over(take), peer, "halving 1", COMBINE[op], own=blocks.over(take))
    for number, (partner, give, take) in enumerate(later, start=2):
        peer = team.first(partner)
        comm.sendrecv(sums.over(give), peer, sums.over(take), peer, f"halving {number}", COMBINE[op])


def double(blocks: Blocks, team: Team, comm: Communicator) -> None:
    """Gather the places' blocks, in place: ``blocks[place]`` is there at the start, all are at the end."""
    for number, (partner, give, take) in enumerate(doubling(team.place, len(team.all)), start=1):
        peer = team.first(partner)
        comm.sendrecv(blocks.over(give), peer, blocks.over(take), peer, tag=f"doubling {number}")
