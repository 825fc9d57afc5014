"""Files and functions are short enough to be read in one go, and say what they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.source import files, short, tree

FILE_LINES = 300
FUNCTION_LINES = 40
"""Docstrings not counted."""
MEDIAN_LINES = 10
PARAMETERS = 8
"""Without ``self``; more than that is a value that wants a name."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines of the body without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", files(), ids=short)
def test_a_file_fits(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES


@pytest.mark.parametrize("path", files(), ids=short)
def test_functions_fit(path: Path) -> None:
    assert [f"{short(path)}:{f.lineno} {f.name}: {length(f)} lines" for f in functions(path) if length(f) > FUNCTION_LINES] == []


@pytest.mark.parametrize("path", files(), ids=short)
def test_functions_take_few_parameters(path: Path) -> None:
    many = [f for f in functions(path) if len([a for a in f.args.args + f.args.kwonlyargs if a.arg not in ("self", "cls")]) > PARAMETERS]
    allowed = {"add"}  # Recorder.add: the columns of an event, on the hottest path there is
    assert [f"{short(path)}:{f.lineno} {f.name}" for f in many if f.name not in allowed] == []


def test_most_functions_are_a_few_lines() -> None:
    assert median(length(f) for path in files() for f in functions(path)) <= MEDIAN_LINES


@pytest.mark.parametrize("path", files(), ids=short)
def test_a_file_and_its_public_parts_say_what_they_are(path: Path) -> None:
    module = tree(path)
    silent = [] if ast.get_docstring(module) else ["the file itself"]
    silent += [node.name for node in module.body if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)]
    assert silent == []


def test_nothing_is_left_undone() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")
    assert [f"{short(path)}: {word}" for path in files() for word in words if word in path.read_text(encoding="utf-8")] == []
