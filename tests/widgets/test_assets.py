"""What is sent to the browser."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

import partkit.widgets
from partkit.widgets.assets import read, script

MOST_BYTES = 48_000
"""A tenth of a second from a far server, say Binder's, at 4 Mbit/s."""


def scripts() -> list[Any]:
    """Every script that a widget sends."""
    found = []
    for module in iter_modules(partkit.widgets.__path__):
        for name, kind in vars(import_module(f"partkit.widgets.{module.name}")).items():
            if isinstance(kind, type) and kind.__module__ == f"partkit.widgets.{module.name}" and "_esm" in vars(kind):
                found.append(pytest.param(kind._esm, id=name))
    return found


@pytest.mark.parametrize("source", scripts())
def test_case_W02_every_script_is_text_small_and_loads_nothing(source: object) -> None:
    assert isinstance(source, str)
    assert len(source.encode()) < MOST_BYTES
    assert "http://" not in source and "https://" not in source
    assert not [line for line in source.splitlines() if line.startswith("import ")]
    assert source.count("export default") == 1


def test_files_are_joined_in_order() -> None:
    joined = script("common.js", "store.js")
    assert joined.startswith(read("common.js")) and joined.endswith(read("store.js"))


@pytest.mark.parametrize("name", sorted(path.name for path in Path(partkit.widgets.__file__).parent.glob("static/*.css") if path.name != "view.css"))
def test_what_a_view_changes_of_the_common_look_holds_beside_other_views(name: str) -> None:
    """Every view brings view.css along; of two rules that weigh the same the later one counts, whichever view came last."""
    heads = re.findall(r"(?:^|\}\s*)([^{}@]+)\{", read(name))
    assert heads and not [head for head in heads if not head.strip().startswith((".partkit-view.partkit-", ":root", "from", "to"))]
    assert not re.findall(r"(?<!\.partkit-view)\.partkit-(?!view)", read(name))
