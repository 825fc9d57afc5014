"""How long things take on a cluster: what a simulated run asks for each message and each computation."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from partkit.cluster.conditions import FOREVER, ChangedLink, Death, Jitter, SlowDevice, SlowLink
from partkit.virtual_time import Computation

if TYPE_CHECKING:
    from partkit.cluster.hardware import Cluster, Link


class ClusterNetwork:
    """A cluster of so many ranks, asked in the order of time. One run, one network: jitter counts what was asked.

    Args:
        cluster: links, devices, conditions.
        size: number of ranks.
    """

    def __init__(self, cluster: Cluster, size: int) -> None:
        if cluster.topology is not None:
            cluster.topology.check(size)
        self._devices = [cluster.device_of(rank) for rank in range(size)]
        self._cluster = cluster
        self._links: dict[tuple[int, int], Link] = {}
        self._slow_links = [c for c in cluster.conditions if isinstance(c, SlowLink)]
        self._changed_links = [c for c in cluster.conditions if isinstance(c, ChangedLink)]
        self._of_pair: dict[tuple[int, int], tuple[list[ChangedLink], list[SlowLink]]] = {}
        self._slow_devices = [c for c in cluster.conditions if isinstance(c, SlowDevice)]
        self._jitters = [c for c in cluster.conditions if isinstance(c, Jitter)]
        self._chances: dict[tuple[int, int, int], Random] = {}
        self._plain = cluster.topology is None and not (self._slow_links or self._changed_links or self._jitters)
        self._seconds: dict[int, float] = {}  # by size, where all links are equal
        self._deaths = {c.rank: c.at for c in cluster.conditions if isinstance(c, Death)}

    def message(self, src: int, dst: int, nbytes: int, start: float) -> float:
        """Seconds of a message that begins at ``start``."""
        if self._plain:
            seconds = self._seconds.get(nbytes)
            if seconds is None:
                seconds = self._seconds[nbytes] = self._cluster.link.seconds(nbytes)
            return seconds
        link = self._links.get((src, dst))
        if link is None:
            link = self._links[src, dst] = self._cluster.between(src, dst)
            self._of_pair[src, dst] = [c for c in self._changed_links if c.covers(src, dst)], [c for c in self._slow_links if c.covers(src, dst)]
        changed_links, slow_links = self._of_pair[src, dst]
        for condition in changed_links:
            if condition.since <= start < condition.until:
                link = condition.link
        seconds = link.seconds(nbytes)
        for slow_link in slow_links:
            if slow_link.since <= start < slow_link.until:
                seconds *= slow_link.factor
        return seconds * self._chance(src, dst)

    def computation(self, rank: int, work: Computation | float, start: float) -> float:
        """Seconds of a computation that begins at ``start``: stated, or what the rank's device needs for it."""
        seconds = work if isinstance(work, float) else self._devices[rank].seconds(work.flops, work.nbytes, work.dtype)
        for slow in self._slow_devices:
            if slow.rank == rank and slow.since <= start < slow.until:
                seconds *= slow.factor
        return seconds * self._chance(rank, -1)

    @property
    def steady(self) -> bool:
        """Whether all takes as long at whatever time it begins, and however often it has been asked: conditions, if any, last for ever."""
        lasting = (SlowLink, ChangedLink, SlowDevice)
        return all(isinstance(c, lasting) and c.since == 0 and c.until == FOREVER for c in self._cluster.conditions)

    def death(self, rank: int) -> float:
        """When the rank dies; infinite for one that lives."""
        return self._deaths.get(rank, FOREVER)

    def _chance(self, src: int, dst: int) -> float:
        """By how much the next message from ``src`` to ``dst``, or (-1) computation of ``src``, is late."""
        factor = 1.0
        for jitter in self._jitters:
            key = (jitter.seed, src, dst)
            if key not in self._chances:
                self._chances[key] = Random(f"{jitter.seed} {src} {dst}")
            factor *= 1 + jitter.spread * self._chances[key].random()
        return factor
