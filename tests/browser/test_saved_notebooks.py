"""What is left of a notebook when its kernel is gone: opened again, trusted or not, exported, read without JavaScript."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from partkit.widgets.showing import WIDGET
from tests.browser.jupyter import Lab

SETUP = """import partkit as pk
from partkit.tracing import Event, Trace
ring = [Event(rank, kind, step, step + 0.8, (rank + hop) % 4, 1024, tag=f"step {step}")
        for step in range(200) for rank in range(4) for kind, hop in (("send", 1), ("recv", -1))]
loss = [Event(rank, "metric", step, step, tag="loss", value=2 / (1 + step)) for step in range(200) for rank in range(4)]
trace = Trace.from_events(ring + loss, clock="planned")"""
LIVE = """world = pk.World(2)
run = world.start(lambda comm: [comm.log("loss", step) for step in range(20)] and comm.rank)
display(pk.Timeline(run), pk.Curve(run))
print(list(run.wait()))
world.close()"""
CELLS = (SETUP, *["pk.Timeline(trace)"] * 5, *["pk.Curve(trace)"] * 3, LIVE)
VIEWS = 10
LOADED = "images => images.map(image => image.complete && image.naturalWidth > 100)"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def saved(lab: Lab, browser: Browser) -> Iterator[Path]:
    """A notebook with ten views, run and saved in JupyterLab, its kernel gone."""
    context = browser.new_context()
    page = context.new_page()
    name = lab.write("ten.ipynb", *CELLS)
    lab.open(page, name)
    lab.run_all(page)
    expect(page.locator("figure.partkit-figure")).to_have_count(VIEWS, timeout=30_000)
    lab.save(page, name)
    context.close()
    lab.end_kernels()
    yield lab.folder / name


@pytest.fixture
def show(lab: Lab, page: Page) -> Callable[[str], Page]:
    """Open a notebook without giving it a kernel."""

    def open_without_kernel(name: str) -> Page:
        page.goto(f"{lab.url}/lab?reset&token={lab.token}")
        page.wait_for_function("() => window.jupyterapp?.shell.currentWidget")
        page.evaluate(
            "path => jupyterapp.commands.execute('docmanager:open', { path, kernelPreference: { shouldStart: false, canStart: false } }).then(() => null)", name
        )
        page.wait_for_function("path => jupyterapp.shell.currentWidget?.context?.path === path && jupyterapp.shell.currentWidget.context.isReady", arg=name)
        expect(page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(len(CELLS))
        assert page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session === null")
        return page

    return open_without_kernel


def bundles(path: Path) -> list[dict[str, Any]]:
    """The outputs that are no stream."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [output["data"] for cell in notebook["cells"] for output in cell.get("outputs", []) if "data" in output]


def is_trusted(page: Page) -> bool:
    answer: bool = page.evaluate("() => [...jupyterapp.shell.currentWidget.content.widgets].filter(c => c.model.type === 'code').every(c => c.model.trusted)")
    return answer


def check_pictures(page: Page) -> None:
    """Ten pictures, drawn, each with its numbers as a table; nothing that says it could not be shown."""
    pictures = page.locator("figure.partkit-figure img")
    expect(pictures).to_have_count(VIEWS)
    pictures.last.scroll_into_view_if_needed()
    page.wait_for_function(f"() => ({LOADED})([...document.querySelectorAll('figure.partkit-figure img')]).every(Boolean)")
    assert all(re.match("(Timeline|Curve) of ", picture.get_attribute("alt") or "") for picture in pictures.all())
    table = page.locator("figure.partkit-figure details").first
    expect(table.locator("table").first).to_be_hidden()
    table.locator("summary").click()
    expect(table.locator("table").first).to_be_visible()
    expect(page.locator("body")).not_to_contain_text("Error displaying widget")
    expect(page.locator(".pk-over")).to_have_count(0)


def test_case_W04_ten_views_are_small_and_no_widget_is_stored(saved: Path) -> None:
    assert saved.stat().st_size < 1_000_000
    assert "widgets" not in json.loads(saved.read_text(encoding="utf-8"))["metadata"]
    assert [sorted(data) for data in bundles(saved) if WIDGET in data] == []
    assert sum("<figure" in "".join(data.get("text/html", "")) for data in bundles(saved)) == VIEWS


