"""``partkit test`` and the browser it needs, without running the tests inside the tests."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import pytest

from partkit.commands import Refusal, browser, debian, suite


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything that is started, as text; all of it succeeds."""
    started: list[str] = []

    def call(command: list[str], **options: Any) -> int:
        started.append(" ".join(command[2:]))
        return 0

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        started.append(" ".join(command[2:]))
        return subprocess.CompletedProcess(command, 0, "")

    monkeypatch.setattr(suite.subprocess, "call", call)
    monkeypatch.setattr(suite.subprocess, "run", run)
    monkeypatch.setattr(suite.browser, "install", lambda: started.append("a browser"))
    return started


def test_style_and_types_come_first_and_pytest_last(ran: list[str]) -> None:
    assert suite.run(argparse.Namespace(rest=[])) == 0
    assert ran[:4] == ["a browser", "ruff check --quiet .", "ruff format --quiet --check .", "mypy"]
    assert ran[4].startswith("pytest --numprocesses=")


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 2), (4, 4), (64, 4), (None, 1)])
def test_the_tests_are_shared_out_to_the_cores(monkeypatch: pytest.MonkeyPatch, cores: int | None, workers: int) -> None:
    monkeypatch.setattr(suite.os, "cpu_count", lambda: cores)
    assert suite.shared_out()[0] == f"--numprocesses={workers}"


def test_with_arguments_only_pytest_runs(ran: list[str]) -> None:
    suite.run(argparse.Namespace(rest=["-k", "ring"]))
    assert ran == ["a browser", "pytest -k ring"]


@pytest.mark.parametrize(("checks", "tests", "status"), [(True, 0, 0), (False, 0, 1), (True, 1, 1), (False, 2, 2)])
def test_it_fails_if_anything_fails(ran: list[str], monkeypatch: pytest.MonkeyPatch, checks: bool, tests: int, status: int) -> None:
    monkeypatch.setattr(suite, "check", lambda *args: checks)
    monkeypatch.setattr(suite.subprocess, "call", lambda *args, **options: tests)
    assert suite.run(argparse.Namespace(rest=[])) == status


def test_a_check_that_fails_shows_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import os\n", encoding="utf-8")
    assert not suite.check("style", ["ruff", "check", "--isolated", "--no-cache", "x.py"], tmp_path)
    shown = capsys.readouterr().out
    assert "style: FAILED" in shown and "F401" in shown


def test_an_installation_without_the_tests_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "clone", lambda: None)
    with pytest.raises(Refusal, match="clone it"):
        suite.run(argparse.Namespace(rest=[]))


@pytest.mark.parametrize(
    ("root", "release", "expected"),
    [
        (True, "debian", "apt chromium fonts-dejavu-core"),
        (True, "ubuntu", "playwright install --with-deps chromium"),
        (False, "debian", "playwright install chromium"),
    ],
)
def test_where_the_browser_comes_from(monkeypatch: pytest.MonkeyPatch, root: bool, release: str, expected: str) -> None:
    done: list[str] = []
    answers = iter([None, "/usr/bin/chromium"])
    monkeypatch.setattr(browser, "find", lambda: next(answers))
    monkeypatch.setattr(browser.debian, "can_install", lambda: root)
    monkeypatch.setattr(browser.debian, "release", lambda: release)
    monkeypatch.setattr(browser.debian, "install", lambda *packages: done.append(f"apt {' '.join(packages)}"))
    monkeypatch.setattr(browser, "surely", lambda title, command: done.append(" ".join(command[2:])))
    assert browser.install() == "/usr/bin/chromium"
    assert done == [expected]


def test_a_browser_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser.shutil, "which", lambda name: "/opt/chrome" if name == "google-chrome" else None)
    assert browser.install() == "/opt/chrome"


def test_the_release_is_read(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('NAME="Debian GNU/Linux"\nID=debian\nID_LIKE="x"\n', encoding="utf-8")
    assert debian.release(tmp_path / "os-release") == "debian"
    assert debian.release(tmp_path / "none") == ""
