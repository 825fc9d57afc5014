"""A Chromium for the browser tests and the pictures.

1  one that is installed: chromium, google-chrome, or the one that Playwright downloaded before
2  Debian's package, if we are root on Debian (Ubuntu's package of that name only fetches a snap)
3  Playwright's own download
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from partkit.commands import debian
from partkit.commands.progress import surely

NAMES = ("chromium", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
"""How tests start it: runs as root and in containers, talks to nobody, draws in software."""


def find() -> str | None:
    """Path of a Chromium that Playwright can drive; None if there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    return _playwrights_own()


def install() -> str:
    """Path of a Chromium, installed if need be.

    Raises:
        Refusal: none could be installed.
    """
    if found := find():
        return found
    if debian.can_install() and debian.release() == "debian":
        debian.install("chromium", "fonts-dejavu-core")
    else:
        with_libraries = ["--with-deps"] if debian.can_install() else []
        surely("downloading Chromium (Playwright's)", [sys.executable, "-m", "playwright", "install", *with_libraries, "chromium"])
    found = find()
    assert found is not None, "a browser was installed and is not there"
    return found


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None
