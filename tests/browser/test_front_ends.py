"""The same notebook in Notebook 7 and in Voila: ranks run, the timeline is painted, what stays is a picture.

VS Code runs its widgets in a page of its own, out of reach of a test here. What it needs is checked instead: a script that loads
nothing, colours from its variables, and a still twin beside every widget for when it shows none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from partkit.figures.palette import STYLES
from partkit.tracing import Event, Trace
from partkit.widgets import showing
from partkit.widgets.curve import Curve
from partkit.widgets.showing import WIDGET
from partkit.widgets.timeline import Timeline
from tests.browser.jupyter import Notebook7, Server, Voila, notebook_7, voila
from tests.browser.pixels import count, picture
from tests.widgets.fake_model import page as page_of

CELLS = (
    "import torch\nimport partkit as pk\nworld = pk.World(2)",
    """def step(comm):
    for k in range(3):
        comm.log("loss", 1 / (1 + k))
        x = pk.all_reduce(torch.ones(4), comm, algorithm="ring")
    return x.sum().item()""",
    "print(*world.run(step))",
    "pk.Timeline(world.trace)",
    "pk.Curve(world.trace)",
)
SEND = STYLES["send"].light.fill

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook7]:
    with notebook_7(tmp_path_factory.mktemp("notebook")) as server:
        server.write("ranks.ipynb", *CELLS)
        yield server


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Voila]:
    folder = tmp_path_factory.mktemp("voila")
    Server("", "", folder, None).write("ranks.ipynb", *CELLS)  # type: ignore[arg-type]
    with voila(folder) as server:
        yield server


def check_views(page: Page) -> None:
    """Both views are painted, and the timeline obeys."""
    timeline = page.locator(".partkit-timeline")
    expect(page.locator(".partkit-curve .pk-over")).to_have_attribute("data-painted", "3", timeout=30_000)
    expect(timeline.locator(".pk-over")).to_have_attribute("data-painted", re.compile("[1-9]"))
    main = timeline.locator("canvas").first
    assert count(main, SEND)[0] > 100
    before = picture(main)
    timeline.locator("button[value='+']").click()
    page.wait_for_function("([canvas, before]) => canvas.toDataURL() !== before", arg=[main.element_handle(), before])
    timeline.locator("button", has_text="Table").click()
    expect(timeline.locator(".pk-table")).to_contain_text("events in view")


def test_notebook_7(notebook: Notebook7, page: Page) -> None:
    notebook.open(page, "ranks.ipynb")
    notebook.run_all(page)
    expect(page.locator(".jp-OutputArea-output").first).to_have_text("8.0 8.0\n")
    expect(page.locator(".pk-seated .pk-over")).to_have_count(2, timeout=30_000)
    check_views(page)
    saved = notebook.save(page, "ranks.ipynb")
    outputs = [output["data"] for cell in saved["cells"] for output in cell["outputs"] if "data" in output]
    assert [sorted(data) for data in outputs] == [["text/html", "text/plain"]] * 2
    notebook.end_kernels()


def test_voila(dashboard: Voila, page: Page) -> None:
    page.goto(f"{dashboard.url}/voila/render/ranks.ipynb?token={dashboard.token}")
    expect(page.locator("body")).to_contain_text("8.0 8.0", timeout=90_000)
    expect(page.locator("body")).not_to_contain_text("all_reduce(torch.ones")
    expect(page.locator("body")).not_to_contain_text("Error displaying widget")
    pictures = page.locator("figure.partkit-figure img, .partkit-view canvas")
    expect(pictures.first).to_be_visible()
    dashboard.end_kernels()


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """As in a kernel with a front end."""
    monkeypatch.delenv("PARTKIT_STATIC")
    monkeypatch.setattr(showing, "_kernel", object)
    trace = Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="forward"), Event(0, "metric", 1.0, 1.0, tag="loss", value=1.0)], clock="planned")
    views = [Timeline(trace), Curve(trace)]
    yield views
    for view in views:
        view.close()


def test_vs_code_finds_what_it_needs(views: list[Any], new_page: Callable[..., Page]) -> None:
    for view in views:
        bundle = view._repr_mimebundle_()
        assert sorted(bundle) == [WIDGET, "text/html", "text/plain"], "a still twin in the same output"
        assert "<img" in bundle["text/html"]
        assert not re.search(r"https?://|\bimport\b", view._esm.replace("http://www.w3.org/", "")), "its script loads nothing"
        dark = "--vscode-editor-background:#1e1e1e;--vscode-editor-foreground:#d4d4d4"
        page = new_page()
        page.set_content(page_of(view, style=dark))
        root = page.locator(".partkit-view")
        expect(root).to_have_attribute("data-theme", "dark")
        assert count(root.locator("canvas").first, "#1e1e1e")[0] > 1000


def test_no_file_of_a_widget_names_an_address() -> None:
    static = Path(showing.__file__).parent / "static"
    assert [path.name for path in static.iterdir() if re.search(r"https?://(?!www\.w3\.org/)", path.read_text(encoding="utf-8"))] == []
