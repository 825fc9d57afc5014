"""What a canvas shows, in numbers: how much of which colour, where."""

from __future__ import annotations

from playwright.sync_api import Locator

COUNT = """(canvas, [color, bands]) => {
    const c = canvas.getContext("2d"), { width, height } = canvas, found = Array(bands).fill(0);
    const data = new Uint32Array(c.getImageData(0, 0, width, height).data.buffer);
    const [r, g, b] = [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16)), wanted = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    for (let i = 0; i < data.length; i++) if (data[i] === wanted) found[Math.floor((Math.floor(i / width) * bands) / height)]++;
    return found;
}"""
FIND = """(canvas, color) => {
    const c = canvas.getContext("2d"), { width, height, clientWidth } = canvas, data = c.getImageData(0, 0, width, height).data;
    const rgb = [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16)), is = (i) => rgb.every((value, k) => data[4 * i + k] === value);
    for (let y = 2; y < height - 2; y++) for (let x = 2; x < width - 2; x++) {
        const i = y * width + x;
        if (is(i) && is(i - 2) && is(i + 2) && is(i - 2 * width) && is(i + 2 * width)) return [x * clientWidth / width, y * clientWidth / width];
    }
    return null;
}"""


def count(canvas: Locator, color: str, bands: int = 1) -> list[int]:
    """How many pixels have exactly the colour ``#rrggbb``, in each of ``bands`` strips from top to bottom."""
    found: list[int] = canvas.evaluate(COUNT, [color.lower(), bands])
    return found


def find(canvas: Locator, color: str) -> dict[str, float]:
    """The first place, in CSS pixels, that is well inside an area of the colour."""
    found = canvas.evaluate(FIND, color.lower())
    assert found is not None, f"nothing is {color}"
    return {"x": found[0], "y": found[1]}


def picture(canvas: Locator) -> str:
    """All of it as a text, for comparison."""
    found: str = canvas.evaluate("canvas => canvas.toDataURL()")
    return found
