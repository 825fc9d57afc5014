"""Which build of torch is installed, decided without installing any."""

from __future__ import annotations

from typing import Any

import pytest

from partkit.commands import Refusal, torch_build

CPU = {"install": [{"metadata": {"name": "torch", "version": "2.13.0+cpu", "requires_dist": ["filelock", "sympy>=1.13.3"]}}]}
CUDA = {"install": [{"metadata": {"name": "torch", "requires_dist": ["filelock", 'nvidia-cublas==13.1.1.3; platform_system == "Linux"']}}]}
TRITON = {"install": [{"metadata": {"name": "torch", "requires_dist": ['triton==3.8.0; platform_system == "Linux"']}}]}
TOOLKIT = {"install": [{"metadata": {"name": "torch", "requires_dist": ["cuda-toolkit[cublas,cudart]==13.0.3"]}}]}
OPTIONAL = {"install": [{"metadata": {"name": "torch", "requires_dist": ['nvidia-dali; extra == "data"']}}]}
RESOLVED = {"install": [{"metadata": {"name": "torch"}}, {"metadata": {"name": "nvidia-nccl-cu13"}}]}


@pytest.mark.parametrize(
    ("report", "system", "cuda"),
    [
        (CPU, "Linux", False),
        (CUDA, "Linux", True),
        (TRITON, "Linux", True),
        (TOOLKIT, "Linux", True),
        (RESOLVED, "Linux", True),
        (OPTIONAL, "Linux", False),
        (CUDA, "Darwin", False),
        ({}, "Linux", False),
    ],
)
def test_a_report_names_cuda_or_not(report: dict[str, Any], system: str, cuda: bool) -> None:
    assert torch_build.needs_cuda(report, system) is cuda


def test_a_report_is_found_among_warnings() -> None:
    output = 'WARNING: a location is ignored\n{"version": "1", "install": []}\nWARNING: more'
    assert torch_build.read_report(output) == {"version": "1", "install": []}
    assert torch_build.read_report("no report") == {}


@pytest.mark.parametrize(
    ("version", "usable"), [("2.13.0", True), ("2.13.0+cu130", True), ("2.9.1", True), ("2.8.0", False), ("3.0.0", False), ("", False), (None, False)]
)
def test_a_torch_that_is_there_is_kept_if_partkit_can_use_it(version: str | None, usable: bool) -> None:
    assert torch_build.usable(version) is usable


class Pip:
    """Stands in for pip: notes what it was asked to install, and succeeds where it is told to."""

    def __init__(self, succeeds: str = "", report: str = "{}") -> None:
        self.asked: list[str] = []
        self._succeeds, self._report = succeeds, report

    def quietly(self, title: str, command: list[str]) -> tuple[int, str]:
        self.asked.append(" ".join(command[3:]))
        return (0, "") if self._succeeds and self._succeeds in self.asked[-1] else (1, "No matching distribution found")

    def surely(self, title: str, command: list[str]) -> str:
        self.asked.append(" ".join(command[3:]))
        return self._report


def install(monkeypatch: pytest.MonkeyPatch, pip: Pip, *, present: str | None = None, cuda: bool = False, unlabelled: bool = False) -> list[str]:
    monkeypatch.setattr(torch_build, "quietly", pip.quietly)
    monkeypatch.setattr(torch_build, "surely", pip.surely)
    monkeypatch.setattr(torch_build, "_present", lambda python: present)
    monkeypatch.setattr(torch_build, "may_be_cpu_without_label", lambda: unlabelled)
    torch_build.install("python", cuda=cuda)
    return pip.asked


def test_nothing_is_installed_over_a_usable_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert install(monkeypatch, Pip(), present="2.12.0+cu130") == []


def test_a_cpu_build_from_where_pip_looks_anyway_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = install(monkeypatch, Pip(succeeds="+cpu"), present="2.4.0")
    assert asked == [f"install --progress-bar off --no-compile torch=={torch_build.TORCH}+cpu"]


def test_then_the_index_of_cpu_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = install(monkeypatch, Pip(succeeds=torch_build.CPU_INDEX))
    assert len(asked) == 2
    assert asked[1].endswith(f"--extra-index-url {torch_build.CPU_INDEX} torch=={torch_build.TORCH}+cpu")


def test_then_the_plain_one_if_its_report_is_free_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = install(monkeypatch, Pip(), unlabelled=True)
    assert asked[-1] == f"install --progress-bar off --no-compile torch=={torch_build.TORCH}"


@pytest.mark.parametrize("unlabelled", [False, True])
def test_without_any_cpu_build_it_refuses_and_says_what_helps(monkeypatch: pytest.MonkeyPatch, unlabelled: bool) -> None:
    pip = Pip(report='{"install": [{"metadata": {"name": "nvidia-nccl-cu13"}}]}')
    with pytest.raises(Refusal, match=r"--cuda(.|\n)*--here(.|\n)*No matching distribution"):
        install(monkeypatch, pip, unlabelled=unlabelled)
    assert all("+cpu" in asked or "--dry-run" in asked for asked in pip.asked), "a build that may be CUDA was installed"


def test_cuda_is_installed_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert install(monkeypatch, Pip(), cuda=True) == ["install --progress-bar off --no-compile torch>=2.9,<3"]


def test_the_range_is_that_of_the_project() -> None:
    from tests.source import ROOT

    low, high = (".".join(map(str, version)) for version in (torch_build.OLDEST, torch_build.TOO_NEW))
    assert f'"torch>={low},<{high.removesuffix(".0")}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
