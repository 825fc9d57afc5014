"""What somebody does to a cluster, one thing after the other, and how each is called. Pure: values and a history.

    target        what it is                                      slowed down                       killed
    rank 3        a device                                        SlowDevice(3, f)                  Death(3, at)
    links 3       all messages to and from a rank                 SlowLink(3, None), (None, 3)      -
    pair 3 5      the link between two ranks, both directions     SlowLink(3, 5), (5, 3)            -
    wire 2        the third link of the map: a bus, a way out     SlowLink(src, dst), (dst, src)    -

A target has one trouble of each kind at a time: doing it again replaces it, a factor of 1 ends it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from partkit.cluster import Cluster, Death, Device, SlowDevice, SlowLink
from partkit.cluster.conditions import Condition
from partkit.figures.cluster_map import Map, figures
from partkit.figures.units import nbytes, seconds


class Trouble(NamedTuple):
    """One thing that is done to a target."""

    target: str
    factor: float = 1.0
    """How many times as long it takes."""
    at: float | None = None
    """When it dies; None if it does not."""


class Session:
    """A cluster of so many ranks, and what has been done to it.

    Args:
        cluster: as it is when all is well.
        size: number of ranks.
        sheet: its map, which numbers the wires.

    Example:
        >>> from partkit.cluster import clusters
        >>> from partkit.figures.cluster_map import layout
        >>> session = Session(clusters.H100_NODES, 16, layout(clusters.H100_NODES, 16))
        >>> session.slow("wire 2", 4)
        >>> session.told
        ['out of ranks 0-7: 4 times as slow']
        >>> session.undo()
        >>> session.told
        []
    """

    def __init__(self, cluster: Cluster, size: int, sheet: Map) -> None:
        self._cluster, self.size, self.sheet = cluster, size, sheet
        self._history: list[tuple[Trouble, ...]] = [()]

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """What is wrong now, in the order in which it was done."""
        return self._history[-1]

    @property
    def can_undo(self) -> bool:
        """Whether there is a step back."""
        return len(self._history) > 1

    @property
    def cluster(self) -> Cluster:
        """The cluster with all that."""
        own = tuple(condition for trouble in self.troubles for condition in self._conditions(trouble))
        return replace(self._cluster, conditions=(*self._cluster.conditions, *own))

    @property
    def told(self) -> list[str]:
        """What is wrong now, in words."""
        return [f"{self.name(trouble.target)}: {state(trouble)}" for trouble in self.troubles]

    def slow(self, target: str, factor: float) -> None:
        """Let a target take ``factor`` times as long; 1 ends it.

        Raises:
            ValueError: there is no such target, or the factor is not above 0.
        """
        self.check(target)
        if not 0 < factor < float("inf"):
            raise ValueError(f"slow({target!r}, factor={factor!r}): factor is how many times as long things take, above 0; 1 for as fast as before")
        others = tuple(trouble for trouble in self.troubles if trouble.target != target or trouble.at is not None)
        self._do(others if factor == 1 else (*others, Trouble(target, float(factor))))

    def kill(self, target: str, at: float) -> None:
        """Let a rank die at a moment.

        Raises:
            ValueError: it is no rank, or the moment is before the run.
        """
        if self.check(target)[0] != "rank":
            raise ValueError(f"kill({target!r}): only a rank can die; choose one, or slow the link down")
        if not 0 <= at < float("inf"):
            raise ValueError(f"kill({target!r}, at={at!r}): at is in seconds since the start of the run, at least 0")
        others = tuple(trouble for trouble in self.troubles if trouble.target != target or trouble.at is None)
        self._do((*others, Trouble(target, at=float(at))))

    def heal(self, target: str) -> None:
        """End all trouble of a target.

        Raises:
            ValueError: there is no such target.
        """
        self.check(target)
        self._do(tuple(trouble for trouble in self.troubles if trouble.target != target))

    def reset(self) -> None:
        """All is well again; can be undone."""
        self._do(())

    def undo(self) -> None:
        """One step back, if there is one."""
        if self.can_undo:
            self._history.pop()

    def _do(self, troubles: tuple[Trouble, ...]) -> None:
        if troubles != self.troubles:
            self._history.append(troubles)

    # -- targets -------------------------------------------------------------------------------------------------

    def check(self, target: str) -> tuple[str, list[int]]:
        """The kind of a target, and its numbers.

        Raises:
            ValueError: there is no such target; the message says what there is.
        """
        kind, *texts = str(target).split()
        numbers = [int(text) for text in texts if text.isdecimal()]
        most = len(self.sheet.wires) if kind == "wire" else self.size
        wanted = {"rank": 1, "links": 1, "wire": 1, "pair": 2}.get(kind)
        if wanted != len(texts) or len(numbers) != wanted or not all(number < most for number in numbers) or len(set(numbers)) != wanted:
            raise ValueError(
                f"target {target!r}: there are 'rank 0' to 'rank {self.size - 1}', 'links 0' for all links of a rank, 'pair 0 1' for the link between two"
                + (f", and 'wire 0' to 'wire {len(self.sheet.wires) - 1}'" if self.sheet.wires else "")
            )
        return kind, numbers

    def name(self, target: str) -> str:
        """A target in words."""
        kind, numbers = self.check(target)
        if kind == "wire":
            return self.sheet.wires[numbers[0]].name
        return {"rank": "rank {}", "links": "all links of rank {}", "pair": "rank {} to rank {}"}[kind].format(*numbers)

    def facts(self, target: str) -> str:
        """A target and its figures: ``rank 3, H100 SXM: 67 TFLOP/s in float32, 80 GB``."""
        kind, numbers = self.check(target)
        if kind == "rank":
            return f"{self.name(target)}, {device_figures(self._cluster.device_of(numbers[0]))}"
        if kind == "links":
            return self.name(target)
        link = self.sheet.wires[numbers[0]].link if kind == "wire" else self._cluster.between(*numbers)
        return f"{self.name(target)}: {figures(link)}"

    def _conditions(self, trouble: Trouble) -> tuple[Condition, ...]:
        kind, numbers = self.check(trouble.target)
        if trouble.at is not None:
            return (Death(numbers[0], trouble.at),)
        if kind == "rank":
            return (SlowDevice(numbers[0], trouble.factor),)
        if kind == "wire":
            wire = self.sheet.wires[numbers[0]]
            there = SlowLink(wire.src, wire.dst, trouble.factor)
            return (there,) if wire.src == wire.dst else (there, SlowLink(wire.dst, wire.src, trouble.factor))
        src, dst = (numbers[0], None) if kind == "links" else numbers
        return SlowLink(src, dst, trouble.factor), SlowLink(dst, src, trouble.factor)


def state(trouble: Trouble) -> str:
    """``4 times as slow``, ``dies at 0.5 s``.

    Example:
        >>> state(Trouble("rank 3", 4.0)), state(Trouble("rank 3", 0.5)), state(Trouble("rank 3", at=0.002))
        ('4 times as slow', '2 times as fast', 'dies at 2 ms')
    """
    if trouble.at is not None:
        return f"dies at {seconds(trouble.at)}"
    return f"{trouble.factor:.3g} times as slow" if trouble.factor > 1 else f"{1 / trouble.factor:.3g} times as fast"


def device_figures(device: Device) -> str:
    """``H100 SXM: 67 TFLOP/s in float32, 80 GB``.

    Example:
        >>> device_figures(Device(50e9, 4e9, 1e10, "laptop core"))
        'laptop core: 50 GFLOP/s, 4 GB'
    """
    rates = dict(device.flops) if isinstance(device.flops, tuple) else {"": device.rate()}
    dtype = "float32" if "float32" in rates else next(iter(rates))
    rate = nbytes(int(device.rate(dtype))).removesuffix("B") + "FLOP/s"
    return f"{device.name}: {rate}{f' in {dtype}' if dtype else ''}, {nbytes(int(device.memory))}"
