"""A real JupyterLab and a real browser.

    def test_something(lab, page):
        notebook = lab.write("x.ipynb", "import partkit as pk", "pk.Timeline(trace)")
        lab.open(page, notebook)
        lab.run_all(page)
        page.locator(".partkit-timeline canvas").click()

One server for the session, with a copy of the notebooks: nothing that a test saves ends up in the repository. A browser for each
module, a fresh page for each test. If there is no browser, the tests fail: the test command installs one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from partkit.commands import browser as chromium
from tests.browser.course import Course, Opened
from tests.browser.jupyter import Lab, jupyter_lab

expect.set_options(timeout=30_000)  # milliseconds: whoever waits gets what he waits for, also on a busy machine


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Lab]:
    """JupyterLab with a copy of the notebooks in ``notebooks/``."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(root / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    with jupyter_lab(folder) as server:
        yield server


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where the browser is; found before Playwright's event loop runs in this thread."""
    path = chromium.find()
    assert path is not None, "there is no Chromium; `python3 -m partkit test` installs one"
    return path


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A headless Chromium. For one module only: Playwright's event loop runs in this thread while it is there."""
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium_path, args=list(chromium.FLAGS))
        yield instance
        instance.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """``new_page(color_scheme="dark", reduced_motion="reduce")``: a page in a context of its own."""
    contexts = []

    def make(**options: Any) -> Page:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[..., Page], request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page. Kernels that a test started in it are ended after it."""
    yield new_page()
    if "lab" in request.fixturenames:
        server: Lab = request.getfixturevalue("lab")
        server.end_kernels()


@pytest.fixture
def opened(lab: Lab, page: Page) -> Opened:
    """``opened(name)``: a notebook in the page, none of its cells run."""

    def open_it(name: str) -> Course:
        course = Course(lab, page)
        course.open(name)
        return course

    return open_it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a browser test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
