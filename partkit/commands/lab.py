"""``partkit lab``: JupyterLab with the course in front, or the first notebook without a browser."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from partkit.commands import Refusal
from partkit.commands.environment import clone

FIRST = "notebooks/01-first-four-ranks.ipynb"


def run(args: argparse.Namespace) -> int:
    """Open the notebook in JupyterLab, or run it headless. Gives the exit status."""
    root = clone()
    if root is None:
        raise Refusal("the course is in the repository, and this partkit was installed without it: clone it and run the command there")
    notebook = Path(args.notebook).resolve() if args.notebook else root / FIRST
    if not notebook.exists():
        raise Refusal(f"there is no notebook {notebook}")
    if args.headless:
        from partkit.commands.headless import run_notebook

        return run_notebook(notebook)
    return subprocess.call(server(root, notebook, args.port, open_browser=not args.no_browser), cwd=root)


def server(root: Path, notebook: Path, port: int | None, *, open_browser: bool) -> list[str]:
    """The command that starts JupyterLab with ``notebook`` in front and the whole clone in the file browser."""
    try:
        address = notebook.relative_to(root).as_posix()
    except ValueError:
        raise Refusal(f"{notebook} is not in {root}: JupyterLab only shows what is in the clone") from None
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--LabApp.default_url=/lab/tree/{address}"]
    if port is not None:
        command.append(f"--ServerApp.port={port}")
    if not open_browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command
