"""Which words a widget paints on its canvases, and where: for words that cover each other or are struck out."""

from __future__ import annotations

from typing import NamedTuple

from playwright.sync_api import Page

LISTEN = """() => {
    const { prototype } = CanvasRenderingContext2D, own = prototype.fillText;
    window.words = [];
    prototype.fillText = function (text, x, y, ...most) {
        const { width } = this.measureText(text), left = x - { left: 0, start: 0, center: width / 2, right: width, end: width }[this.textAlign];
        window.words.push([this.canvas.className, String(text), left, left + width, y]);
        return own.call(this, text, x, y, ...most);
    };
}"""


class Word(NamedTuple):
    """Text on a canvas, in pixels of the page."""

    canvas: str
    """Its class."""
    text: str
    left: float
    right: float
    y: float


def listen(page: Page) -> None:
    """From now on note what is painted."""
    page.evaluate(LISTEN)


def words(page: Page) -> list[Word]:
    """What has been painted since the last call."""
    return [Word(*row) for row in page.evaluate("window.words.splice(0)")]
