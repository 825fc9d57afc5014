"""Colours that colour-blind people can tell apart, and a second cue for each of them.

    kind         colour (Okabe and Ito)   letter   hatch    where
    send         blue                     S        /        its own lane
    recv         orange                   R        \\        its own lane, below the sends
    compute      green                    C        none     with the spans, by depth
    collective   pink                     G        x        with the spans, by depth
    span         grey                     N        none     with the spans, by depth
    metric       vermillion               M        none     in a lane of its own, a mark at the moment when it was noted

No picture depends on colour alone: kinds have lanes, letters and hatches too. Orange and grey have less than 3:1 contrast on
white, so every bar has an outline, darker on a light page and lighter on a dark one.

Reference: Okabe and Ito 2008, "Color Universal Design".
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

from partkit.tracing import KINDS, Kind

Theme = Literal["light", "dark"]


class Paint(NamedTuple):
    """Two colours, ``#rrggbb``."""

    fill: str
    edge: str


class Style(NamedTuple):
    """How one kind of event looks."""

    letter: str
    hatch: Literal["", "/", "\\", "x"]
    light: Paint
    dark: Paint


class StyleSpec(TypedDict):
    """A `Style` as JSON for the browser: fill, edge and letters for each theme."""

    name: str
    letter: str
    hatch: str
    light: list[str]
    dark: list[str]


STYLES: dict[Kind, Style] = {
    "send": Style("S", "/", Paint("#0072B2", "#004a75"), Paint("#4ba3db", "#b5ddf7")),
    "recv": Style("R", "\\", Paint("#E69F00", "#7a5400"), Paint("#E69F00", "#ffdf9e")),
    "compute": Style("C", "", Paint("#009E73", "#00563f"), Paint("#1fb88d", "#a5ecd6")),
    "span": Style("N", "", Paint("#dfe3e8", "#5f6b78"), Paint("#3b434d", "#a3b0bf")),
    "collective": Style("G", "x", Paint("#CC79A7", "#7a3459"), Paint("#CC79A7", "#f6cfe3")),
    "metric": Style("M", "", Paint("#D55E00", "#7a3500"), Paint("#e8792f", "#ffd0b0")),
}
"""The look of each kind of event."""

LINES: tuple[tuple[str, str], ...] = (
    ("#0072B2", "#4ba3db"),
    ("#D55E00", "#e8792f"),
    ("#009E73", "#1fb88d"),
    ("#CC79A7", "#CC79A7"),
    ("#1f2328", "#e6e6e6"),
)
"""Colours of lines on a light and on a dark page: blue, vermillion, green, pink, and that of text. At least 3:1 on their page."""

MARKERS = ("circle", "square", "triangle", "diamond")
"""The second cue of lines. As many as have no common divisor with the colours: 20 lines differ."""

_AMOUNTS: dict[Theme, tuple[str, ...]] = {
    "light": ("#cfe8a9", "#8ed0ae", "#45abbb", "#2179ad", "#213f8c", "#121745"),
    "dark": ("#223a80", "#2168a6", "#2d97b5", "#63c3ae", "#b1e09c", "#f4f7bd"),
}
"""From little to much; what is much stands out most from the page. Lightness alone orders them, so any eye can."""

PAGE: dict[Theme, Paint] = {"light": Paint("#ffffff", "#1f2328"), "dark": Paint("#111111", "#e6e6e6")}
"""Background and text."""


def style_specs() -> list[StyleSpec]:
    """All styles, in the order of `partkit.tracing.KINDS`, as JSON."""
    return [
        {"name": kind, "letter": style.letter, "hatch": style.hatch, "light": _colors(style.light), "dark": _colors(style.dark)}
        for kind, style in ((kind, STYLES[kind]) for kind in KINDS)
    ]


def _colors(paint: Paint) -> list[str]:
    return [*paint, ink(paint.fill)]


def amounts(theme: Theme, number: int = 64) -> list[str]:
    """Colours for amounts, from the least that is not zero to the most: yellow-green over blue, in even steps.

    Example:
        >>> amounts("light", 3)
        ['#cfe8a9', '#3392b4', '#121745']
    """
    anchors = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in _AMOUNTS[theme]]
    out = []
    for k in range(number):
        at = k * (len(anchors) - 1) / max(number - 1, 1)
        low = min(int(at), len(anchors) - 2)
        mixed = (round(a + (b - a) * (at - low)) for a, b in zip(anchors[low], anchors[low + 1], strict=True))
        out.append("#" + "".join(f"{channel:02x}" for channel in mixed))
    return out


def luminance(color: str) -> float:
    """Relative luminance of ``#rrggbb``, from 0 to 1 (WCAG 2)."""
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, from 1 to 21 (WCAG 2).

    Example:
        >>> contrast("#000000", "#ffffff")
        21.0
    """
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def ink(fill: str) -> str:
    """Black or white, whichever reads better on ``fill``."""
    return max(("#000000", "#ffffff"), key=lambda text: contrast(text, fill))
