"""The files in binder/, as repo2docker reads them. No Docker is needed for that."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from partkit.commands import torch_build
from tests.source import ROOT

BINDER = ROOT / "binder"
SCRIPTS = [BINDER / "postBuild", BINDER / "start"]


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What repo2docker would build: the Dockerfile, with its log."""
    copy = tmp_path_factory.mktemp("repository")
    for folder in ("binder", "partkit"):
        (copy / folder).symlink_to(ROOT / folder)
    (copy / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_repo2docker_reads_our_files(dry_run: str) -> None:
    assert "python=3.12" in dry_run
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in dry_run
    assert "./binder/postBuild" in dry_run
    assert re.search(r"R2D_ENTRYPOINT.*binder/start", dry_run)


def test_torch_is_the_cpu_build_that_the_tests_run_with() -> None:
    lines = (BINDER / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert f"torch=={torch_build.TORCH}+cpu" in lines
    assert f"--extra-index-url {torch_build.CPU_INDEX}" in lines
    assert "-e .[notebook]" in lines


def test_the_python_is_one_that_partkit_supports() -> None:
    assert re.fullmatch(r"python-3\.1[0-4]\n", (BINDER / "runtime.txt").read_text(encoding="utf-8"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_are_sound(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/bin/bash"
    assert "set -euo pipefail" in lines
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_start_hands_on_to_the_server_and_limits_the_ranks() -> None:
    assert (BINDER / "start").read_text(encoding="utf-8").rstrip().endswith('exec "$@"')
    done = subprocess.run([BINDER / "start", "env"], capture_output=True, text=True, check=True)
    assert {"PARTKIT_MAX_RANKS=4", "OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"} <= set(done.stdout.splitlines())


def test_post_build_passes_here() -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run([BINDER / "postBuild"], cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
