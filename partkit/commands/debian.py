"""Packages of the operating system, where we may install them: as root, with apt-get."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from partkit.commands.progress import surely

QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


def can_install() -> bool:
    """Whether this user may install packages of the system: root, and there is apt-get."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(*packages: str) -> None:
    """Install packages of the system.

    Raises:
        Refusal: apt-get could not.
    """
    surely("reading the list of system packages", ["apt-get", "update"], QUIET)
    surely(f"installing {', '.join(packages)} (system)", ["apt-get", "install", "-y", "--no-install-recommends", *packages], QUIET)


def release(path: Path = Path("/etc/os-release")) -> str:
    """Which Linux this is, as its maker spells it: "debian", "ubuntu", ...; empty if it does not say."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("ID="):
                return line.removeprefix("ID=").strip().strip('"')
    return ""
