"""Long commands, run quietly."""

from __future__ import annotations

import sys

import pytest

from partkit.commands import Refusal, progress

OK = [sys.executable, "-c", "print('fine')"]
BAD = [sys.executable, "-c", "import sys; print('no space left'); sys.exit(3)"]


def test_a_command_that_works_leaves_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert progress.surely("making tea", OK).strip() == "fine"
    assert capsys.readouterr().err == "partkit: making tea ... 0 s\n"


def test_a_command_that_fails_shows_its_last_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Refusal, match=r"making tea failed \(exit status 3\):\n    no space left\nThe command was: "):
        progress.surely("making tea", BAD)
    assert "failed after" in capsys.readouterr().err


def test_a_command_that_does_not_exist_is_a_failure_not_a_crash() -> None:
    status, output = progress.quietly("making tea", ["no-such-program-anywhere"])
    assert status == 127
    assert "no-such-program-anywhere" in output


def test_variables_are_added_and_input_is_empty() -> None:
    code = "import os, sys; print(os.environ['TEA'], repr(sys.stdin.read()))"
    assert progress.surely("making tea", [sys.executable, "-c", code], {"TEA": "green"}).strip() == "green ''"


def test_only_the_tail_is_shown() -> None:
    assert progress.tail("\n".join(map(str, range(100)))).splitlines() == [f"    {n}" for n in range(70, 100)]
