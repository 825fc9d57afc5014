"""What a cluster is made of, and what each collective costs on it.

    file        idea
    hardware    `Link`, `Device`, `Cluster`
    cost        `Cost`: messages, bytes, steps and seconds of a collective, in the alpha-beta model
    costs/      the cost of each algorithm, one file an operation: `COSTS`

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 3-7; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from partkit.cluster.cost import Cost as Cost
from partkit.cluster.cost import CostFunction as CostFunction
from partkit.cluster.costs import COSTS as COSTS
from partkit.cluster.hardware import LAPTOP_CORE as LAPTOP_CORE
from partkit.cluster.hardware import LOOPBACK as LOOPBACK
from partkit.cluster.hardware import Cluster as Cluster
from partkit.cluster.hardware import Device as Device
from partkit.cluster.hardware import Link as Link
