"""Seconds and bytes in words, and round numbers for an axis."""

from __future__ import annotations

import math
from typing import NamedTuple

from partkit.tracing import Clock, Trace

CLOCK_NAMES: dict[Clock, str] = {"wall": "wall clock", "virtual": "virtual time (simulated)", "planned": "planned time"}
"""What an axis calls each clock."""

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def clock_name(trace: Trace) -> str:
    """What an axis calls the clock of a trace; of a replay also on what it was replayed.

    Example:
        >>> from partkit.cluster import Cluster
        >>> trace = Trace.from_events([], size=2)
        >>> clock_name(trace), clock_name(trace.replay(Cluster(name="laptop")))
        ('wall clock', 'virtual time (replayed: laptop, stated durations)')
    """
    return f"virtual time (replayed: {trace.replayed})" if trace.replayed else CLOCK_NAMES[trace.clock]


class Axis(NamedTuple):
    """Round positions between two times."""

    ticks: tuple[float, ...]
    """Seconds."""
    labels: tuple[str, ...]
    """In ``unit``."""
    unit: str


def seconds(value: float) -> str:
    """A duration with three digits and a fitting unit.

    Example:
        >>> seconds(0.00123456), seconds(12.5), seconds(0)
        ('1.23 ms', '12.5 s', '0 s')
    """
    scale, unit = _unit(abs(value))
    return f"{float(f'{value / scale:.3g}'):g} {unit}"


def nbytes(value: int) -> str:
    """Bytes, exact below 1,000, else three digits with decimal prefixes.

    Example:
        >>> nbytes(1), nbytes(999), nbytes(4096), nbytes(25_000_000)
        ('1 byte', '999 bytes', '4.1 kB', '25 MB')
    """
    if value < 1000:
        return f"{value} byte" + ("" if value == 1 else "s")
    power = min(int(math.log10(value)) // 3, 5)
    return f"{float(f'{value / 1000**power:.3g}'):g} {'kMGTP'[power - 1]}B"


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 event``, ``1,000 events``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def axis(start: float, end: float, num_ticks: int = 6) -> Axis:
    """About ``num_ticks`` round times from ``start`` to ``end``.

    Example:
        >>> axis(0.0, 0.01).labels, axis(0.0, 0.01).unit
        (('0', '2', '4', '6', '8', '10'), 'ms')
    """
    width = end - start
    if not width > 0:
        return Axis((start,), ("0",), "s")
    ticks = round_numbers(start, end, width / max(num_ticks, 1))
    scale, unit = _unit(max(abs(start), abs(end)))
    return Axis(ticks, tuple(f"{float(f'{t / scale:.9g}'):g}" for t in ticks), unit)


def round_numbers(start: float, end: float, rough: float) -> tuple[float, ...]:
    """The multiples of 1, 2 or 5 times a power of ten from ``start`` to ``end``, at least ``rough`` apart.

    Example:
        >>> round_numbers(0, 7, 1.5)
        (0.0, 2.0, 4.0, 6.0)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(start / step - 1e-9), math.floor(end / step + 1e-9)
    return tuple(k * step for k in range(first, last + 1))


def _unit(value: float) -> tuple[float, str]:
    if value == 0:
        return _UNITS[0]
    return next((pair for pair in _UNITS if value >= pair[0] * 0.9999), _UNITS[-1])
