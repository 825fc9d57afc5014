"""Memory over time, drawn for white paper: stacked uses, the peak and what filled it, the device's end.

    ranks 0-3: peak 61 kB, in backward, train.py:12
    |forward        |backward              |step      |     - - - - - - - - -  device 80 kB
    |        ___----|~~~~~--.              |          |      __
    |   ____/ activations    \\_____________|          |     |  | activations 38 kB
    |__/  gradients, optimizer state ...               |    |__| gradients 8 kB
    |    parameters                                   |     |__| parameters 15 kB

Uses are stacked in the order of how long they stay. Up to `MAX_PANELS` accounts have a panel each, on one scale; of more, the one with
the highest peak has, and columns below show the peak of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from partkit.figures.bundle import place_name
from partkit.figures.curve_picture import spread
from partkit.figures.memory import Account
from partkit.figures.palette import PAGE
from partkit.figures.units import CLOCK_NAMES, axis, nbytes, round_numbers
from partkit.tracing import Trace
from partkit.tracing.memory import USES, Use

XAxis = Literal["seconds", "changes"]
WIDTH, LEFT, HEAD, FOOT, COLUMN, WORDS = 960, 74, 44, 24, 40, 190
MAX_PANELS, MAX_POINTS, PEAKS = 4, 300, 150


class Look(NamedTuple):
    """How a use is drawn: fill on a light and on a dark page, and lines over it as a second cue."""

    light: str
    dark: str
    hatch: Literal["", "/", "\\", "x"] = ""


LOOKS: dict[Use, Look] = {
    "parameters": Look("#0072B2", "#4ba3db"),
    "optimizer state": Look("#009E73", "#1fb88d", "\\"),
    "buffers": Look("#CC79A7", "#CC79A7", "x"),
    "gradients": Look("#E69F00", "#E69F00", "/"),
    "activations": Look("#D55E00", "#e8792f"),
    "other": Look("#b8bec5", "#5f6b78"),
}
"""In the order of stacking, from below: what stays longest first (Okabe and Ito's colours, as in `partkit.figures.palette`)."""
ORDER = [USES.index(use) for use in LOOKS]
NOTHING = "no memory noted: run what is to be seen inside `with pk.Memory(comm, model, optimizer):`"


class Scale(NamedTuple):
    """Where bytes and times are in a panel."""

    top: float
    tall: float
    most: float
    first: float
    span: float
    wide: float

    def x(self, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Pixels from the left."""
        return LEFT + (at - self.first) * (self.wide / self.span if self.span else 0.0)

    def y(self, value: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
        """Pixels from above."""
        return np.asarray(self.top + self.tall - np.asarray(value) * (self.tall / self.most))


def places(account: Account, x: XAxis) -> npt.NDArray[np.float64]:
    """Where each state is: at its time, or at its number if that is wanted, or if all are at one time."""
    times = account.times
    return np.arange(len(times), dtype=np.float64) if x == "changes" or times[-1] == times[0] else times


def thinned(at: npt.NDArray[np.float64], totals: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
    """Which states are drawn: all if they are few; else of those that share a column the one with the largest total, and the last.

    Example:
        >>> thinned(np.arange(6.0), np.array([1, 5, 2, 1, 1, 3]), 2)
        array([1, 5])
    """
    if len(at) <= width:
        return np.arange(len(at))
    column = np.minimum((at - at[0]) * (width / ((at[-1] - at[0]) or 1.0)), width - 1).astype(np.int64)
    order = np.lexsort((-totals, column))
    first = order[np.flatnonzero(np.diff(column[order], prepend=-1))]
    return np.unique(np.append(first, len(at) - 1))


def highest(found: Sequence[Account]) -> Account:
    """The account with the highest peak; of equal ones the first."""
    return max(found, key=lambda account: int(account.totals[account.peak]))


def when(trace: Trace, account: Account) -> str:
    """Where in the program the peak is: ``in backward, train.py:12``."""
    span, site = (trace.strings[column[account.peak]] for column in (account.spans, account.sites))
    return ", ".join(filter(None, (f"in {span}" if span else "", place_name(site))))


def svg(trace: Trace, found: Sequence[Account], *, x: XAxis = "seconds") -> str:
    """The panels, for white paper."""
    shown = list(found) if len(found) <= MAX_PANELS else [highest(found)]
    tall = {1: 260, 2: 200}.get(len(shown), 165) if shown else 60
    height = max(1, len(shown)) * tall + 20 + (PEAKS if len(found) > 1 else 0)
    page = PAGE["light"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="12" fill="{page.edge}"><rect width="{WIDTH}" height="{height}" fill="{page.fill}"/><defs>{"".join(_hatches())}</defs>'
    ]
    if not shown:
        return "".join([*parts, f'<text x="{WIDTH / 2}" y="34" text-anchor="middle">{escape(NOTHING)}</text></svg>'])
    at = [places(account, x) for account in shown]
    first, last = min(float(own[0]) for own in at), max(float(own[-1]) for own in at)
    for k, (account, own) in enumerate(zip(shown, at, strict=True)):
        scale = Scale(k * tall + HEAD, tall - HEAD - FOOT, top_of(found), first, last - first, WIDTH - LEFT - COLUMN - WORDS - 40)
        parts += _panel(trace, account, own, scale, MAX_POINTS // len(shown))
    counted = any(own is not account.times for own, account in zip(at, shown, strict=True))
    unit = "changes of memory, by number" if counted else f"{axis(first, last, 7).unit}, {CLOCK_NAMES[trace.clock]}"
    parts.append(f'<text x="{WIDTH - COLUMN - WORDS - 40}" y="{len(shown) * tall + 12}" text-anchor="end">{unit}</text>')
    return "".join([*parts, *(_peaks(found, len(shown) * tall + 20) if len(found) > 1 else ()), "</svg>"])


def top_of(found: Sequence[Account]) -> float:
    """The upper end of the scale: above the highest peak, and above the lowest cap if that is no more than 2.5 times as high."""
    peak = max(float(account.totals.max()) for account in found) or 1.0
    caps = [account.cap for account in found if 0 < account.cap <= 2.5 * peak]
    return 1.08 * max(peak, *caps) if caps else 1.08 * peak


def _hatches() -> Iterator[str]:
    lines = {"/": "M-2 8L8-2M4 14L14 4", "\\": "M2-4L14 8M-4 2L8 14", "x": "M0 0L10 10M10 0L0 10"}
    for place, look in enumerate(LOOKS.values()):
        if look.hatch:
            path = f'<path d="{lines[look.hatch]}" stroke="#000" stroke-opacity=".3" fill="none"/>'
            yield f'<pattern id="h{place}" width="10" height="10" patternUnits="userSpaceOnUse">{path}</pattern>'


def _layers(tops: npt.NDArray[np.float64]) -> Iterator[tuple[int, Look, npt.NDArray[np.float64]]]:
    """From the uppermost: place in the stack, look, and where it ends above. Shape of ``tops``: (states, uses), stacked."""
    for place, look in reversed(list(enumerate(LOOKS.values()))):
        yield place, look, tops[:, place]


def _fill(path: str, place: int, look: Look) -> str:
    over = f'<path d="{path}" fill="url(#h{place})"/>' if look.hatch else ""
    return f'<path d="{path}" fill="{look.light}" stroke="#fff" stroke-width=".7"/>{over}'


def _panel(trace: Trace, account: Account, at: npt.NDArray[np.float64], scale: Scale, points: int) -> Iterator[str]:
    """Heading, spans, axes, stacked uses, the cap, the peak and what filled it."""
    bottom, right, peak = scale.top + scale.tall, LEFT + scale.wide, account.peak
    rank, most = escape(account.label), nbytes(int(account.totals[peak]))
    words = escape(", ".join(filter(None, (most, when(trace, account)))))
    yield f'<text x="8" y="{scale.top - HEAD + 16:g}"><tspan font-weight="600">{rank}</tspan>: peak {words}</text>'
    yield from _spans(trace, account, at, scale)
    yield from _axes(scale, at)
    states = thinned(at, account.totals, points)
    tops = np.cumsum(account.states[:, ORDER][states], axis=1).astype(np.float64)
    xs = scale.x(at[states])
    for place, look, top in _layers(tops):
        yield _fill(_steps(xs, scale.y(top), bottom), place, look)
    if account.cap and account.cap <= scale.most:
        y = float(scale.y(account.cap))
        yield f'<path d="M{LEFT} {y:.1f}H{right + COLUMN + 30:g}" stroke="{PAGE["light"].edge}" stroke-width="1.5" stroke-dasharray="7 4"/>'
        yield f'<text x="{right + COLUMN + 36:g}" y="{y + 4:.1f}">device {nbytes(account.cap)}</text>'
    elif account.cap:
        share = 100 * account.totals[peak] / account.cap
        yield f'<text x="{right:g}" y="{scale.top - HEAD + 16:g}" text-anchor="end">{share:.2g}% of the device\'s {nbytes(account.cap)}</text>'
    x, y = float(scale.x(at[peak : peak + 1])[0]), float(scale.y(float(account.totals[peak])))
    yield f'<path d="M{x:.1f} {bottom:g}V{y:.1f}" stroke="#000" opacity=".5"/>'
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="#fff" stroke="#000" stroke-width="2"/>'
    yield from _composition(account, scale)


def _steps(xs: npt.NDArray[np.float64], ys: npt.NDArray[np.float64], bottom: float) -> str:
    """The outline of values that hold until the next one."""
    across = "".join(f"V{y:.1f}H{x:.1f}" for y, x in zip(ys, np.append(xs[1:], xs[-1]), strict=True))
    return f"M{xs[0]:.1f} {bottom:g}{across}V{bottom:g}z"


def _spans(trace: Trace, account: Account, at: npt.NDArray[np.float64], scale: Scale) -> Iterator[str]:
    """The outermost spans in which the changes were, as a strip above."""
    xs, y = scale.x(at), scale.top - 18
    for first, last, name in stretches(trace, account):
        x, wide = float(xs[first]), float(xs[last] - xs[first])
        if name and wide >= 1:
            yield f'<path d="M{x:.1f} {y:g}h{wide:.1f}v14h{-wide:.1f}z" fill="#000" opacity=".08"/>'
            yield f'<path d="M{x:.1f} {y:g}V{scale.top + scale.tall:g}" stroke="#000" opacity=".25"/>'
            if wide > 6.4 * len(name) + 6:
                yield f'<text x="{x + 4:.1f}" y="{y + 11:g}" font-size="11">{escape(name)}</text>'


def stretches(trace: Trace, account: Account) -> Iterator[tuple[int, int, str]]:
    """States in a row with the same outermost span: the first, the first of the next stretch (or the last state), the name.

    Example:
        >>> from partkit.figures.memory import accounts
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "metric", t, t, tag="memory: other", value=t, span=s) for t, s in enumerate(["", "a/b", "a", "c"])])
        >>> list(stretches(trace, accounts(trace)[0]))
        [(0, 1, ''), (1, 3, 'a'), (3, 3, 'c')]
    """
    names = {number: trace.strings[number].split("/")[0] for number in np.unique(account.spans).tolist()}
    numbers = {name: k for k, name in enumerate(dict.fromkeys(names.values()))}
    own = np.array([numbers[names[number]] for number in account.spans.tolist()])
    edges = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist()]
    for first, last in zip(edges, [*edges[1:], len(own) - 1], strict=True):
        yield first, last, names[int(account.spans[first])]


def _axes(scale: Scale, at: npt.NDArray[np.float64]) -> Iterator[str]:
    bottom = scale.top + scale.tall
    for tick in round_numbers(0.0, scale.most, scale.most / max(2, scale.tall // 40)):
        y = float(scale.y(tick))
        yield f'<path d="M{LEFT} {y:.1f}h{scale.wide:g}" stroke="#000" opacity=".13"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{nbytes(int(tick)) if tick else 0}</text>'
    marks = axis(scale.first, scale.first + scale.span, 7)
    labels = [f"{tick:,.0f}" for tick in marks.ticks] if at.dtype == np.float64 and np.array_equal(at, np.arange(len(at))) else marks.labels
    for tick, label in zip(marks.ticks, labels, strict=True):
        x = float(scale.x(np.array([tick]))[0])
        yield f'<path d="M{x:.1f} {bottom:g}v4" stroke="#000"/><text x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{label}</text>'
    yield f'<path d="M{LEFT} {scale.top:g}V{bottom:g}h{scale.wide:g}" stroke="{PAGE["light"].edge}" fill="none"/>'


def _composition(account: Account, scale: Scale) -> Iterator[str]:
    """The peak as a column, with the name and the bytes of each part."""
    left, bottom, base = LEFT + scale.wide + 22, scale.top + scale.tall, 0.0
    parts = []
    for place, (use, look) in enumerate(LOOKS.items()):
        value = account.at_peak[use]
        if value:
            low, high = float(scale.y(base)), float(scale.y(base + value))
            yield _fill(f"M{left:g} {low:.1f}h{COLUMN}V{high:.1f}h-{COLUMN}z", place, look)
            parts.append((use, value, (low + high) / 2 - scale.top))
            base += value
    for (use, value, middle), y in zip(parts, spread([part[2] for part in parts], 15.0, scale.tall), strict=True):
        if y == y:
            x, at = left + COLUMN, scale.top + y
            yield f'<path d="M{x:g} {scale.top + middle:.1f}L{x + 10:g} {at:.1f}" stroke="#000" opacity=".4"/>'
            yield f'<text x="{x + 14:g}" y="{at + 4:.1f}">{use} {nbytes(value)}</text>'
    yield f'<text x="{left + COLUMN / 2:g}" y="{bottom + 16:g}" text-anchor="middle">at the peak</text>'


def _peaks(found: Sequence[Account], top: float) -> Iterator[str]:
    """The peak of every account as a column."""
    wide, tall, most = WIDTH - LEFT - 40, PEAKS - 56, top_of(found)
    scale, each = Scale(top + 30, tall, most, 0.0, 1.0, wide), wide / max(len(found), 12)
    yield f'<text x="8" y="{top + 18:g}" font-weight="600">peak of each rank</text>'
    yield f'<path d="M{LEFT} {scale.top:g}v{tall}h{wide}" stroke="{PAGE["light"].edge}" fill="none"/>'
    step = 1 + int(70 * len(found) / wide)
    for k, account in enumerate(found):
        x, base, thick = LEFT + (k + 0.5) * each, 0, min(COLUMN, each * 0.8)
        for place, (use, look) in enumerate(LOOKS.items()):
            value = account.at_peak[use]
            if value:
                low, high = float(scale.y(base)), float(scale.y(base + value))
                yield _fill(f"M{x - thick / 2:.1f} {low:.1f}h{thick:.1f}V{high:.1f}h{-thick:.1f}z", place, look)
                base += value
        if account.cap and account.cap <= most:
            y = float(scale.y(account.cap))
            yield f'<path d="M{x - each * 0.45:.1f} {y:.1f}h{each * 0.9:.1f}" stroke="#000" stroke-width="1.5" stroke-dasharray="7 4"/>'
        if k % step == 0:
            yield f'<text x="{x:.1f}" y="{scale.top + tall + 15:g}" text-anchor="middle">{account.label.removeprefix("ranks ").removeprefix("rank ")}</text>'
