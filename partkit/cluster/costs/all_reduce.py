"""What each all-reduce costs. p ranks, n bytes on each:

    all_reduce     messages per rank    bytes per rank      time
    naive          p - 1                (p - 1) n           (p - 1) (alpha + n / beta)
    ring           2 (p - 1)            2 (p - 1) / p n     2 (p - 1) (alpha + n / (p beta))

where n / p stands for the largest chunk if p does not divide n.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 3-7; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

from partkit.cluster.cost import Cost, CostFunction, nothing
from partkit.cluster.hardware import LOOPBACK, Link
from partkit.partition import block_sizes


def naive_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Everyone sends all it has to everyone.

    Example:
        >>> naive_all_reduce(10, 4, size=4).bytes_sent
        (120, 120, 120, 120)
    """
    if size == 1:
        return nothing(size)
    nbytes = numel * itemsize
    return Cost((size - 1,) * size, ((size - 1) * nbytes,) * size, size - 1, (size - 1) * link.seconds(nbytes))


def ring_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Chunks go round the ring twice: summed on the first round, copied on the second.

    Rank r sends every chunk but its own (r) on the first round, every chunk but (r + 1) on the second. The largest chunk is
    on the way in every step, so it alone sets the time.

    Example:
        >>> ring_all_reduce(10, 4, size=4)[:3]
        ((6, 6, 6, 6), (56, 60, 64, 60), 6)
    """
    if size == 1:
        return nothing(size)
    chunks = [itemsize * n for n in block_sizes(numel, size)]
    sent = tuple(2 * sum(chunks) - chunks[r] - chunks[(r + 1) % size] for r in range(size))
    steps = 2 * (size - 1)
    return Cost((steps,) * size, sent, steps, steps * link.seconds(max(chunks)))


ALL_REDUCE: dict[str, CostFunction] = {"naive": naive_all_reduce, "ring": ring_all_reduce}
"""The closed form of each explicit all-reduce, by the name of its algorithm."""
