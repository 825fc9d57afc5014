"""A verdict as a badge: one word and a mark that can be seen from afar, what it rests on, and a table. Pure.

    [✓ same as serial] 4 ranks, 3 steps, 36 tensors: outputs, loss, gradients, weights; equal within 1e-9

Colour is never the only cue: the mark and the word say the same. Shows without a kernel, JavaScript or trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from partkit.figures.bundle import table
from partkit.figures.palette import STYLES, ink

GOOD, BAD = STYLES["compute"].light.fill, "#D55E00"
"""Bluish green and vermilion of Okabe and Ito: told apart with any kind of colour vision."""


def badge(good: bool, verdict: str, details: Sequence[str], rows: Sequence[Sequence[object]] = (), head: Sequence[str] = ()) -> dict[str, str]:
    """The mimebundle of a verdict.

    Args:
        good: which of the two looks.
        verdict: a few words.
        details: lines below it.
        rows: a table that opens on a click; none if empty.
        head: its columns.

    Example:
        >>> print(badge(False, "not same as serial", ["step 0, rank 1"])["text/plain"])
        ✗ not same as serial
          step 0, rank 1
    """
    mark, color = ("✓", GOOD) if good else ("✗", BAD)
    style = f"background-color:{color};color:{ink(color)};padding:2px 8px;border-radius:4px;font-weight:bold"
    lines = "".join(f"<div>{escape(line)}</div>" for line in details)
    more = f"<details><summary>Table</summary>{table(head, rows, verdict)}</details>" if rows else ""
    html = f'<div class="partkit-badge" role="status"><span style="{style}">{mark} {escape(verdict)}</span>{lines}{more}</div>'
    return {"text/html": html, "text/plain": "\n  ".join([f"{mark} {verdict}", *details])}
