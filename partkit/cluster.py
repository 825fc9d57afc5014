"""What a cluster is made of, and what each collective costs on it: the closed forms.

The alpha-beta model: a message of k bytes takes ``latency + k / bandwidth`` on its link; a rank sends one message and
receives one at a time (one-port, full duplex). p ranks, n bytes on each:

    all_reduce     messages per rank    bytes per rank      time
    naive          p - 1                (p - 1) n           (p - 1) (alpha + n / beta)
    ring           2 (p - 1)            2 (p - 1) / p n     2 (p - 1) (alpha + n / (p beta))

where n / p stands for the largest chunk if p does not divide n. The trace of a run shows the same messages and bytes, to
the byte; tests hold both to it.

References: Chan, Heimlich, Purkayastha, van de Geijn 2007, "Collective communication: theory, practice, and experience",
sections 3-7; Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH", section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from partkit.partition import block_sizes


@dataclass(frozen=True)
class Link:
    """A connection between two ranks.

    Args:
        latency: seconds before the first byte arrives (alpha).
        bandwidth: bytes per second after that (beta).

    Example:
        >>> Link(latency=1e-6, bandwidth=1e9).seconds(1000)
        2e-06
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ValueError(f"{self!r}: latency is in seconds, at least 0; bandwidth in bytes per second, above 0")

    def seconds(self, nbytes: float) -> float:
        """Time of one message of ``nbytes``."""
        return self.latency + nbytes / self.bandwidth


@dataclass(frozen=True)
class Device:
    """What computes on one rank.

    Args:
        flops: floating-point operations per second.
        memory: bytes it can hold.
        memory_bandwidth: bytes per second between memory and the arithmetic units.
        name: for pictures and tables.

    Example:
        >>> device = Device(flops=1e12, memory=8e9, memory_bandwidth=1e11)
        >>> device.seconds(flops=1e9, nbytes=1e6), device.seconds(flops=1e6, nbytes=1e9)
        (0.001, 0.01)
    """

    flops: float
    memory: float
    memory_bandwidth: float
    name: str = "device"

    def __post_init__(self) -> None:
        if not (self.flops > 0 and self.memory > 0 and self.memory_bandwidth > 0):
            raise ValueError(f"{self!r}: flops, memory and memory_bandwidth must all be above 0")

    def seconds(self, flops: float, nbytes: float = 0) -> float:
        """Time of a computation: whichever of arithmetic and memory traffic takes longer (the roofline)."""
        return max(flops / self.flops, nbytes / self.memory_bandwidth)


LAPTOP_CORE = Device(flops=50e9, memory=4e9, memory_bandwidth=10e9, name="laptop core")
"""One core of a laptop in float32; round numbers, for pictures, not a measurement."""
LOOPBACK = Link(latency=50e-6, bandwidth=2e9)
"""Two processes of one machine over TCP; round numbers, for pictures, not a measurement."""


@dataclass(frozen=True)
class Cluster:
    """Equal devices, each linked to each other by equal links.

    Example:
        >>> Cluster(link=Link(latency=1e-6, bandwidth=25e9)).link.seconds(0)
        1e-06
    """

    device: Device = field(default=LAPTOP_CORE)
    link: Link = field(default=LOOPBACK)


class Cost(NamedTuple):
    """What a collective costs: what a trace of it shows, and how long it takes in the model."""

    messages: int
    """Messages that each rank sends."""
    bytes_sent: tuple[int, ...]
    """Bytes that each rank sends, by rank."""
    steps: int
    """Rounds of messages, one after the other."""
    seconds: float
    """Time from the common start to the last end."""


def naive_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Everyone sends all it has to everyone.

    Args:
        numel: elements on each rank.
        itemsize: bytes of an element.
        size: number of ranks.
        link: the link between any two of them.

    Example:
        >>> naive_all_reduce(10, 4, size=4).bytes_sent
        (120, 120, 120, 120)
    """
    nbytes = numel * itemsize
    return Cost(size - 1, ((size - 1) * nbytes,) * size, size - 1, (size - 1) * link.seconds(nbytes))


def ring_all_reduce(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
    """Chunks go round the ring twice: summed on the first round, copied on the second.

    Rank r sends every chunk but (r + 1) on the first round, every chunk but (r + 2) on the second. The largest chunk is
    on the way in every step, so it alone sets the time.

    Example:
        >>> ring_all_reduce(10, 4, size=4)[:3]
        (6, (60, 64, 60, 56), 6)
    """
    if size == 1:
        return Cost(0, (0,), 0, 0.0)
    chunks = [itemsize * n for n in block_sizes(numel, size)]
    sent = tuple(2 * sum(chunks) - chunks[(r + 1) % size] - chunks[(r + 2) % size] for r in range(size))
    steps = 2 * (size - 1)
    return Cost(steps, sent, steps, steps * link.seconds(max(chunks)))


ALL_REDUCE: dict[str, Callable[[int, int, int, Link], Cost]] = {"naive": naive_all_reduce, "ring": ring_all_reduce}
"""The closed form of each explicit all-reduce, by the name of its algorithm."""
