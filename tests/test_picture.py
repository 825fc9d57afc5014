"""The picture of the README: there, light enough for a page, and of something."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
import pytest

from partkit.figures.palette import STYLES
from tests.browser.picture import MAX_BYTES, decode, encode, shrink
from tests.source import ROOT

NAMES = ("first-light.png", "first-light-dark.png")


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_shows_a_picture(name: str) -> None:
    png = (ROOT / "notebooks" / "images" / name).read_bytes()
    assert re.search(rf'(src|srcset)="notebooks/images/{name}"', (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(png) < MAX_BYTES
    assert struct.unpack(">I", png[16:20]) == (1600,)


@pytest.mark.parametrize(("name", "theme"), [(NAMES[0], "light"), (NAMES[1], "dark")])
def test_it_is_not_blank(name: str, theme: str) -> None:
    png = (ROOT / "notebooks" / "images" / name).read_bytes()
    at = png.index(b"PLTE")
    palette = [png[k : k + 3].hex() for k in range(at + 4, at + 4 + struct.unpack(">I", png[at - 4 : at])[0], 3)]
    counts = dict(zip(palette, np.bincount(decode(png).ravel(), minlength=len(palette)).tolist(), strict=True))
    for kind in ("send", "recv", "collective"):
        assert counts[getattr(STYLES[kind], theme).fill[1:].lower()] > 5_000, kind  # type: ignore[index]
    assert max(counts.values()) < 0.8 * sum(counts.values())


def test_a_picture_shrinks_and_keeps_its_colours() -> None:
    colors = np.array([[255, 255, 255], [0, 114, 178], [230, 159, 0]], np.int32)
    rows = np.random.default_rng(0).integers(0, 3, (20, 30)).astype(np.uint8)
    small = encode(colors, rows)
    assert (decode(small)[..., 0] == rows).all()
    whole = np.concatenate([np.zeros((20, 1), np.uint8), colors[rows].astype(np.uint8).reshape(20, -1)], axis=1)
    png = true_color(whole.tobytes(), 30, 20)
    assert (decode(png) == colors[rows]).all()
    assert len(shrink(png)) < len(png) / 2 or len(shrink(png)) < 500


def true_color(raw: bytes, width: int, height: int) -> bytes:
    """A PNG with three bytes a pixel."""
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)
