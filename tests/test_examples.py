"""Every example in a docstring runs, and every public name has one."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import partkit
from tests.source import files, module_name, short

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WITH_EXAMPLES = [path for path in files() if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=short)
def test_the_examples_of_a_file_run(path: Path) -> None:
    module = import_module(module_name(path).removesuffix(".__init__"))
    results = doctest.testmod(module, optionflags=OPTIONS)
    assert results.attempted > 0
    assert results.failed == 0, "see the report of doctest above"


@pytest.mark.parametrize("name", [name for name in partkit.__all__ if name != "clusters"])
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>> " in (getattr(partkit, name).__doc__ or ""), f"pk.{name} has no example in its docstring"
