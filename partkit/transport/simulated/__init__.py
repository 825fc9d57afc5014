"""The wire of simulated ranks: threads of one process, of which one runs at a time, and a clock that nobody waits for.

Two things happen at different moments:

    numbers    a rank runs until it needs what another one has not sent yet; then another rank has its turn. A tensor is copied
               as soon as both sides of its message are known.
    time       each rank leaves a list of what it posted, waited for and computed; `partkit.virtual_time` walks through the lists
               and says when each thing happened. It does so when the run is over, or when somebody asks what time it is.

Inside a collective nobody can see in which order the ranks' code runs, so there a rank may run ahead of its own sends: it keeps
a copy of what it sends and goes on; it may not leave the collective before all has been taken. A ring of p ranks then needs
a few turns for each rank instead of 2 (p - 1), as whoever is being sent to has the next turn. Outside of collectives a send waits
for its receive.

    file         idea
    turns        threads of which one runs at a time; random numbers of each rank's own
    simulation   one run: whose turn it is, and which two sides of messages meet
    work         one side of a message: waiting for it, copying its tensor
    lane         the short way of a send and a receive at once inside a collective
    lanes        what the lanes of a run share: what nobody has taken yet, the table of exchanges
    relays       rings: what their ranks hand on, many steps at a time
    leg          one rank's part of a ring
    memory       copies of what tensors hold
    wire         `SimulatedTransport`: one rank's end
"""

from partkit.transport.simulated.simulation import Simulation as Simulation
from partkit.transport.simulated.turns import RandomState as RandomState
from partkit.transport.simulated.turns import random_state_of_the_kernel as random_state_of_the_kernel
from partkit.transport.simulated.wire import SimulatedTransport as SimulatedTransport
from partkit.transport.simulated.work import Died as Died
from partkit.transport.simulated.work import Stopped as Stopped
