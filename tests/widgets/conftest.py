"""A notebook that is not there, and a browser that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from partkit.commands import browser as chromium
from partkit.widgets import showing
from partkit.widgets.assets import read
from tests.widgets.fake_display import Display
from tests.widgets.fake_model import page as html

UNNAMED = """() => {
    const controls = document.querySelectorAll(".partkit-view :is(button, select, input, textarea, [tabindex], [role=application], [role=slider])");
    const around = (node) => [...(node.labels ?? [])].map((label) => label.textContent).join("");
    const name = (node) => node.ariaLabel || around(node) || node.title || (node.localName === "button" ? node.textContent : "");
    const reached = (node) => node.disabled || node.tabIndex >= 0;
    return [...controls].filter((node) => !/[\\p{L}]/u.test(name(node)) || !reached(node)).map((node) => node.outerHTML.slice(0, 200));
}"""
"""The controls of a page that a screen reader has no word for, or that the keyboard can't reach."""


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """What the notebook would show."""
    fake = Display()
    monkeypatch.setattr("IPython.display.display", fake)
    return fake


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a kernel with a front end ran the test."""
    monkeypatch.delenv("PARTKIT_STATIC", raising=False)
    monkeypatch.setattr(showing, "_kernel", object)


@pytest.fixture(scope="module")
def chromium_browser() -> Iterator[Browser]:
    """A headless Chromium. For one module only: Playwright's event loop runs in this thread while it is there."""
    path = chromium.find()
    assert path is not None, "there is no Chromium; `python3 -m partkit test` installs one"
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        yield instance
        instance.close()


@pytest.fixture
def show(chromium_browser: Browser) -> Iterator[Callable[..., Page]]:
    """``show(widget, width=400, style="background: #111", reduced_motion="reduce", ...)``: a page with the widget, painted.

    Further arguments are other values for the widget's synced traits. An error in the page fails the test, and so does
    a control in it that has no name or that the keyboard can't reach.
    """
    contexts, errors = [], []

    def open_page(widget: Any, *, width: int = 900, style: str = "", reduced_motion: Any = None, **changes: Any) -> Page:
        contexts.append(chromium_browser.new_context(viewport={"width": width, "height": 700}, reduced_motion=reduced_motion))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_content(html(widget, style=style, **changes))
        page.wait_for_selector(".pk-over[data-painted]")
        page.add_style_tag(content=read("view.css"))  # as if another view had been shown since
        assert page.evaluate(UNNAMED) == []
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
