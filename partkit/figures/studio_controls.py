"""What a studio can be asked: the sliders, each with its values from left to right and what moving it does.

    ranks, micro-batches     another size of the schedule
    F, I, W                  times of the forward and of the two parts of the backward, of all layers of a rank
    latency, bandwidth       of the link between any two ranks; times in the same unit
    memory                   the most that a rank may keep

A value that is none of the slider's own, set in Python, is shown as it is; the slider then stands at the nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

from partkit.cluster import Link
from partkit.figures.studio_session import Session
from partkit.figures.units import nbytes
from partkit.pipeline_parallel.costs import Value

Number = float | None


class Control(NamedTuple):
    """One slider."""

    key: str
    label: str
    stops: tuple[Number, ...]
    """Values from left to right; None for no limit."""
    say: Callable[[Number], str]
    get: Callable[[Session], Value | None]
    put: Callable[[Session, Number], None]
    hint: str
    """What the number means, and its unit."""

    def place(self, session: Session) -> int:
        """The stop nearest to the present value; -1 if stages have values of their own."""
        value = self.get(session)
        if isinstance(value, Sequence):
            return -1
        large = 1e300
        wanted = large if value is None else min(value, large)
        return min(range(len(self.stops)), key=lambda k: abs((large if self.stops[k] is None else min(self.stops[k] or 0.0, large)) - wanted))

    def text(self, session: Session) -> str:
        """The present value in words."""
        value = self.get(session)
        return "by stage" if isinstance(value, Sequence) else self.say(value)


def _plain(value: Number) -> str:
    return f"{value or 0:g}"


def _rate(value: Number) -> str:
    return "no limit" if value is None or value == inf else f"{nbytes(int(value))} a unit"


def _cap(value: Number) -> str:
    return "no limit" if value is None else f"{value:g}"


def _cost(key: str, label: str, field: str, hint: str) -> Control:
    """A slider of one field of the costs."""
    stops = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)

    def get(session: Session) -> Value:
        found: Value = getattr(session.board.costs, field)
        return found

    def put(session: Session, value: Number) -> None:
        changes: dict[str, Any] = {field: value}
        if field != "forward":  # moving a part of the backward gives up a whole that was stated
            changes["backward"] = None
        session.ask(replace(session.board.costs, **changes))

    return Control(key, label, stops, _plain, get, put, f"Time of {hint} of one micro-batch, of all layers of a rank, in units of the time axis")


def _link(session: Session, latency: Number = None, bandwidth: Number = None) -> None:
    link = session.board.link
    session.ask(link=Link(link.latency if latency is None else latency, link.bandwidth if bandwidth is None else bandwidth))


SIZES = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64)
CONTROLS: tuple[Control, ...] = (
    Control(
        "ranks",
        "Ranks",
        tuple(range(2, 17)),
        _plain,
        lambda session: session.schedule.num_ranks,
        lambda session, value: session.resize(int(value or 0), session.schedule.num_microbatches),
        "How many ranks work together",
    ),
    Control(
        "microbatches",
        "Micro-batches",
        SIZES,
        _plain,
        lambda session: session.schedule.num_microbatches,
        lambda session, value: session.resize(session.schedule.num_ranks, int(value or 0)),
        "In how many a batch is cut",
    ),
    _cost("forward", "Time of F", "forward", "the forward"),
    _cost("backward_input", "Time of I", "backward_input", "the gradient of the input"),
    _cost("backward_weight", "Time of W", "backward_weight", "the gradient of the weights"),
    Control(
        "latency",
        "Latency",
        (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0),
        _plain,
        lambda session: session.board.link.latency,
        lambda session, value: _link(session, latency=value),
        "What every message between two ranks takes, whatever its size, in units of the time axis",
    ),
    Control(
        "bandwidth",
        "Bandwidth",
        (5e5, 1e6, 2e6, 3e6, 4e6, 5e6, 1e7, 2e7, 5e7, inf),
        _rate,
        lambda session: session.board.link.bandwidth,
        lambda session, value: _link(session, bandwidth=value),
        "Bytes of a message that pass in a unit of the time axis; messages have 1 MB unless costs say otherwise",
    ),
    Control(
        "memory_cap",
        "Memory cap",
        (*map(float, SIZES), None),
        _cap,
        lambda session: session.board.memory_cap,
        lambda session, value: session.ask(memory_cap=value),
        "The most that a rank may keep for backwards still to come: micro-batches of all its layers, unless costs say otherwise",
    ),
)
"""The sliders, in the order in which they are shown."""


def slide(session: Session, key: str, stop: int) -> None:
    """Move a slider to one of its stops.

    Example:
        >>> session = Session("gpipe")
        >>> slide(session, "ranks", 0)
        >>> session.schedule.num_ranks
        2
    """
    control = next(control for control in CONTROLS if control.key == key)
    control.put(session, control.stops[stop])


def change(session: Session, **values: Number) -> None:
    """Set what the sliders set, by name, to any value.

    Args:
        session: the studio.
        values: ``ranks``, ``microbatches``, ``forward``, ``backward_input``, ``backward_weight``, ``latency``, ``bandwidth``, ``memory_cap``.

    Raises:
        ValueError: there is no such name, or the value can't be.

    Example:
        >>> session = Session("gpipe")
        >>> change(session, ranks=2, forward=3.0)
        >>> session.schedule.num_ranks, session.board.costs.forward
        (2, 3.0)
    """
    known = {control.key: control for control in CONTROLS}
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"change({key}={value!r}): a studio has {', '.join(known)}")
        if value is None and key != "memory_cap":
            raise ValueError(f"change({key}=None): give a number")
        known[key].put(session, value)
