"""Virtual time: when everything happens in a run whose ranks, messages and computations are known.

The model (one-port, full duplex, alpha-beta; Chan et al. 2007, section 2; Thakur et al. 2005, section 3):

    a message of k bytes from a to b     begins when both sides have been posted and a's out-port and b's in-port are free,
                                         takes alpha + k / beta of the link from a to b, and keeps both ports until its end
    wait                                 lasts until the end of its message, on both sides: a send is a rendezvous
    a computation                        keeps its rank for as long as it takes
    a message of a rank to itself        takes no time

Everything is handled in the order of virtual time, ties by rank, so two runs of one program are the same to the last bit. Of
messages that wait for the same port, the one that has been ready for longest goes first.

    rank 0   post send to 1 |==== wait: the receive is late ====|####|
    rank 1   compute ................................| post recv, wait |####|      #: alpha + k / beta, both ports busy

    file         idea
    program      what a rank does, as data: posts, waits, durations
    engine       the event loop that gives each of them its time
    ports        one message at a time, in and out
    exchanges    sends and receives at once, hundreds of ranks at a time
    expansion    exchanges written out as messages, where ranks differ
"""

from partkit.virtual_time.engine import Engine as Engine
from partkit.virtual_time.program import Computation as Computation
from partkit.virtual_time.program import Entry as Entry
from partkit.virtual_time.program import Network as Network
from partkit.virtual_time.program import Run as Run
from partkit.virtual_time.program import Side as Side
from partkit.virtual_time.program import Terms as Terms
