"""What is not as it should be: links and devices that are slow for a while, times that scatter, ranks that die.

    SlowLink(0, 1, factor=4)                             from rank 0 to rank 1 everything takes four times as long
    SlowLink(range(8), range(8, 64), 4, since=1.0)       the way out of a node, from the first second on
    ChangedLink(None, 3, Link(1e-3, 1e6), until=2.0)     what goes to rank 3 takes another way for two seconds
    SlowDevice(5, factor=1.5)    Jitter(0.1, seed=7)     a straggler; up to a tenth longer, by chance
    Death(2, at=10.0)                                    a machine that is taken away

A condition is a value, part of a `Cluster`; a run on the same cluster meets the same conditions every time. A message or a computation
keeps the conditions under which it began. A link that gets worse step by step is a list of them; those that hold at once multiply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partkit.cluster.hardware import Link

FOREVER = float("inf")
Ranks = int | Iterable[int] | None
"""A world rank, some of them, or None for any."""


@dataclass(frozen=True)
class SlowLink:
    """Messages from ``src`` to ``dst`` that begin between two moments take ``factor`` times as long.

    Args:
        src: world rank, or some of them; None for any.
        dst: the same.
        factor: 2 for half the speed. A message keeps the speed at which it began.
        since: seconds since the start of the run.
        until: the first moment at which all is well again.

    Raises:
        ValueError: ``factor`` is not above 0, or the time ends before it begins.

    Example:
        >>> import partkit as pk
        >>> link = pk.Link(latency=0, bandwidth=1000)
        >>> slow = pk.Cluster(link=link, conditions=(SlowLink(0, 1, factor=4, since=10),))
        >>> network = slow.network(2)
        >>> network.message(0, 1, 1000, 0.0), network.message(0, 1, 1000, 10.0), network.message(1, 0, 1000, 10.0)
        (1.0, 4.0, 1.0)
    """

    src: Ranks
    dst: Ranks
    factor: float
    since: float = 0.0
    until: float = FOREVER

    def __post_init__(self) -> None:
        _keep_ranks(self)
        _check_factor(self)
        _check_times(self)

    def covers(self, src: int, dst: int) -> bool:
        """Whether it holds for messages from ``src`` to ``dst``.

        Example:
            >>> SlowLink(range(4), None, 2.0).covers(3, 9), SlowLink(range(4), None, 2.0).covers(9, 3)
            (True, False)
        """
        return _among(src, self.src) and _among(dst, self.dst)


@dataclass(frozen=True)
class ChangedLink:
    """Messages from ``src`` to ``dst`` that begin between two moments take another link: another way, or another contract.

    Args:
        src: world rank, or some of them; None for any.
        dst: the same.
        link: what is between them meanwhile. Of several that hold at once the last one listed counts.
        since: seconds since the start of the run.
        until: the first moment at which the cluster's own link is back.

    Raises:
        ValueError: the time ends before it begins.

    Example:
        >>> import partkit as pk
        >>> cluster = pk.Cluster(link=pk.Link(0, 1000), conditions=(ChangedLink(0, 1, pk.Link(1.0, 500), since=5, until=9),))
        >>> [cluster.network(2).message(0, 1, 1000, start) for start in (0.0, 5.0, 9.0)]
        [1.0, 3.0, 1.0]
    """

    src: Ranks
    dst: Ranks
    link: Link
    since: float = 0.0
    until: float = FOREVER

    def __post_init__(self) -> None:
        _keep_ranks(self)
        _check_times(self)

    def covers(self, src: int, dst: int) -> bool:
        """Whether it holds for messages from ``src`` to ``dst``."""
        return _among(src, self.src) and _among(dst, self.dst)


@dataclass(frozen=True)
class SlowDevice:
    """Computations of ``rank`` that begin between two moments take ``factor`` times as long, stated durations included.

    Example:
        >>> import partkit as pk
        >>> with pk.SimulatedWorld(2, pk.Cluster(conditions=(SlowDevice(1, factor=3),))) as world:
        ...     results = world.run(lambda comm: comm.compute("f", seconds=1.0))
        ...     [(event.rank, event.end) for event in world.trace.events]
        [(0, 1.0), (1, 3.0)]
    """

    rank: int
    factor: float
    since: float = 0.0
    until: float = FOREVER

    def __post_init__(self) -> None:
        _check_factor(self)
        _check_times(self)


@dataclass(frozen=True)
class Jitter:
    """Messages and computations take up to ``spread`` longer, by chance: uniformly between 1 and ``1 + spread`` times as long.

    The n-th message from one rank to another, and the n-th computation of a rank, is late by the same part in every run with
    the same seed.

    Args:
        spread: 0.1 for up to a tenth longer.
        seed: another seed, other numbers.

    Example:
        >>> import partkit as pk
        >>> network = pk.Cluster(link=pk.Link(0, 1.0), conditions=(Jitter(0.5),)).network(2)
        >>> [1 <= network.message(0, 1, 1, 0.0) <= 1.5 for _ in range(3)]
        [True, True, True]
    """

    spread: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.spread >= 0:
            raise ValueError(f"{self!r}: spread is how much longer things take at most, at least 0")


@dataclass(frozen=True)
class Death:
    """``rank`` ends at a moment, as a machine does that is taken away: in the middle of whatever it does, without a word.

    Its messages that are not done by then never arrive. Other ranks notice as they would: nothing comes; a receive with a time-out
    (``comm.recv(buffer, src, timeout=...)``) raises. If others wait for it for ever, the run ends in `RankDied`.

    Example:
        >>> import partkit as pk
        >>> world = pk.SimulatedWorld(2, pk.Cluster(conditions=(Death(1, at=0.5),)))
        >>> world.run(lambda comm: comm.compute("f", seconds=1.0))
        [None, died at 0.5 s]
    """

    rank: int
    at: float

    def __post_init__(self) -> None:
        if not self.at >= 0:
            raise ValueError(f"{self!r}: at is in seconds since the start of the run, at least 0")


Condition = SlowLink | ChangedLink | SlowDevice | Jitter | Death


def _keep_ranks(condition: SlowLink | ChangedLink) -> None:
    """Some ranks become a tuple, so that the condition is a value that can be hashed."""
    for name in ("src", "dst"):
        ranks = getattr(condition, name)
        if ranks is not None and not isinstance(ranks, int):
            object.__setattr__(condition, name, tuple(sorted(set(ranks))))


def _among(rank: int, ranks: Ranks) -> bool:
    return ranks is None or (rank == ranks if isinstance(ranks, int) else rank in ranks)


def _check_factor(condition: SlowLink | SlowDevice) -> None:
    if not condition.factor > 0:
        raise ValueError(f"{condition!r}: factor is how many times as long things take, above 0")


def _check_times(condition: SlowLink | ChangedLink | SlowDevice) -> None:
    if not 0 <= condition.since < condition.until:
        raise ValueError(f"{condition!r}: since and until are seconds since the start of the run, 0 or later, and until comes after since")
