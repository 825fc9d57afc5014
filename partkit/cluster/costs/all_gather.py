"""What each all-gather costs. p ranks, n bytes on each:

    all_gather            messages per rank    bytes per rank    time
    ring                  p - 1                (p - 1) n         (p - 1) (alpha + n / beta)
    recursive_doubling    log2(p)              (p - 1) n         log2(p) alpha + (p - 1) n / beta
    bruck                 ceil(log2(p))        (p - 1) n         ceil(log2(p)) alpha + (p - 1) n / beta

Recursive doubling is for powers of two; otherwise the second rank of each team of two sends its piece first, and gets all p n
bytes in the end. For pieces of different sizes, `ROUNDS` has the messages.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 4 and 5; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partkit.butterfly import teams
from partkit.cluster.cost import Cost, CostFunction
from partkit.cluster.costs.rounds import Rounds, all_gather_ring, doubling, firsts, fold, unfold
from partkit.cluster.hardware import LOOPBACK, Link


def ring_all_gather(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Every piece goes once round the ring.

    Example:
        >>> ring_all_gather(10, 4, size=4)[:3]
        ((3, 3, 3, 3), (120, 120, 120, 120), 3)
    """
    nbytes, steps = numel * itemsize, size - 1
    return Cost((steps,) * size, (steps * nbytes,) * size, steps, steps * link.seconds(nbytes))


def recursive_doubling_all_gather(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """The butterfly among the first ranks of all teams, before it one step and after it one for teams of two.

    Example:
        >>> recursive_doubling_all_gather(10, 4, size=4)[:3]
        ((2, 2, 2, 2), (120, 120, 120, 120), 2)
        >>> recursive_doubling_all_gather(10, 4, size=3)[:3]
        ((2, 1, 1), (200, 40, 40), 3)
    """
    return Cost.of_rounds(recursive_doubling_rounds([numel * itemsize] * size), size, link)


def bruck_all_gather(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """What a rank has doubles in every step but the last, which brings the rest.

    Example:
        >>> bruck_all_gather(10, 4, size=5)[:3]
        ((3, 3, 3, 3, 3), (160, 160, 160, 160, 160), 3)
    """
    nbytes, steps = (size - 1) * numel * itemsize, (size - 1).bit_length()
    return Cost((steps,) * size, (nbytes,) * size, steps, steps * link.latency + nbytes / link.bandwidth)


def ring_rounds(pieces: Sequence[int]) -> Rounds:
    """The messages of the ring, for pieces of so many bytes.

    Example:
        >>> ring_rounds([3, 2])
        [[(0, 1, 3), (1, 0, 2)]]
    """
    return all_gather_ring(pieces, range(len(pieces)))


def recursive_doubling_rounds(pieces: Sequence[int]) -> Rounds:
    """The messages of recursive doubling.

    Example:
        >>> recursive_doubling_rounds([3, 2, 1])
        [[(1, 0, 2)], [(2, 0, 1), (0, 2, 5)], [(0, 1, 6)]]
    """
    size = len(pieces)
    of_teams = [sum(pieces[rank] for rank in team) for team in teams(size)]
    return [*fold(pieces, size), *doubling(of_teams, firsts(size)), *unfold([sum(pieces)] * size, size)]


def bruck_rounds(pieces: Sequence[int]) -> Rounds:
    """The messages of Bruck's algorithm: rank r has the pieces r, r + 1, ... and sends the first of them back.

    Example:
        >>> bruck_rounds([3, 2, 1])
        [[(0, 2, 3), (1, 0, 2), (2, 1, 1)], [(0, 1, 3), (1, 2, 2), (2, 0, 1)]]
    """
    size, rounds = len(pieces), []
    for far in (2**k for k in range((size - 1).bit_length())):
        count = min(far, size - far)
        rounds.append([(rank, (rank - far) % size, sum(pieces[(rank + i) % size] for i in range(count))) for rank in range(size)])
    return rounds


ROUNDS: dict[str, Callable[[Sequence[int]], Rounds]] = {"ring": ring_rounds, "recursive_doubling": recursive_doubling_rounds, "bruck": bruck_rounds}
"""The messages of each explicit all-gather, for pieces of any sizes."""
ALL_GATHER: dict[str, CostFunction] = {"ring": ring_all_gather, "recursive_doubling": recursive_doubling_all_gather, "bruck": bruck_all_gather}
"""The cost of each explicit all-gather of equal pieces, by the name of its algorithm."""
