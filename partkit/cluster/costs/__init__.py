"""The cost of every algorithm of every collective, one file an operation, as `partkit.collectives` has them.

``COSTS[operation][algorithm](numel, itemsize, size, link)`` gives a `Cost`. The trace of a run shows the same messages and
bytes, to the byte, and a simulated run takes the same time; tests hold all three together.
What ranks add and copy meanwhile takes no time in it: `partkit.cluster.costs.local` has that.
"""

from partkit.cluster.cost import CostFunction
from partkit.cluster.costs.all_gather import ALL_GATHER
from partkit.cluster.costs.all_reduce import ALL_REDUCE
from partkit.cluster.costs.all_to_all import ALL_TO_ALL
from partkit.cluster.costs.barrier import BARRIER
from partkit.cluster.costs.broadcast import BROADCAST
from partkit.cluster.costs.gather import GATHER
from partkit.cluster.costs.reduce import REDUCE
from partkit.cluster.costs.reduce_scatter import REDUCE_SCATTER
from partkit.cluster.costs.scan import SCAN
from partkit.cluster.costs.scatter import SCATTER

COSTS: dict[str, dict[str, CostFunction]] = {
    "all_gather": ALL_GATHER,
    "all_reduce": ALL_REDUCE,
    "all_to_all": ALL_TO_ALL,
    "barrier": BARRIER,
    "broadcast": BROADCAST,
    "exscan": SCAN,
    "gather": GATHER,
    "reduce": REDUCE,
    "reduce_scatter": REDUCE_SCATTER,
    "scan": SCAN,
    "scatter": SCATTER,
}
"""Operation -> algorithm -> its cost."""
