"""A badge says good or bad in words and a mark, in text and HTML, whatever it is told."""

from __future__ import annotations

import pytest

from partkit.figures.badge import BAD, GOOD, badge
from partkit.figures.palette import contrast, ink


@pytest.mark.parametrize(("good", "mark", "color"), [(True, "✓", GOOD), (False, "✗", BAD)])
def test_mark_word_and_color(good: bool, mark: str, color: str) -> None:
    bundle = badge(good, "verdict", ["one", "two"])
    assert bundle["text/plain"] == f"{mark} verdict\n  one\n  two"
    assert f"{mark} verdict</span><div>one</div><div>two</div>" in bundle["text/html"]
    assert color in bundle["text/html"] and contrast(color, ink(color)) >= 4.5


def test_what_it_is_told_is_escaped() -> None:
    html = badge(True, "<b>", ["a < b"], [("<i>",)], ("&",))["text/html"]
    assert "&lt;b&gt;" in html and "a &lt; b" in html and "<td>&lt;i&gt;</td>" in html and '<th scope="col">&amp;</th>' in html


def test_no_table_without_rows() -> None:
    assert "<table>" not in badge(True, "verdict", [])["text/html"]
