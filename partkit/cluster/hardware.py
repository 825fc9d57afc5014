"""What a cluster is made of: devices that compute, links that carry messages."""

from __future__ import annotations

from dataclasses import dataclass, field


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
LOOPBACK = Link(latency=200e-6, bandwidth=1e9)
"""Ranks of one machine over TCP: round numbers, near what four ranks on two cores were seen to take, so that ``algorithm="auto"``
chooses well there. For what your machine takes: `partkit.CostExplorer.measure`, ``partkit bench collectives``."""


@dataclass(frozen=True)
class Cluster:
    """Equal devices, each linked to each other by equal links.

    Example:
        >>> Cluster(link=Link(latency=1e-6, bandwidth=25e9)).link.seconds(0)
        1e-06
    """

    device: Device = field(default=LAPTOP_CORE)
    link: Link = field(default=LOOPBACK)
