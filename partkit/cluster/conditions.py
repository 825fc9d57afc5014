"""What is not as it should be: links and devices that are slow for a while, times that scatter, ranks that die.

A condition is a value, part of a `Cluster`; a run on the same cluster meets the same conditions every time.
"""

from __future__ import annotations

from dataclasses import dataclass

FOREVER = float("inf")


@dataclass(frozen=True)
class SlowLink:
    """Messages from ``src`` to ``dst`` that begin between two moments take ``factor`` times as long.

    Args:
        src: world rank; None for any.
        dst: world rank; None for any.
        factor: 2 for half the speed. A message keeps the speed at which it began.
        since: seconds since the start of the run.
        until: the first moment at which all is well again.

    Example:
        >>> import partkit as pk
        >>> link = pk.Link(latency=0, bandwidth=1000)
        >>> slow = pk.Cluster(link=link, conditions=(SlowLink(0, 1, factor=4, since=10),))
        >>> network = slow.network(2)
        >>> network.message(0, 1, 1000, 0.0), network.message(0, 1, 1000, 10.0), network.message(1, 0, 1000, 10.0)
        (1.0, 4.0, 1.0)
    """

    src: int | None
    dst: int | None
    factor: float
    since: float = 0.0
    until: float = FOREVER

    def __post_init__(self) -> None:
        _check_factor(self)


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


Condition = SlowLink | SlowDevice | Jitter | Death


def _check_factor(condition: SlowLink | SlowDevice) -> None:
    if not condition.factor > 0:
        raise ValueError(f"{condition!r}: factor is how many times as long things take, above 0")
