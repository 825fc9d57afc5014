"""``import partkit`` and ``partkit --help`` cost next to nothing: they load none of the large packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

import partkit

HEAVY = {"torch", "plotly", "ipywidgets", "anywidget", "IPython", "numpy", "jupyterlab", "sklearn", "multiprocessing", "asyncio"}


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running ``code``."""
    report = "import sys; print('modules:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return HEAVY & set(done.stdout.rpartition("modules:")[2].split())


def test_importing_partkit_loads_no_heavy_package() -> None:
    assert loaded_by("import partkit") == set()


def test_ranks_start_before_the_kernel_has_imported_torch() -> None:
    """The fork server imports torch; if the kernel did so first, a cold start would take twice as long."""
    assert "torch" not in loaded_by("import partkit; partkit.World; import partkit.worlds.magics")


@pytest.mark.parametrize("argv", [["--help"], ["lab", "--help"], ["bench", "--help"]], ids=" ".join)
def test_the_help_of_the_command_line_loads_no_heavy_package(argv: list[str]) -> None:
    code = f"from partkit.__main__ import main\ntry: main({argv})\nexcept SystemExit: pass"
    assert loaded_by(code) - {"multiprocessing"} == set()


def test_the_measure_sees_a_heavy_package() -> None:
    assert "torch" in loaded_by("import partkit; partkit.all_reduce")


@pytest.mark.parametrize("name", partkit.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(partkit, name) is not None
    assert name in dir(partkit)


def test_an_unknown_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="no attribute 'all_redcue'"):
        partkit.all_redcue  # noqa: B018
