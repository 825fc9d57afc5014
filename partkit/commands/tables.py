"""Plain text tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as they must be, numbers to the right.

    Example:
        >>> print(table(["algorithm", "bytes"], [["ring", 1500], ["naive", 3000]]))
        algorithm  bytes
        ---------  -----
        ring        1500
        naive       3000
    """
    cells = [[cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    numeric = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]

    def line(texts: Sequence[str]) -> str:
        return "  ".join(text.rjust(w) if right else text.ljust(w) for text, w, right in zip(texts, widths, numeric, strict=True)).rstrip()

    return "\n".join(map(line, [list(columns), ["-" * w for w in widths], *cells]))


def cell(value: Any) -> str:
    """One value: floats with three significant digits, whole numbers whole.

    Example:
        >>> cell(0.123456), cell(1234567.0), cell(3), cell(None)
        ('0.123', '1234567', '3', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def report(result: Mapping[str, Any]) -> str:
    """A result as text: a list of mappings becomes a table under its name, everything else one line.

    Example:
        >>> print(report({"ranks": 4, "starts": [{"method": "spawn", "seconds": 2.5}]}))
        ranks: 4
        <BLANKLINE>
        starts
        method  seconds
        ------  -------
        spawn       2.5
    """
    return "\n".join(_parts(result))


def _parts(result: Mapping[str, Any]) -> Iterator[str]:
    for name, value in result.items():
        if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            columns = list(dict.fromkeys(key for row in value for key in row))
            yield f"\n{name}\n{table(columns, [[row.get(key) for key in columns] for row in value])}"
        else:
            yield f"{name}: {cell(value)}"
