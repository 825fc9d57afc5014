"""``partkit test``: every check there is, the tests last, so that pytest's closing line is the last word.

    ruff check, ruff format    style
    mypy                       types, strict
    pytest                     unit, live ranks, notebooks (nbval), real JupyterLab in a real browser; the files shared out to
                               as many processes as there are cores, at most four

The browser is installed if there is none: a test that is skipped for want of it would be a hole.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from partkit.commands import Refusal, browser
from partkit.commands.environment import clone

CHECKS: dict[str, list[str]] = {
    "style": ["ruff", "check", "--quiet", "."],
    "format": ["ruff", "format", "--quiet", "--check", "."],
    "types": ["mypy"],
}
MAX_WORKERS = 4
"""Each may have a browser, a JupyterLab, two kernels and eight ranks: about 3 GB."""


def run(args: argparse.Namespace) -> int:
    """Run all checks, or only pytest if the user gave it arguments. Gives 0 if all of them passed."""
    root = clone()
    if root is None:
        raise Refusal("the tests are in the repository, and this partkit was installed without them: clone it and run the command there")
    browser.install()
    failed = [] if args.rest else [name for name, command in CHECKS.items() if not check(name, command, root)]
    status = subprocess.call([sys.executable, "-m", "pytest", *(args.rest or shared_out())], cwd=root, stdin=subprocess.DEVNULL)
    if failed:
        print(f"partkit: failed before the tests: {', '.join(failed)}")
    return status or int(bool(failed))


def shared_out() -> list[str]:
    """Pytest's options to run the files of tests side by side, in the order of their names: those in a browser, the longest, come early."""
    return [f"--numprocesses={min(MAX_WORKERS, os.cpu_count() or 1)}", "--dist=loadfile", "--no-loadscope-reorder"]


def check(name: str, command: list[str], root: Path) -> bool:
    """Run one check and say how it went; its output is shown if it failed."""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", *command], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'} ({' '.join(command)}, {time.monotonic() - start:.0f} s)", flush=True)
    if done.returncode != 0:
        print(done.stdout, flush=True)
    return done.returncode == 0