def test_case_W01_opened_again_without_a_kernel(saved: Path, show: Callable[[str], Page]) -> None:
    page = show(saved.name)
    assert is_trusted(page)
    check_pictures(page)


def test_case_W02_from_somebody_else_untrusted(saved: Path, lab: Lab, show: Callable[[str], Page]) -> None:
    notebook = json.loads(saved.read_text(encoding="utf-8"))
    notebook["cells"][0]["source"] += ["\n# changed by somebody else"]
    (lab.folder / "foreign.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    page = show("foreign.ipynb")
    assert not is_trusted(page)
    check_pictures(page)


@pytest.mark.parametrize("javascript", [True, False], ids=["", "without JavaScript"])
def test_case_W01_exported_and_read_without_a_network(saved: Path, new_page: Callable[..., Page], javascript: bool) -> None:
    target = saved.with_suffix(".html")
    if not target.exists():
        subprocess.run([sys.executable, "-m", "nbconvert", "--to", "html", str(saved)], check=True, capture_output=True)
    page = new_page(offline=True, java_script_enabled=javascript)
    page.goto(target.as_uri())
    if javascript:
        check_pictures(page)
    else:
        expect(page.locator("figure.partkit-figure img")).to_have_count(VIEWS)
        assert all((picture.bounding_box() or {"width": 0})["width"] > 100 for picture in page.locator("figure.partkit-figure img").all())


def test_case_W06_what_a_background_run_prints_stays_in_its_cell(lab: Lab, page: Page) -> None:
    gate = lab.folder / "gate"
    start = f"%%ranks --bg\nimport os, time\nprint('before')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\nfor k in range(4): print('after', k)"
    name = lab.write(
        "background.ipynb", "%load_ext partkit\n%ranks 2", start, "1 + 1", f"print(run.done)\nopen({str(gate)!r}, 'w').close()", "list(run.wait())"
    )
    lab.open(page, name)
    outputs = page.locator(".jp-Notebook .jp-Cell .jp-OutputArea")
    for index in (0, 1):
        lab.run(page, index)
    expect(outputs.nth(1)).to_contain_text("[1] before")
    expect(outputs.nth(1)).to_contain_text("(running)")
    for index in (2, 3):
        lab.run(page, index)
    expect(outputs.nth(1)).to_contain_text("[1] after 3")
    expect(outputs.nth(1)).not_to_contain_text("(running)")
    lab.run(page, 4)
    assert outputs.nth(2).locator(".jp-OutputArea-output").all_inner_texts() == ["2"]
    assert outputs.nth(3).locator(".jp-OutputArea-output").all_inner_texts() == ["False\n"]
    lines = outputs.nth(1).inner_text().split("\n")
    assert [line for line in lines if line.startswith("[")] == [f"[{rank}] {text}" for rank in (0, 1) for text in ("before", *(f"after {k}" for k in range(4)))]
    stored = lab.save(page, name)["cells"][1]["outputs"]
    assert "[1] after 3" in "".join(stored[0]["data"]["text/plain"])


def test_case_W07_a_flood_is_cut_and_the_page_lives(lab: Lab, page: Page) -> None:
    flood = "%%ranks\nfor k in range(10_000): print('line', k)"
    name = lab.write("flood.ipynb", "%load_ext partkit\n%ranks 4", flood, "%%ranks\nrank")
    lab.open(page, name)
    lab.run_all(page)
    output = page.locator(".jp-Notebook .jp-Cell .jp-OutputArea").nth(1)
    text = output.inner_text()
    assert text.count("9,850 lines not shown") == 4
    assert all(f"[{rank}] line {k}\n" in f"{text}\n" for rank in range(4) for k in (0, 99, 9950, 9999))
    assert text.count("\n") < 4 * 160
    assert (output.bounding_box() or {"height": 1e9})["height"] < 600, "long output scrolls"
    expect(page.locator(".jp-Notebook .jp-Cell .jp-OutputArea").nth(2)).to_contain_text("rank 3")
    lab.save(page, name)
    assert (lab.folder / name).stat().st_size < 200_000
