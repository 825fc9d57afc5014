"""Bars of actions as SVG, for white paper: what pictures of schedules have in common.

Bars of one kind and hue are one path. Where bars are too narrow for numbers, hues stand for kinds, and a row's bars of one kind are one
dashed line: 16 ranks with 64 micro-batches stay under 100 kB.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from partkit.figures.palette import PAGE
from partkit.figures.studio_look import KINDS, WORDS, look, narrow

MOST_LABELS, NARROW = 500, 4.0
PATTERNS = (
    '<pattern id="I" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M1 0v5" stroke="#ffffff" stroke-width="1.3"/></pattern>'
    '<pattern id="W" width="4" height="4" patternUnits="userSpaceOnUse"><path d="M1 0v4" stroke="#1f2328" stroke-width=".8" opacity=".55"/></pattern>'
)


class Bar(NamedTuple):
    """A rectangle in the picture, in pixels."""

    kind: int
    hue: int
    x: float
    y: float
    width: float
    height: float
    label: str
    chunk: int = 0
    """Which of its rank's stages, from 0."""

    @property
    def path(self) -> str:
        """As part of a path."""
        return f"M{self.x:.1f} {self.y:.1f}h{self.width:.1f}v{self.height:.1f}h{-self.width:.1f}z"


def drawing(bars: Sequence[Bar]) -> list[str]:
    """All bars, with their labels where there is room.

    Example:
        >>> drawing([Bar(0, 0, 0.0, 0.0, 30.0, 20.0, "F0")])[0][:12]
        '<path d="M0.'
    """
    return [*_filled(bars), *_texts(bars)] if _readable(bars) else list(_strokes(bars))


def legend(bars: Sequence[Bar]) -> Iterator[str]:
    """A patch and a word for the kinds that occur, along the top from the left.

    Example:
        >>> "forward" in "".join(legend([Bar(0, 0, 0.0, 0.0, 30.0, 20.0, "F0")]))
        True
    """
    x, readable = 8.0, _readable(bars)
    for kind in sorted({bar.kind for bar in bars}):
        patch = [Bar(kind, 0, x, 8, 16, 14, "")]
        yield from _filled(patch) if readable else _strokes(patch)
        yield f'<text x="{x + 21:.0f}" y="19">{KINDS[kind][0]} {WORDS[kind]}</text>'
        x += 42 + 6.6 * len(WORDS[kind])


def _readable(bars: Sequence[Bar]) -> bool:
    """Whether three of four bars are wide enough to be told apart: forwards take half the time of backwards."""
    return not bars or sorted(bar.width for bar in bars)[len(bars) // 4] >= NARROW


def _strokes(bars: Sequence[Bar]) -> Iterator[str]:
    """One line for each row and kind, as thick as its bars, in the hue of the kind: ``m4 0h2`` skips 4 pixels and draws 2."""
    rows: dict[tuple[int, float, float], list[Bar]] = defaultdict(list)
    for bar in bars:
        rows[bar.kind, bar.y, bar.height].append(bar)
    for (kind, y, height), row in sorted(rows.items()):
        parts, at = [f"M0 {y + height / 2:.1f}"], 0.0
        for bar in row:
            skip, wide = round(bar.x - at, 1), round(bar.width, 1)
            parts.append(f"h{wide:g}" if skip == 0 else f"m{skip:g} 0h{wide:g}")
            at = round(at + skip + wide, 1)
        yield f'<path d="{"".join(parts)}" fill="none" stroke="{narrow(kind)}" stroke-width="{height:.1f}"/>'


def _filled(bars: Iterable[Bar]) -> Iterator[str]:
    """One path for each kind and hue, their patterns, their outlines."""
    shapes: dict[tuple[int, int], list[str]] = defaultdict(list)
    bars = list(bars)
    for bar in bars:
        shapes[bar.kind, bar.hue % 7].append(bar.path)
    for (kind, hue), paths in sorted(shapes.items()):
        path = "".join(paths)
        yield f'<path d="{path}" fill="{look(kind, hue).fill}" stroke="{PAGE["light"].edge}" stroke-width=".6"/>'
        if KINDS[kind] in ("I", "W"):
            yield f'<path d="{path}" fill="url(#{KINDS[kind]})"/>'
    marks = "".join(f"M{bar.x:.1f} {bar.y + bar.height - 1.5:.1f}h{bar.width:.1f}" for bar in bars if bar.chunk)
    if marks:
        yield f'<path d="{marks}" stroke="{PAGE["light"].edge}" stroke-width="3"/>'


def _texts(bars: Sequence[Bar]) -> Iterator[str]:
    """Labels that fit; on a plate of the filling, so that lines do not cross them."""
    fitting = [bar for bar in bars if bar.label and bar.width > 6.4 * len(bar.label) + 2]
    for bar in fitting if len(fitting) <= MOST_LABELS else ():
        own, middle = look(bar.kind, bar.hue), bar.x + bar.width / 2
        if KINDS[bar.kind] in ("I", "W"):
            wide = 6.6 * len(bar.label) + 2
            yield f'<rect x="{middle - wide / 2:.1f}" y="{bar.y + bar.height / 2 - 7:.1f}" width="{wide:.1f}" height="14" fill="{own.fill}"/>'
        yield f'<text x="{middle:.1f}" y="{bar.y + bar.height / 2 + 4:.1f}" text-anchor="middle" font-size="11" fill="{own.ink}">{escape(bar.label)}</text>'
