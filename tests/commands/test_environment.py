"""Where a command runs: decided from what is installed, without installing anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from partkit.commands import Refusal, environment


class Restarted(Exception):
    """Raised in place of the second start, which would not return."""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A clone in which nothing is installed; gives the list of what is done about it."""
    done: list[str] = []

    def make(venv: Path) -> Path:
        done.append(f"make {venv.name}")
        venv.mkdir(exist_ok=True)
        return venv / "bin" / "python"

    def fill(python: Path, root: Path, extra: str | None, *, cuda: bool) -> None:
        done.append(f"fill {python.name} {extra} cuda={cuda}")

    def start_again(python: Path, argv: list[str]) -> NoReturn:
        done.append(f"start {python.parent.parent.name} {' '.join(argv)}")
        raise Restarted

    (tmp_path / "pyproject.toml").write_text('[project]\nname = "partkit"\n', encoding="utf-8")
    for function in (make, fill, start_again):
        monkeypatch.setattr(environment, function.__name__, function)
    monkeypatch.setattr(environment, "clone", lambda: tmp_path)
    monkeypatch.setattr(environment, "installed_from", lambda root: False)
    return done


def ensure(extra: str | None = "notebook", *, here: bool = False, cuda: bool = False) -> None:
    environment.ensure(extra, ["lab"], here=here, cuda=cuda)


def test_a_fresh_clone_gets_its_own_environment(fresh: list[str]) -> None:
    with pytest.raises(Restarted):
        ensure()
    assert fresh == ["make .venv", "fill python notebook cuda=False", "start .venv lab"]


def test_the_second_time_nothing_is_installed(fresh: list[str]) -> None:
    with pytest.raises(Restarted):
        ensure("dev")
    fresh.clear()
    with pytest.raises(Restarted):
        ensure("notebook")
    assert fresh == ["make .venv", "start .venv lab"]


def test_a_changed_pyproject_or_another_folder_fills_again(fresh: list[str], tmp_path: Path) -> None:
    with pytest.raises(Restarted):
        ensure()
    assert environment.stamped(tmp_path / ".venv", tmp_path, "notebook")
    assert not environment.stamped(tmp_path / ".venv", tmp_path, "dev")
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    assert not environment.stamped(tmp_path / ".venv", tmp_path, "notebook")


def test_the_lab_of_the_environment_does_not_ask_for_news(fresh: list[str], tmp_path: Path) -> None:
    with pytest.raises(Restarted):
        ensure()
    overrides = tmp_path / ".venv" / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    assert json.loads(overrides.read_text(encoding="utf-8")) == {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}


def test_extras_of_an_earlier_filling_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    environment.stamp(tmp_path, tmp_path, "dev")
    environment.stamp(tmp_path, tmp_path, None)
    assert environment.stamped(tmp_path, tmp_path, "dev")


def test_inside_its_own_environment_it_goes_on(fresh: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".venv").mkdir()
    environment.stamp(tmp_path / ".venv", tmp_path, "dev")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    ensure("notebook")
    assert fresh == []


def test_a_developers_own_environment_is_used(fresh: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed_from", lambda root: True)
    ensure("dev")
    assert fresh == []


def test_here_installs_into_this_python(fresh: list[str]) -> None:
    with pytest.raises(Restarted):
        ensure(here=True, cuda=True)
    assert fresh[0] == f"fill {Path(sys.executable).name} notebook cuda=True"
    assert "make .venv" not in fresh


def test_a_set_up_that_does_not_help_is_not_repeated(fresh: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.FILLED, "1")
    with pytest.raises(Refusal, match="still lacks"):
        ensure()
    assert fresh == []


def test_without_a_clone_it_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "clone", lambda: None)
    monkeypatch.setattr(environment, "missing", lambda extra: ["jupyterlab", "plotly"])
    with pytest.raises(Refusal, match=r"jupyterlab, plotly.*pip install 'partkit\[notebook\]'"):
        ensure()


def test_this_environment_lacks_nothing() -> None:
    assert environment.missing("dev") == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partkit.commands.environment.metadata.requires", lambda name: ["numpy>=1.26", 'no-such-package>=1; extra == "dev"'])
    assert environment.missing("dev") == ["no-such-package"]
    assert environment.missing("notebook") == []


def test_a_python_without_venv_is_told_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "quietly", lambda title, command: (1, "ensurepip is not available"))
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    monkeypatch.setattr(environment.debian, "can_install", lambda: False)
    with pytest.raises(Refusal, match=r"apt-get install python3\.\d+-venv(.|\n)*ensurepip is not available"):
        environment.make(tmp_path / ".venv")


def test_root_on_debian_gets_venv_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packages: list[str] = []
    monkeypatch.setattr(environment, "quietly", lambda title, command: (0, ""))
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    monkeypatch.setattr(environment.debian, "can_install", lambda: True)
    monkeypatch.setattr(environment.debian, "install", lambda *names: packages.extend(names))
    environment.make(tmp_path / ".venv")
    assert packages == [f"python3.{sys.version_info[1]}-venv"]


def test_an_environment_that_does_not_run_is_made_anew(tmp_path: Path) -> None:
    assert not environment.works(tmp_path)
    assert environment.works(Path(sys.prefix))
    (tmp_path / environment.STAMP).touch()
    environment.interpreter(tmp_path).parent.mkdir()
    environment.interpreter(tmp_path).symlink_to(tmp_path / "a-python-that-was-removed")
    assert not environment.works(tmp_path)


def test_all_that_was_installed_is_compiled_but_for_tests_and_what_cannot_be(tmp_path: Path) -> None:
    for name in ("package/module.py", "package/tests/test_module.py", "package/template.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{{ name }}(" if name.endswith("template.py") else "x = 1\n", encoding="utf-8")
    elsewhere = f"import sysconfig\nsysconfig.get_path = lambda name: {str(tmp_path)!r}\n"
    subprocess.run([sys.executable, "-c", elsewhere + environment.COMPILE], check=True)
    assert [path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")] == ["module"]
