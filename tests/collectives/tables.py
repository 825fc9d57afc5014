"""The tables in docstrings, read as data: rows of formulas that the tests hold to the code."""

from __future__ import annotations

import re
from math import ceil, log2
from typing import Any


def cost_rows(text: str | None, algorithms: list[str]) -> dict[str, list[str]]:
    """Algorithm -> the cells of its row: columns are two blanks or more apart."""
    rows = (re.split(r" {2,}", line.strip()) for line in (text or "").splitlines() if line.startswith("    "))
    return {row[0]: row[1:] for row in rows if row[0] in algorithms and len(row) == 4}


def value(formula: str, **names: float) -> float:
    """What a formula of a table comes to: ``2 (p - 1) / p n``; a gap between two factors is a product."""
    scope: dict[str, Any] = {"ceil": ceil, "log2": log2, **names}
    return float(eval(re.sub(r"(?<=[\w)]) (?=[(\w])", " * ", formula), scope))
