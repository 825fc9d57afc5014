"""The command line is read without running anything."""

from __future__ import annotations

from importlib import import_module

import pytest

from partkit.commands import Refusal, environment, parser


@pytest.mark.parametrize("command", parser.MODULES)
def test_every_command_has_a_file_and_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(import_module(f"partkit.commands.{parser.MODULES[command]}").run)
    with pytest.raises(SystemExit) as end:
        parser.parse([command, "--help"])
    assert end.value.code == 0
    assert f"partkit {command}" in capsys.readouterr().out


def test_what_follows_two_dashes_goes_on_to_pytest() -> None:
    assert parser.parse(["test", "--", "-k", "ring", "--", "x"]).rest == ["-k", "ring", "--", "x"]


def test_a_benchmark_gets_what_the_command_does_not_know() -> None:
    args = parser.parse(["bench", "collectives", "--ranks", "2", "--json"])
    assert (args.name, args.json, args.rest) == ("collectives", True, ["--ranks", "2"])


def test_an_unknown_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse(["lab", "--heedless"])
    assert "partkit lab does not know --heedless" in capsys.readouterr().err


def test_a_refusal_is_one_message_without_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise Refusal("no disk")

    monkeypatch.setattr(environment, "ensure", refuse)
    assert parser.dispatch(["demo"]) == 1
    assert capsys.readouterr().err == "partkit: no disk\n"


def test_an_interrupt_ends_with_its_own_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(environment, "ensure", interrupt)
    assert parser.dispatch(["demo"]) == 130
