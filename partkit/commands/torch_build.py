"""Which build of PyTorch is installed: one for the CPU, unless somebody asks for another.

On Linux, plain ``pip install torch`` brings the CUDA build: several gigabytes that a laptop without a GPU never uses. So in
a fresh environment three ways are tried, and none of them can bring CUDA by accident:

    [1]  torch==2.13.0+cpu from the places where pip looks anyway (a mirror, a folder of wheels)
    [2]  torch==2.13.0+cpu from PyTorch's own index of CPU builds
    [3]  torch==2.13.0 from where pip looks anyway, if pip's report on it names no package of CUDA (macOS, some ARM)

The label "+cpu" is what makes [1] and [2] safe: a CUDA build never carries it. The pin is for the course and the tests;
partkit itself asks for a range (pyproject.toml), and a torch that is there already and in that range is left alone.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from partkit.commands import Refusal
from partkit.commands.progress import quietly, surely, tail

TORCH = "2.13.0"
"""The version that the course and the tests are run with."""
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OLDEST, TOO_NEW = (2, 9), (3, 0)
"""The range of pyproject.toml, as (major, minor)."""
CUDA_PACKAGE = re.compile(r"(nvidia|cuda|triton|pytorch-triton)\b", re.IGNORECASE)

HELP = f"""There is no CPU build of torch {TORCH} to be had here, and the CUDA build has several gigabytes. One of these helps:
    --cuda                              install the build that pip chooses
    .venv/bin/pip install torch ...     install the torch you want, then type the command again: it is kept
    --here                              use the environment of this Python, and its torch
What was tried:
"""
PIP_INSTALL = ("-m", "pip", "install", "--progress-bar", "off", "--no-compile")
"""pip compiles on one core, file after file: two thirds of its work. `partkit.commands.environment.fill` does it on all."""


def install(python: str, *, cuda: bool) -> None:
    """Install torch for ``python``, unless there is one that partkit can use.

    Args:
        python: the interpreter of the environment.
        cuda: take whatever build pip chooses.

    Raises:
        Refusal: no CPU build was found, or pip failed.
    """
    if usable(_present(python)):
        return
    pip = [python, *PIP_INSTALL]
    if cuda:
        surely("installing torch, the build that pip chooses", [*pip, f"torch>={OLDEST[0]}.{OLDEST[1]},<{TOO_NEW[0]}"])
        return
    failures = []
    for place, where in (("from where pip looks anyway", []), ("from PyTorch's index of CPU builds", ["--retries", "1", "--extra-index-url", CPU_INDEX])):
        status, output = quietly(f"installing torch {TORCH}, CPU build, {place}", [*pip, *where, f"torch=={TORCH}+cpu"])
        if status == 0:
            return
        failures.append(f"  {place}:\n{tail(output, lines=8)}")
    if may_be_cpu_without_label():
        report = surely("asking pip what plain torch would be", [*pip, "--quiet", "--dry-run", "--no-deps", "--report", "-", f"torch=={TORCH}"])
        if not needs_cuda(read_report(report), platform.system()):
            surely(f"installing torch {TORCH}", [*pip, f"torch=={TORCH}"])
            return
    raise Refusal(HELP + "\n".join(failures))


def usable(version: str | None) -> bool:
    """Whether partkit can use the torch of this version; None stands for no torch.

    Example:
        >>> usable("2.13.0+cpu"), usable("2.8.0"), usable(None)
        (True, False, False)
    """
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return found is not None and OLDEST <= (int(found[1]), int(found[2])) < TOO_NEW


def may_be_cpu_without_label(system: str = platform.system(), machine: str = platform.machine()) -> bool:
    """Whether PyPI's torch for this machine can be a CPU build. On Linux x86_64 it never is: not worth asking.

    Example:
        >>> may_be_cpu_without_label("Linux", "x86_64"), may_be_cpu_without_label("Darwin", "arm64")
        (False, True)
    """
    return not (system == "Linux" and machine in ("x86_64", "AMD64"))


def read_report(output: str) -> Mapping[str, Any]:
    """The report in pip's output, which may have warnings around it."""
    start = output.find("{")
    report: Mapping[str, Any] = json.JSONDecoder().raw_decode(output[start:])[0] if start >= 0 else {}
    return report


def needs_cuda(report: Mapping[str, Any], system: str) -> bool:
    """Whether what pip would install brings CUDA along.

    Args:
        report: of ``pip install --dry-run --report``; with or without the dependencies resolved.
        system: "Linux", "Darwin" or "Windows": a requirement that names Linux counts only there.

    Example:
        >>> needs_cuda({"install": [{"metadata": {"name": "torch", "requires_dist": ["nvidia-cublas==13.1; platform_system == 'Linux'"]}}]}, "Linux")
        True
    """
    for package in report.get("install", []):
        metadata = package["metadata"]
        if CUDA_PACKAGE.match(metadata["name"]):
            return True
        for requirement in metadata.get("requires_dist", []):
            name, _, marker = requirement.partition(";")
            elsewhere = "linux" in marker.lower() and system != "Linux"
            if CUDA_PACKAGE.match(name.strip()) and "extra" not in marker and not elsewhere:
                return True
    return False


def _present(python: str) -> str | None:
    """The version of torch in that environment, without importing it."""
    code = "from importlib.metadata import version; print(version('torch'))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None
