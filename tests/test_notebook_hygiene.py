"""What lies in a notebook's file: small, reproducible, readable without a kernel, and honest about its facts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from partkit.commands.headless import is_fact, plain_text
from tests.source import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("**/[!.]*.ipynb"))
MAX_BYTES = 300_000
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])(/(?:home|root|Users|tmp|opt|srv|mnt|\w*work\w*)/|[A-Z]:\\)")
"""Where people, and machines that run notebooks, keep their files."""
TIMING = re.compile(r"\d (s|ms|us|µs|seconds|milliseconds)\b")


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(path: Path) -> list[Any]:
    return [cell | {"source": "".join(cell["source"])} for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS][:3] == ["01-first-four-ranks", "02-collectives-from-scratch", "03-what-does-it-cost"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestNotebook:
    def test_is_small(self, path: Path) -> None:
        assert path.stat().st_size < MAX_BYTES

    def test_runs_with_any_python3_and_keeps_no_widget_state(self, path: Path) -> None:
        metadata = read(path)["metadata"]
        assert metadata["kernelspec"]["name"] == "python3"
        assert "widgets" not in metadata

    def test_shows_no_error(self, path: Path) -> None:
        assert [c["source"] for c in code_cells(path) if any(o["output_type"] == "error" for o in c["outputs"]) and "raises-exception" not in tags(c)] == []

    def test_names_no_folder_of_its_author(self, path: Path) -> None:
        assert ABSOLUTE_PATH.findall(path.read_text(encoding="utf-8")) == []

    def test_skips_nothing(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8").lower()
        assert "nbval_skip" not in text and "nbval-skip" not in text

    def test_states_facts(self, path: Path) -> None:
        facts = [cell for cell in code_cells(path) if is_fact(cell)]
        assert facts
        assert [c["source"] for c in facts if not any(plain_text(o).strip() for o in c["outputs"])] == [], "a fact is what a cell prints: nothing stored"

    def test_states_no_time_as_a_fact(self, path: Path) -> None:
        assert [plain_text(o) for c in code_cells(path) if is_fact(c) for o in c["outputs"] if TIMING.search(plain_text(o))] == []

    def test_was_run_from_top_to_bottom(self, path: Path) -> None:
        counts = [cell["execution_count"] for cell in code_cells(path) if cell["source"].strip()]
        assert counts == list(range(1, len(counts) + 1))

    def test_begins_with_a_title(self, path: Path) -> None:
        first = read(path)["cells"][0]
        assert first["cell_type"] == "markdown" and "".join(first["source"]).startswith("# ")


def tags(cell: Any) -> list[str]:
    found: list[str] = cell["metadata"].get("tags", [])
    return found
