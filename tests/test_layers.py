"""Imports go only downward, in the layers of partkit/README.md; layers that promise to be free of torch are."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source import PACKAGE, files, layers, module_name, short, top_level, tree


def imports(module: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import of partkit in a file: at the top, inside functions, and by ``import_module("...")``."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "partkit")
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1] + [node.module or ""]).strip(".") if node.level else node.module
            if base == "partkit":
                yield from ((node.lineno, f"partkit.{alias.name}") for alias in node.names)
            elif base and base.startswith("partkit."):
                yield node.lineno, base
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module" and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and str(name.value).startswith("partkit"):
                yield node.lineno, str(name.value)


def below(other: str, own: str) -> bool:
    """Whether ``own`` may import ``other``. In layer 0 the rows of the map are an order too: `cluster` may use `partition`."""
    mine, theirs = layers()[own].layer, layers()[other].layer
    return theirs < mine or (theirs == mine == 0 and list(layers()).index(other) < list(layers()).index(own))


def upward(path: Path) -> list[str]:
    """The imports of a file that do not go down, in words."""
    own = top_level(module_name(path))
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    found = []
    for line, name in imports(tree(path), package):
        other = top_level(name)
        if other != own and not below(other, own):
            found.append(f"{short(path)}:{line} (layer {layers()[own].layer}) imports {name} (layer {layers()[other].layer})")
    return found


def test_every_module_is_in_the_map_and_the_map_names_no_other() -> None:
    assert {top_level(module_name(path)) for path in files()} == set(layers())


@pytest.mark.parametrize("path", files(), ids=short)
def test_imports_go_downward(path: Path) -> None:
    assert upward(path) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import partkit.figures.lanes", "partkit.figures.lanes"),
        ("def f():\n    from partkit.worlds import world", "partkit.worlds"),
        ("from partkit import mesh", "partkit.mesh"),
        ("from ..mesh import Mesh", "partkit.mesh"),
        ("from . import travel", "partkit.worlds"),
        ("import_module('partkit.widgets')", "partkit.widgets"),
    ],
)
def test_the_walk_sees_every_way_to_import(source: str, found: str) -> None:
    assert [name for _, name in imports(ast.parse(source), "partkit.worlds")] == [found]


def test_layers_without_torch_import_without_torch() -> None:
    names = [module_name(path).removesuffix(".__init__") for path in files() if not layers()[top_level(module_name(path))].needs_torch]
    names = [name for name in names if name != "partkit.__main__"]
    code = f"import sys; sys.modules['torch'] = None\nfor name in {names}: __import__(name)\nassert 'torch.nn' not in sys.modules"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr


def test_no_module_shadows_one_that_everybody_uses() -> None:
    shadows = {"comm", "trace", "copy", "queue", "select", "profile", "types"}
    assert [short(path) for path in files() if path.stem in shadows] == []
