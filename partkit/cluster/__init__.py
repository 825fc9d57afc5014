"""What a cluster is made of, and what each collective costs on it.

    file        idea
    hardware    `Link`, `Device`, `Cluster`
    topology    which ranks have which link: `Islands`, `Torus`, `LinkMatrix`
    conditions  what is not as it should be: `SlowLink`, `ChangedLink`, `SlowDevice`, `Jitter`, `Death`
    network     how long each message and computation of a run takes on a cluster
    presets     clusters to try things on: ``pk.clusters``
    cost        `Cost`: messages, bytes, steps and seconds of a collective, in the alpha-beta model
    costs/      the cost of each algorithm, one file an operation: `COSTS`

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 3-7; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from partkit.cluster import presets as clusters  # noqa: F401 (a name of its own: pk.clusters)
from partkit.cluster.conditions import ChangedLink as ChangedLink
from partkit.cluster.conditions import Death as Death
from partkit.cluster.conditions import Jitter as Jitter
from partkit.cluster.conditions import SlowDevice as SlowDevice
from partkit.cluster.conditions import SlowLink as SlowLink
from partkit.cluster.cost import Cost as Cost
from partkit.cluster.cost import CostFunction as CostFunction
from partkit.cluster.costs import COSTS as COSTS
from partkit.cluster.hardware import LAPTOP_CORE as LAPTOP_CORE
from partkit.cluster.hardware import LOOPBACK as LOOPBACK
from partkit.cluster.hardware import Cluster as Cluster
from partkit.cluster.hardware import Device as Device
from partkit.cluster.hardware import Link as Link
from partkit.cluster.topology import Islands as Islands
from partkit.cluster.topology import LinkMatrix as LinkMatrix
from partkit.cluster.topology import Torus as Torus
