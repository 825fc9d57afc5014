"""Once round a ring: every rank hands on to the next one what it got from the one before. The rings of all collectives are this loop.

    step     rank 0              rank 1              rank 2            blocks, p = 3; each rank r begins with ``first`` = r - 1
     1       receives b2         receives b0         receives b1       and sends ``x``
     2       receives b1         receives b2         receives b0       and sends what it received in step 1

With ``combine`` and ``own``, a rank adds its own block to each that arrives before it hands it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from partkit.communicator.blocks import Blocks
from partkit.communicator.exchange import Opened, Posted
from partkit.transport.base import Combine
from partkit.transport.course import Course

if TYPE_CHECKING:
    from partkit.communicator.group import Communicator

MANY = 16
"""From so many ranks on, wires that can do several steps at once are asked to: for fewer it takes longer."""


def pass_round(
    comm: Communicator, x: Tensor, blocks: Sequence[Tensor], first: int, tag: str, combine: Combine | None = None, own: Sequence[Tensor] | None = None
) -> None:
    """Send to the next rank, receive from the one before, ``comm.size - 1`` times; what comes in at one step goes out at the next.

    Args:
        comm: the ranks of the ring; inside a collective.
        x: what goes out at the first step; other memory than the blocks that are received.
        blocks: one for each rank, of the same sizes on all: memory for what comes in.
        first: the block that comes in at the first step (counted round the ends); then the one before it, and so on.
        tag: of messages: ``tag 1``, ``tag 2``, ...
        combine: of what comes in and ``own``, in place: ``combine(blocks[place], own[place])``.
        own: one for each rank, of the sizes of ``blocks``; only read.

    Example:
        >>> import torch, partkit as pk
        >>> def gather(comm):
        ...     blocks = Blocks(torch.full((3,), comm.rank), [1, 1, 1])
        ...     with comm.collective("gather", blocks.flat, "by hand"):
        ...         pass_round(comm, blocks[comm.rank], blocks, comm.rank - 1, "round")
        ...     return blocks.flat.tolist()
        >>> with pk.SimulatedWorld(3) as world:
        ...     list(world.run(gather))
        [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """
    rank, size = comm.rank, comm.size
    right, left, done = (rank + 1) % size, (rank - 1) % size, 0
    if size >= MANY and isinstance(blocks, Blocks) and (own is None or (isinstance(own, Blocks) and own.starts == blocks.starts)):
        done = _many_at_once(comm, Course(x, blocks.flat, blocks.starts, first, combine, None if own is None else own.flat), tag)
    outgoing = blocks[(first - done + 1) % size] if done else x
    for step in range(done + 1, size):
        place = (first - step + 1) % size
        outgoing = comm.sendrecv(outgoing, right, blocks[place], left, f"{tag} {step}", combine, None if own is None else own[place])


def _many_at_once(comm: Communicator, course: Course, tag: str) -> int:
    """As many steps as the wire does by itself: their number. Events are those of exchanges one by one."""
    context, size = comm._context, comm.size
    opened = context.lane = Opened(comm)
    dst, src = (comm.rank + 1) % size, (comm.rank - 1) % size
    begin: Any = getattr(opened.lane, "leg", None)  # most wires have no such thing
    leg = None if begin is None or len(course.starts) != size + 1 else begin(course, dst, src, tag)
    while leg is not None and leg.done < course.steps and not leg.over:
        waiting = leg.advance()
        if waiting is None:
            break
        step, before = leg.done + 1, course.x if not leg.done else course.block(leg.done, course.flat)
        each = f"{tag} {step}"
        Posted(comm, opened.before, (("recv", waiting.buffer, src, each), ("send", before, dst, each))).stand_still_in(waiting)
        leg.done = step
    done = 0 if leg is None else leg.done
    context.progress += 4 * done
    return int(done)
