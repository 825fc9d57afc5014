"""README.md promises only what there is: its commands, its links, its example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from partkit.commands import parser
from tests.source import ROOT, short

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.partition("#")[0].split()[3:] for line in TEXT.splitlines() if line.startswith("python3 -m partkit ")]
MARKDOWN = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "partkit" / "README.md"]


def test_there_are_two_commands() -> None:
    assert [command[0] for command in COMMANDS] == ["lab", "test"]


@pytest.mark.parametrize("command", [*COMMANDS, [*COMMANDS[0], "--headless"]], ids=" ".join)
def test_the_commands_exist(command: list[str]) -> None:
    assert parser.parse(command).command == command[0]


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`python3 -m partkit (\w+)", TEXT)) | {"bench", "view"}))
def test_commands_named_in_passing_exist(command: str) -> None:
    assert command in parser.MODULES


@pytest.mark.parametrize("page", MARKDOWN, ids=short)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)|src=\"(?!https?:)([^\"]+)\"", page.read_text(encoding="utf-8"))
    assert [link for pair in links for link in pair if link and not (page.parent / link).exists()] == []


def test_binder_opens_a_notebook_that_exists() -> None:
    found = re.search(r"mybinder\.org/v2/gh/[\w-]+/[\w-]+/[\w.-]+\?urlpath=lab/tree/(\S+?\.ipynb)\)", TEXT)
    assert found is not None
    assert (ROOT / found[1]).exists()


def test_ci_types_the_commands_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    subprocess.run(["bash", "-n", str(script)], check=True)
    pattern = re.search(r"grep -E '(\S+ -m partkit )' README.md", script.read_text(encoding="utf-8"))
    assert pattern is not None
    assert len(re.findall(pattern[1], TEXT, re.MULTILINE)) == 2


@pytest.mark.live
def test_the_example_runs() -> None:
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None
    done = subprocess.run([sys.executable, "-W", "error", "-c", code[1]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    live, simulated = done.stdout.splitlines()
    assert live.startswith("tensor([6., 6., 6., 6., 6., 6.]) Trace(4 ranks")
    assert simulated.endswith(" us")
