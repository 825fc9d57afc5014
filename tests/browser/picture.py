"""The picture of the README, taken of the real thing: the training cell of the first notebook, run in JupyterLab on four live ranks.

    python -m tests.browser.picture

Writes ``notebooks/images/first-light.png`` and ``first-light-dark.png``: 1600 pixels wide, the timeline zoomed to about one step.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from playwright.sync_api import FloatRect, Page, sync_playwright

from partkit.commands import browser as chromium
from partkit.figures.palette import STYLES
from tests.browser.jupyter import Lab, jupyter_lab

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = "01-first-four-ranks.ipynb"
IMAGES = ROOT / "notebooks" / "images"
CELL = "world.start"
WIDTH, MARGIN, SCALE = 800, 10, 2
MAX_BYTES = 150_000
ZOOMS = 14
"""Presses of +; each shows 1.6 times less, and the run has 300 steps."""
CODE_CELLS = """() => jupyterapp.shell.currentWidget.content.widgets
    .map((cell, index) => [index, cell.model.type, cell.model.sharedModel.getSource()]).filter(([, type]) => type === "code")"""


def main() -> None:
    """Take both pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        shutil.copy(ROOT / "notebooks" / NOTEBOOK, folder)
        with jupyter_lab(Path(folder)) as lab:
            chrome = playwright.chromium.launch(executable_path=chromium.find(), args=list(chromium.FLAGS))
            page = chrome.new_page(viewport={"width": 1000, "height": 1500}, device_scale_factor=SCALE)
            train(lab, page)
            for name, theme in (("first-light", "JupyterLab Light"), ("first-light-dark", "JupyterLab Dark")):
                target = IMAGES / f"{name}.png"
                target.write_bytes(shrink(take(lab, page, theme)))
                print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")
            chrome.close()


def train(lab: Lab, page: Page) -> None:
    """Run the notebook up to the cell of the picture, and zoom into its timeline."""
    lab.open(page, NOTEBOOK)
    lab.command(page, "application:toggle-left-area")
    for index, _, source in page.evaluate(CODE_CELLS):
        lab.run(page, index)
        if CELL in source:
            break
    page.wait_for_selector(".pk-seated .partkit-timeline")
    page.set_viewport_size({"width": round(1000 + WIDTH - 2 * MARGIN - box(page, "curve")["width"]), "height": 1500})
    page.locator(".partkit-timeline .pk-over").last.focus()
    for _ in range(ZOOMS):
        page.keyboard.press("+")


def take(lab: Lab, page: Page, theme: str) -> bytes:
    """The outputs of the cell in a theme, as a PNG."""
    lab.command(page, "apputils:change-theme", theme=theme)
    dark = "dark" if "Dark" in theme else "light"
    page.wait_for_selector(f".partkit-timeline[data-theme={dark}]")
    page.evaluate("() => { document.activeElement.blur(); jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)
    curve, timeline = box(page, "curve"), box(page, "timeline")
    bottom = timeline["y"] + timeline["height"]
    return page.screenshot(clip={"x": curve["x"] - MARGIN, "y": curve["y"] - MARGIN, "width": WIDTH, "height": bottom - curve["y"] + 2 * MARGIN})


def box(page: Page, view: str) -> FloatRect:
    """Where a view of the cell is."""
    found = page.locator(f".pk-seated .partkit-{view}").last.bounding_box()
    assert found is not None
    return found


# -- a smaller file --------------------------------------------------------------------------------------------------


def shrink(png: bytes) -> bytes:
    """The same picture in the colours of all kinds of events and as many others, by frequency, as `MAX_BYTES` allow: no difference that one sees."""
    pixels = decode(png)
    codes = (pixels.astype(np.uint32) * np.array([65536, 256, 1], np.uint32)).sum(axis=2)
    found, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    colors = np.stack([found >> 16 & 255, found >> 8 & 255, found & 255], axis=1).astype(np.int32)
    fills = [int(paint.fill[1:], 16) for style in STYLES.values() for paint in (style.light, style.dark)]
    frequent = colors[np.lexsort((-counts, ~np.isin(found, fills)))]
    sizes = (encode(frequent[:number], nearest(colors, frequent[:number])[inverse.reshape(pixels.shape[:2])]) for number in (255, 128, 64, 48, 40, 32, 24, 16))
    return next(small for small in sizes if len(small) < MAX_BYTES)


def nearest(colors: npt.NDArray[np.int32], palette: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """For each colour, the number of the one in the palette that is nearest."""
    return np.array([int(((palette - color) ** 2).sum(axis=1).argmin()) for color in colors], np.uint8)


def encode(palette: npt.NDArray[np.int32], rows: npt.NDArray[np.uint8]) -> bytes:
    """A PNG with a palette."""
    height, width = rows.shape
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)


def decode(png: bytes) -> npt.NDArray[np.uint8]:
    """The pixels of a PNG with 8 bits a channel: (height, width, channels); a palette counts as one channel."""
    at, data, (width, height, depth, kind) = 8, b"", struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    while at < len(png):
        size, name = struct.unpack(">I4s", png[at : at + 8])
        data += png[at + 8 : at + 8 + size] if name == b"IDAT" else b""
        at += size + 12
    channels = {0: 1, 2: 3, 3: 1, 6: 4}[kind]
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    out = np.zeros((height + 1, width + 1, channels), np.uint8)  # a row above and a column to the left are 0
    for y, (method, *_) in enumerate(lines[:, :1].tolist(), start=1):
        unfilter(method, lines[y - 1, 1:].reshape(width, channels), out[y - 1], out[y])
    return out[1:, 1:, :3]


def unfilter(method: int, line: npt.NDArray[np.uint8], above: npt.NDArray[np.uint8], row: npt.NDArray[np.uint8]) -> None:
    """Fill ``row`` (its first pixel is the border) from a filtered line. PNG's five filters: none, left, up, average, Paeth."""
    if method == 0:
        row[1:] = line
    elif method == 1:
        row[1:] = np.cumsum(line, axis=0, dtype=np.uint8)
    elif method == 2:
        row[1:] = line + above[1:]
    else:
        for x in range(1, len(row)):
            a, b, c = row[x - 1].astype(int), above[x].astype(int), above[x - 1].astype(int)
            row[x] = (line[x - 1] + ((a + b) // 2 if method == 3 else paeth(a, b, c))) & 255


def paeth(a: npt.NDArray[np.int_], b: npt.NDArray[np.int_], c: npt.NDArray[np.int_]) -> npt.NDArray[np.int_]:
    """Of left, above and above left, the one nearest to ``a + b - c``."""
    pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    return np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))


if __name__ == "__main__":
    main()
