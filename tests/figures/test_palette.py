"""No kind of event can be mistaken for another, and everything can be read."""

from __future__ import annotations

import pytest

from partkit.figures.palette import PAGE, STYLES, Paint, Theme, contrast, ink, style_specs
from partkit.tracing import KINDS


def paints(theme: Theme) -> list[Paint]:
    return [getattr(style, theme) for style in STYLES.values()]


def test_every_kind_has_a_style_and_a_letter_of_its_own() -> None:
    assert tuple(STYLES) == KINDS and [spec["name"] for spec in style_specs()] == list(KINDS)
    assert len({style.letter for style in STYLES.values()}) == len(KINDS)
    assert STYLES["send"].hatch != STYLES["recv"].hatch


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_bars_stand_out_from_the_page_by_their_outline(theme: Theme) -> None:
    assert all(contrast(paint.edge, PAGE[theme].fill) >= 4.5 for paint in paints(theme))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_in_bars_can_be_read(theme: Theme) -> None:
    assert all(contrast(ink(paint.fill), paint.fill) >= 4.5 for paint in paints(theme))
