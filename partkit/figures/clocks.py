"""The clocks in which a trace can be shown, and the same trace in each of them. Pure.

    trace of           own clock       also
    live ranks         wall clock      virtual (as on a cluster with a core a rank), replayed (on any cluster)
    simulated ranks    virtual time    replayed
    a plan             planned time    none: a plan's durations are in units

A wall clock is right about this machine at that moment: four ranks on two crowded cores take turns, and what looks like waiting for
a message is waiting for a core. Virtual time knows no crowd: messages take what the cluster's links take, computations what the
program says (``comm.compute``), or else the CPU seconds of the rank's own thread (`Durations`). The two are never mixed in one
picture, and every picture names its clock. Neither is a formula: both follow what the ranks did, message by message.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

from partkit.cluster import Cluster, Link, clusters
from partkit.figures.units import nbytes, seconds
from partkit.tracing import KIND_CODE, Trace
from partkit.tracing.replay import Durations, has_cpu_times

ClockChoice = Literal["wall", "virtual", "planned", "replayed"]
NAMES: dict[str, str] = {"wall": "wall clock", "virtual": "virtual time", "planned": "planned time", "replayed": "replayed on ..."}
"""What a reader chooses from."""
FREE = Cluster(link=Link(latency=0.0, bandwidth=math.inf), name="messages take no time")
PRESETS = (clusters.LAPTOP, clusters.H100_NODES, clusters.A100_NODES, clusters.SPOT_VMS, clusters.VOLUNTEERS, FREE)
"""Clusters to replay on; all have room for any number of ranks."""
EQUAL = "equal links"
"""Name of a cluster whose links a reader has set."""
FEWEST_EXPONENT, MOST_EXPONENT = (-7.0, 3.0), (0.0, 12.0)
"""Powers of ten at the ends of the dials: of latency in seconds, of bandwidth in bytes per second."""


class Dials(NamedTuple):
    """A link as positions of two dials: powers of ten."""

    latency: float
    bandwidth: float


def clocks_of(trace: Trace) -> tuple[ClockChoice, ...]:
    """The clocks of a trace, its own first.

    Example:
        >>> clocks_of(Trace(4)), clocks_of(Trace(4, clock="virtual")), clocks_of(Trace(4, clock="planned"))
        (('wall', 'virtual', 'replayed'), ('virtual', 'replayed'), ('planned',))
    """
    return {"wall": ("wall", "virtual", "replayed"), "virtual": ("virtual", "replayed"), "planned": ("planned",)}[trace.clock]  # type: ignore[return-value]


def durations_of(trace: Trace) -> Durations:
    """How long the computations of a trace take in virtual time: as stated, if it states any; else as noted of each rank's thread.

    Example:
        >>> durations_of(Trace(4, clock="virtual"))
        'stated'
    """
    if trace.clock != "wall" or (trace.columns["kind"] == KIND_CODE["compute"]).any():
        return "stated"
    return "cpu" if has_cpu_times(trace) else "measured"


def in_clock(trace: Trace, choice: ClockChoice, cluster: Cluster, durations: Durations | None = None) -> Trace:
    """A trace in one of its clocks.

    Args:
        trace: of a run that is over.
        choice: one of `clocks_of`.
        cluster: for virtual time of live ranks, and for replays.
        durations: how long computations take there; by default what `durations_of` says.

    Raises:
        ValueError: the trace has no such clock, or the cluster no room or no rate for what the run computes.
    """
    if choice not in clocks_of(trace):
        raise ValueError(f"clock={choice!r}: this trace has {', '.join(map(repr, clocks_of(trace)))}")
    return trace if choice == trace.clock else trace.replay(cluster, durations_of(trace) if durations is None else durations)


def dials(cluster: Cluster, size: int) -> Dials:
    """Where the dials stand for the link between the first rank and the last.

    Example:
        >>> dials(Cluster(link=Link(latency=1e-4, bandwidth=1e9)), size=4)
        Dials(latency=-4.0, bandwidth=9.0)
    """
    link = cluster.between(0, size - 1) if size > 1 else cluster.link
    exponents = (math.log10(x) if 0 < x < math.inf else -math.inf if x == 0 else math.inf for x in (link.latency, link.bandwidth))
    return Dials(*(round(min(most, max(least, x)), 3) for x, least, most in zip(exponents, FEWEST_EXPONENT, MOST_EXPONENT, strict=True)))


def turned(cluster: Cluster, to: Dials) -> Cluster:
    """The same devices with equal links, as the dials say.

    Example:
        >>> turned(clusters.H100_NODES, Dials(-3, 6)).between(0, 1)
        Link(latency=0.001, bandwidth=1000000.0)
    """
    latency, bandwidth = (float(f"{10**x:.3g}") for x in to)
    return replace(cluster, link=Link(latency, bandwidth), topology=None, name=f"{EQUAL}: {link_name(Link(latency, bandwidth))}")


def link_name(link: Link) -> str:
    """A link in words.

    Example:
        >>> link_name(Link(latency=2e-4, bandwidth=1e9)), link_name(Link(latency=0, bandwidth=math.inf))
        ('200 us and 1 GB/s', 'no latency and unlimited bandwidth')
    """
    latency = seconds(link.latency) if link.latency else "no latency"
    return f"{latency} and {'unlimited bandwidth' if math.isinf(link.bandwidth) else f'{nbytes(int(link.bandwidth))}/s'}"
