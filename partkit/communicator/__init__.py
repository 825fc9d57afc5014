"""What a rank's function talks to: point-to-point messages among a group of ranks. The only birthplace of a run's events.

    collective            ring_all_reduce(x, comm)        knows neither wire nor trace
       |  comm.sendrecv(chunk, dst=right, buffer=..., src=left)
    Communicator          group rank -> world rank, tag, sequence number, start time
       |  transport.isend(...)
    Pending.wait()        the end time; recorder.add(...)

All communicators of a rank (the world and its sub-groups) share one `RankContext`: its wire, its recorder, and what it is
doing at the moment, which is what the supervisor asks when nothing moves.

    file       idea
    group      `Communicator`: the ranks of a group, seen from one of them; sub-groups, spans, computations
    messages   between two ranks of it: the half that talks to the wire
    exchange   a send and a receive at once, or several: the short way inside of collectives
    ring       once round a ring, exchange after exchange, or many of them at once
    blocks     a block for each rank in one piece of memory
    pending    one message between post and done; the birth of its event
    ongoing    one collective call between begin and end; what must agree between ranks
    context    what all communicators of a rank share
    memory     what travels is one plain block of memory
    naming     dtypes and shapes in words, and the user's source line
"""

from partkit.communicator.blocks import Blocks as Blocks
from partkit.communicator.context import RankContext as RankContext
from partkit.communicator.context import at_one_line as at_one_line
from partkit.communicator.group import Communicator as Communicator
from partkit.communicator.group import current as current
from partkit.communicator.memory import check_dense as check_dense
from partkit.communicator.memory import is_idle as is_idle
from partkit.communicator.memory import is_plain as is_plain
from partkit.communicator.memory import join as join
from partkit.communicator.memory import packed as packed
from partkit.communicator.messages import NotInGroup as NotInGroup
from partkit.communicator.naming import call_site as call_site
from partkit.communicator.naming import describe as describe
from partkit.communicator.ongoing import Ongoing as Ongoing
from partkit.communicator.pending import Pending as Pending
from partkit.communicator.ring import pass_round as pass_round
from partkit.transport.base import Exchange as Exchange
