"""How actions look: the micro-batch is the hue and the number, the kind is the letter, the filling and the height.

    F   forward                     light        whole height
    B   backward                    dark         whole height
    I   gradient of the input       dark, with slanted lines
    W   gradient of the weights     light, with upright lines, lower: it may fill what is left
    S   optimizer step              the colour of text, lowest

The second stage of a rank, and every further one, has a line along the bottom. Hues repeat after seven micro-batches, which the
number tells apart. Where bars are too narrow for numbers, hues stand for kinds. Without colours the fillings and heights remain.
"""

from __future__ import annotations

from typing import NamedTuple

from partkit.figures.palette import PAGE, Theme, ink
from partkit.figures.stepper_still import RANK_COLORS

KINDS = ("F", "B", "I", "W", "STEP")
"""In the order of their numbers in the picture."""
WORDS = ("forward", "backward", "gradient of the input", "gradient of the weights", "optimizer step")
HEIGHTS = (1.0, 1.0, 1.0, 0.68, 0.4)
"""Of a bar, in parts of its row; all stand on the same ground."""
KIND_HUES = (0, 0, 1, 2, 0)
"""Which hue stands for a kind where bars are too narrow for numbers."""
LIGHT = 0.38
"""Part of the hue in a light filling; the rest is the page."""
LIGHT_NARROW = 0.6
"""The same where bars have no outline: they must not be taken for gaps."""
THEMES: tuple[Theme, Theme] = ("light", "dark")


class Look(NamedTuple):
    """Colours of one kind of action of one micro-batch."""

    fill: str
    ink: str
    """Of text and lines on it."""


def look(kind: int, microbatch: int, theme: Theme = "light") -> Look:
    """How an action is filled.

    Args:
        kind: its place in `KINDS`.
        microbatch: number.
        theme: of the page.

    Example:
        >>> look(1, 0), look(0, 0)
        (Look(fill='#0072B2', ink='#ffffff'), Look(fill='#9ec9e2', ink='#000000'))
    """
    page = PAGE[theme]
    hue = RANK_COLORS[microbatch % len(RANK_COLORS)][THEMES.index(theme)]
    if KINDS[kind] == "STEP":
        fill = page.edge
    elif KINDS[kind] in ("F", "W"):
        fill = mix(hue, page.fill, LIGHT)
    else:
        fill = hue
    return Look(fill, ink(fill))


def narrow(kind: int, theme: Theme = "light") -> str:
    """How an action is filled in a picture whose bars are too narrow for numbers and outlines.

    Args:
        kind: its place in `KINDS`.
        theme: of the page.

    Example:
        >>> narrow(1), narrow(0)
        ('#0072B2', '#66aad1')
    """
    if KINDS[kind] not in ("F", "W"):
        return look(kind, KIND_HUES[kind], theme).fill
    return mix(RANK_COLORS[KIND_HUES[kind]][THEMES.index(theme)], PAGE[theme].fill, LIGHT_NARROW)


def mix(color: str, other: str, part: float) -> str:
    """A colour between two.

    Example:
        >>> mix("#ff0000", "#0000ff", 0.5)
        '#800080'
    """
    channels = ((int(color[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part * a + (1 - part) * b):02x}" for a, b in channels)


def looks() -> list[list[list[Look]]]:
    """All of them as JSON for the browser: by theme, kind and hue.

    Example:
        >>> [len(looks()), len(looks()[0]), len(looks()[0][0])]
        [2, 5, 7]
    """
    return [[[look(kind, hue, theme) for hue in range(len(RANK_COLORS))] for kind in range(len(KINDS))] for theme in THEMES]
