"""JupyterLab's command line, and a notebook without a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import nbformat
import pytest

from partkit.commands import Refusal, headless, lab
from partkit.commands.environment import clone


def args(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"notebook": None, "headless": False, "port": None, "no_browser": True, **given})


def test_the_notebook_is_in_front(tmp_path: Path) -> None:
    command = lab.server(tmp_path, tmp_path / "notebooks" / "x.ipynb", 9999, open_browser=False)
    assert "--LabApp.default_url=/lab/tree/notebooks/x.ipynb" in command
    assert {f"--ServerApp.root_dir={tmp_path}", "--ServerApp.port=9999", "--no-browser"} <= set(command)


def test_a_notebook_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="is not in"):
        lab.server(tmp_path / "clone", tmp_path / "x.ipynb", None, open_browser=True)


def test_a_notebook_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refusal, match="there is no notebook"):
        lab.run(args(notebook="no-such.ipynb"))


def test_an_installation_without_the_course_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "clone", lambda: None)
    with pytest.raises(Refusal, match="clone it"):
        lab.run(args())


def test_this_is_a_clone() -> None:
    root = clone()
    assert root is not None and (root / "partkit" / "commands" / "lab.py").exists()


def write(path: Path, *cells: Any) -> Path:
    notebook: Any = nbformat.v4.new_notebook(cells=list(cells))  # type: ignore[no-untyped-call]
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    return path


def code(source: str) -> Any:
    return nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]


def text(source: str) -> Any:
    return nbformat.v4.new_markdown_cell(source)  # type: ignore[no-untyped-call]


def test_headless_prints_the_facts_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(
        tmp_path / "x.ipynb",
        text("# Title\n\nWords.\n\n## Counting"),
        code("print('noise')"),
        code("# NBVAL_CHECK_OUTPUT\nprint('6 messages')\n20 + 4"),
        text("## Nothing here"),
        code("import os; assert os.environ['PARTKIT_STATIC'] == '1'"),
    )
    before = path.read_bytes()
    assert headless.run_notebook(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["Title", "  Counting", "      6 messages", "      24"]
    assert lines[4].startswith("x.ipynb: 3 cells ran in ") and lines[4].endswith("all is well")
    assert path.read_bytes() == before


def test_headless_fails_with_the_cells_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.ipynb", code("# NBVAL_CHECK_OUTPUT\nprint('before')"), code("1 / 0"), code("print('after')"))
    assert headless.run_notebook(path) == 1
    shown = capsys.readouterr()
    assert "before" in shown.out and "after" not in shown.out and "one failed" in shown.out
    assert "ZeroDivisionError" in shown.err


@pytest.mark.parametrize(
    ("source", "tags", "fact"),
    [
        ("# NBVAL_CHECK_OUTPUT\nx", [], True),
        ("x  # NBVAL_CHECK_OUTPUT", [], False),
        ("x", ["nbval-check-output"], True),
        ("x", [], False),
    ],
)
def test_a_fact_is_a_marked_cell(source: str, tags: list[str], fact: bool) -> None:
    assert headless.is_fact({"cell_type": "code", "source": source, "metadata": {"tags": tags}}) is fact
