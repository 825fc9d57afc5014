"""The package as a text: its files, their syntax trees, and the map in partkit/README.md."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "partkit"


class Row(NamedTuple):
    """One row of the map."""

    layer: int
    needs_torch: bool


@cache
def files() -> tuple[Path, ...]:
    """Every Python file of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    """The file as the oldest supported Python reads it."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))


def module_name(path: Path) -> str:
    """``partkit/worlds/run.py`` -> ``partkit.worlds.run``; a package's ``__init__`` is the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def top_level(name: str) -> str:
    """The row of the map that a dotted name belongs to: ``partkit.worlds.run`` -> ``worlds``; ``partkit`` -> ``__init__``.

    A row may be a part of a package, ``pipeline_parallel.execution``: names inside belong to it, not to the package's own row.
    """
    parts = (name.split(".") + ["__init__"])[1:]
    inner = ".".join(parts[:2])
    return inner if inner in layers() else parts[0]


@cache
def layers() -> dict[str, Row]:
    """The table of partkit/README.md."""
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `([\w.]+)` \| [^|]+ \| (yes|no) \|$", text, re.MULTILINE)
    return {module: Row(int(layer), torch == "yes") for layer, module, torch in rows}


def short(path: Path) -> str:
    """The path as a person would name it."""
    return path.relative_to(ROOT).as_posix()
