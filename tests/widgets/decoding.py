"""Reads what `partkit.figures.encoding` writes, the way the browser does."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.figures.encoding import DETAIL_COLUMNS


class Decoded(NamedTuple):
    """All blocks together."""

    start: npt.NDArray[np.float64]
    length: npt.NDArray[np.float64]
    place: npt.NDArray[np.int64]
    detail: npt.NDArray[np.int64]
    details: list[dict[str, int]]
    strings: list[str]
    seq: dict[int, int]
    values: dict[int, float]


def decode(data: bytes) -> Decoded:
    """The events of any number of blocks one after another."""
    columns: list[list[Any]] = [[], [], [], []]
    details: list[dict[str, int]] = []
    strings: list[str] = []
    seq: dict[int, int] = {}
    values: dict[int, float] = {}
    at = 0

    def take(kind: str, count: int) -> npt.NDArray[Any]:
        nonlocal at
        part = np.frombuffer(data, kind, count, at)
        at += part.nbytes
        return part

    while at < len(data):
        size = int(take("<u4", 2)[0])
        header = json.loads(take("u1", size).tobytes())
        rows = take("<f8", header["details"] * len(DETAIL_COLUMNS)).reshape(-1, len(DETAIL_COLUMNS))
        details += [dict(zip(DETAIL_COLUMNS, map(int, row), strict=True)) for row in rows]
        strings += header["strings"]
        seq.update(map(tuple, header["seq"]))
        values.update(map(tuple, header["values"]))
        columns[0] += (take("<f4", header["n"]).astype(float) + header["base"]).tolist()
        for column, kind in zip(columns[1:], ("<f4", *2 * ("<u2" if header["wide"] else "u1",)), strict=True):
            column += take(kind, header["n"]).tolist()
        at += -at % 8
    start, length, place, detail = (np.array(column) for column in columns)
    return Decoded(start, length, place, detail, details, strings, seq, values)
