"""What a cluster is made of: devices that compute, links that carry messages, how they are laid out, and what goes wrong.

Cluster(device, link)                                        equal devices, equal links between any two ranks
Cluster(device, slow, topology=Islands((8, fast), ...))      8 ranks of a node by fast links, nodes by slow ones
Cluster((big, small, small), link)                           a device for each rank
Cluster(..., conditions=(SlowLink(0, 1, factor=4), ...))     slow links and devices, jitter, ranks that die
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from partkit.cluster.topology import Topology

if TYPE_CHECKING:
    from partkit.cluster.conditions import Condition
    from partkit.cluster.network import ClusterNetwork


@dataclass(frozen=True, repr=False)
class Link:
    """A connection between two ranks.

    Args:
        latency: seconds before the first byte arrives (alpha).
        bandwidth: bytes per second after that (beta).
        channels: how many messages all pairs of ranks together have under way at a time, as on a bus; None: each pair has a link of its
            own. Only `partkit.choose` (so ``algorithm="auto"``) and `partkit.CostExplorer` reckon with it: in the formulas of
            `partkit.cluster.COSTS` and in virtual time each pair has its own.

    Example:
        >>> Link(latency=1e-6, bandwidth=1e9).seconds(1000)
        2e-06
        >>> Link(latency=1e-6, bandwidth=1e9), Link(latency=1e-6, bandwidth=1e9, channels=1)
        (Link(latency=1e-06, bandwidth=1000000000.0), Link(latency=1e-06, bandwidth=1000000000.0, channels=1))
    """

    latency: float
    bandwidth: float
    channels: int | None = None

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ValueError(f"{self!r}: latency is in seconds, at least 0; bandwidth in bytes per second, above 0")
        if self.channels is not None and self.channels < 1:
            raise ValueError(f"{self!r}: channels is the number of messages at a time, at least 1; None if each pair of ranks has its own link")

    def __repr__(self) -> str:
        channels = "" if self.channels is None else f", channels={self.channels!r}"
        return f"Link(latency={self.latency!r}, bandwidth={self.bandwidth!r}{channels})"

    def seconds(self, nbytes: float) -> float:
        """Time of one message of ``nbytes``."""
        return self.latency + nbytes / self.bandwidth


Rates = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Device:
    """What computes on one rank.

    Args:
        flops: floating-point operations per second: one number, or one by dtype, ``{"float32": 67e12, "bfloat16": 989e12}``.
        memory: bytes it can hold.
        memory_bandwidth: bytes per second between memory and the arithmetic units.
        name: for pictures and tables.
        efficiency: the part of ``flops`` that programs reach. Data sheets give peaks; 0.4 to 0.6 is what large training runs
            report of them.

    Example:
        >>> device = Device(flops=1e12, memory=8e9, memory_bandwidth=1e11)
        >>> device.seconds(flops=1e9, nbytes=1e6), device.seconds(flops=1e6, nbytes=1e9)
        (0.001, 0.01)
        >>> fast = Device(flops={"float32": 1e12, "bfloat16": 4e12}, memory=8e9, memory_bandwidth=1e11)
        >>> fast.seconds(flops=1e9, dtype="bfloat16")
        0.00025
    """

    flops: float | Mapping[str, float] | Rates
    memory: float
    memory_bandwidth: float
    name: str = "device"
    efficiency: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.flops, Mapping):
            object.__setattr__(self, "flops", tuple(sorted(self.flops.items())))  # a value that can be hashed
        rates = [rate for _, rate in self.flops] if isinstance(self.flops, tuple) else [self.flops]
        if not (rates and all(rate > 0 for rate in rates) and self.memory > 0 and self.memory_bandwidth > 0):  # type: ignore[operator]
            raise ValueError(f"{self!r}: flops, memory and memory_bandwidth must all be above 0")
        if not 0 < self.efficiency <= 1:
            raise ValueError(f"{self!r}: efficiency is the part of the peak that programs reach, above 0 and at most 1")

    def rate(self, dtype: str = "float32") -> float:
        """Floating-point operations per second that programs reach in ``dtype``.

        Raises:
            ValueError: the device does not say how fast it is in that dtype.
        """
        if not isinstance(self.flops, tuple):
            return self.flops * self.efficiency  # type: ignore[operator]
        rates = dict(self.flops)
        if dtype not in rates:
            raise ValueError(f"{self.name} has no rate for {dtype}; it has {', '.join(rates)}: give it one in Device(flops={{...}})")
        return rates[dtype] * self.efficiency

    def seconds(self, flops: float, nbytes: float = 0, dtype: str = "float32") -> float:
        """Time of a computation: whichever of arithmetic and memory traffic takes longer (the roofline)."""
        return max(flops / self.rate(dtype) if flops else 0.0, nbytes / self.memory_bandwidth)


LAPTOP_CORE = Device(flops=50e9, memory=4e9, memory_bandwidth=10e9, name="laptop core")
"""One core of a laptop in any dtype; round numbers, for pictures, not a measurement."""
LOOPBACK = Link(latency=200e-6, bandwidth=1e9, channels=1)
"""Ranks of one machine over TCP: round numbers, near what four ranks on two cores were seen to take, so that ``algorithm="auto"``
chooses well there. A message keeps two cores busy, the sender's and the receiver's, so c cores carry c / 2 messages at a time. For what your
machine takes: `partkit.CostExplorer.measure`, ``partkit bench collectives``."""


@dataclass(frozen=True)
class Cluster:
    """Devices and the links between them.

    Args:
        device: the device of every rank, or one for each rank.
        link: between any two ranks; with a ``topology``, what the cost formulas and ``algorithm="auto"`` go by.
        topology: which ranks have which link (`Islands`, `Torus`, `LinkMatrix`); all have ``link`` by default.
        conditions: what is not as it should be: `SlowLink`, `ChangedLink`, `SlowDevice`, `Jitter`, `Death`.
        name: for pictures and tables.

    Example:
        >>> Cluster(link=Link(latency=1e-6, bandwidth=25e9)).link.seconds(0)
        1e-06
        >>> from partkit.cluster import Islands
        >>> nodes = Cluster(link=Link(5e-6, 50e9), topology=Islands((8, Link(2e-6, 450e9))))
        >>> nodes.between(0, 7).latency, nodes.between(0, 8).latency
        (2e-06, 5e-06)
    """

    device: Device | Sequence[Device] = field(default=LAPTOP_CORE)
    link: Link = field(default=LOOPBACK)
    topology: Topology | None = None
    conditions: tuple[Condition, ...] = ()
    name: str = "cluster"

    def __post_init__(self) -> None:
        if not isinstance(self.device, Device):
            object.__setattr__(self, "device", tuple(self.device))
        object.__setattr__(self, "conditions", tuple(self.conditions))

    @property
    def memory_bandwidth(self) -> float:
        """Of the device with the slowest memory, in bytes per second."""
        return self.device.memory_bandwidth if isinstance(self.device, Device) else min(device.memory_bandwidth for device in self.device)

    def between(self, src: int, dst: int) -> Link:
        """The link from rank ``src`` to rank ``dst``, when all is well."""
        found = None if self.topology is None else self.topology.link(src, dst)
        return self.link if found is None else found

    def device_of(self, rank: int) -> Device:
        """The device of a rank.

        Raises:
            ValueError: there is a device for each rank, and none for this one.
        """
        if isinstance(self.device, Device):
            return self.device
        if not 0 <= rank < len(self.device):
            raise ValueError(f"rank {rank} has no device: this cluster lists {len(self.device)}, for ranks 0 to {len(self.device) - 1}")
        return self.device[rank]

    def network(self, size: int) -> ClusterNetwork:
        """How long things take for ``size`` ranks: what a simulated run, or a replay, asks.

        Raises:
            ValueError: the cluster has not enough devices, or its topology not enough places.
        """
        from partkit.cluster.network import ClusterNetwork

        return ClusterNetwork(self, size)
