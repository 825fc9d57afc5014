"""The first notebook as its reader meets it: JupyterLab runs it from top to bottom once, the tests look at the page it leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from partkit.figures.palette import STYLES
from partkit.widgets.showing import WIDGET
from tests.browser.course import NAME, Course, Timeline
from tests.browser.jupyter import Lab
from tests.browser.pixels import count, find

SEND, RECV, COLLECTIVE = (STYLES[kind].light.fill for kind in ("send", "recv", "collective"))
TEXTS = """() => jupyterapp.shell.currentWidget.content.widgets.filter(cell => cell.model.type === "markdown")
    .map(cell => cell.model.sharedModel.getSource())"""
ALIVE = "import ipywidgets.widgets.widget as w; print(len(w._instances))"


pytestmark = pytest.mark.timeout(600)  # the first test runs the whole notebook


@pytest.fixture(scope="module")
def course(lab: Lab, browser: Browser) -> Iterator[Course]:
    """The notebook, run from top to bottom."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    course = Course(lab, context.new_page())
    course.run()
    yield course
    context.close()
    lab.end_kernels()


@pytest.fixture
def ring(course: Course) -> Iterator[Timeline]:
    """The timeline of the ring, as it is when the reader comes to it."""
    timeline = Timeline(course.output("pk.Timeline(ring)"))
    timeline.root.scroll_into_view_if_needed()
    expect(timeline.over).to_have_attribute("data-painted", re.compile(r"[1-9]"))
    yield timeline
    timeline.over.focus()
    for key in ("Escape", "Escape", "Home"):
        course.page.keyboard.press(key)
    course.page.mouse.move(0, 0)


# -- text ------------------------------------------------------------------------------------------------------------


def test_every_cell_ran_and_only_one_raised(course: Course) -> None:
    states = course.page.evaluate("""() => jupyterapp.shell.currentWidget.content.widgets.filter(cell => cell.model.type === "code")
        .map(cell => [cell.model.executionCount, cell.model.outputs.toJSON().some(output => output.output_type === "error")])""")
    assert [count for count, _ in states] == list(range(1, len(states) + 1))
    assert sum(raised for _, raised in states) == 1


def test_the_guess_is_laid_beside_the_run(course: Course) -> None:
    expect(course.output("pk.Prediction")).to_contain_text("your guess: 20 messages")
    expect(course.output("pk.Prediction").locator("input")).to_have_count(0)
    for words in ("20 messages", "24 messages", "too low by 4 messages"):
        expect(course.output("guess.reveal")).to_contain_text(words)


def test_equal_outputs_of_ranks_fold(course: Course) -> None:
    different = course.output("x = torch.full").locator("tr")
    assert [text.split("tensor")[0].strip() for text in different.all_inner_texts()] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    equal = course.output('algorithm="ring"').locator("tr")
    expect(equal).to_have_count(1)
    expect(equal).to_contain_text(re.compile(r"ranks 0-3\s*tensor\(\[1111\., "))


def test_same_as_serial_says_yes_and_no(course: Course) -> None:
    expect(course.output("def parallel(comm, note)")).to_contain_text("✓ same as serial")
    wrong = course.output("def train_wrongly")
    expect(wrong).to_contain_text("✗ not same as serial")
    expect(wrong).to_contain_text("4 times too large")


def test_ranks_that_disagree_are_told_so_and_go_on(course: Course) -> None:
    error = course.output("rank // 2 + 1")
    number = course.cell("rank // 2 + 1").locator(".jp-InputPrompt").inner_text().strip(":")
    for words in ("RanksStuck", f"ranks 0-1: all_reduce #1 of float32[1], sum, reduce_broadcast at In {number}:2", "ranks 2-3: all_reduce #1 of float32[2]"):
        expect(error).to_contain_text(words)
    expect(course.output("# NBVAL_CHECK_OUTPUT\npk.all_reduce(x, comm)")).to_contain_text("ranks 0-3")


# -- the timeline ----------------------------------------------------------------------------------------------------


def test_the_timeline_has_bars_of_every_kind_on_every_rank(ring: Timeline) -> None:
    for color in (SEND, RECV, COLLECTIVE):
        assert min(count(ring.main, color, bands=4)[:3]) > 20, f"{color} is missing on a rank"


def test_keys_zoom_move_and_reset(course: Course, ring: Timeline) -> None:
    whole = ring.settle()
    ring.over.focus()
    pictures = [whole]
    for key in ("+", "ArrowRight", "]"):
        course.page.keyboard.press(key)
        pictures.append(ring.settle())
    assert len(set(pictures)) == 4, "a key changed nothing"
    course.page.keyboard.press("Home")
    assert ring.settle() == whole


def test_the_wheel_belongs_to_the_page_until_the_picture_is_clicked(course: Course, ring: Timeline) -> None:
    course.page.evaluate("document.activeElement.blur()")
    whole = ring.settle()
    ring.over.hover(position={"x": 400, "y": 60})
    course.page.mouse.wheel(0, -1)
    assert ring.settle() == whole
    ring.over.click(position={"x": 400, "y": 3})
    ring.over.hover(position={"x": 400, "y": 60})
    course.page.mouse.wheel(0, -200)
    course.page.wait_for_function("([canvas, whole]) => canvas.toDataURL() !== whole", arg=[ring.main.element_handle(), whole])


def test_pointing_tells_and_clicking_selects(course: Course, ring: Timeline) -> None:
    expect(ring.info).to_be_empty()
    spot = find(ring.main, SEND)
    ring.over.hover(position=spot)
    expect(ring.tip).to_contain_text(re.compile(r"send reduce-scatter \d.*rank \d to rank \d.*8 bytes", re.DOTALL))
    ring.over.click(position=spot)
    expect(ring.info).to_contain_text(re.compile(r"send reduce-scatter \d · rank \d to rank \d · 8 bytes"))
    here = ring.info.inner_text()
    course.page.keyboard.press("m")
    expect(ring.info).to_contain_text("recv reduce-scatter")
    course.page.keyboard.press("m")
    expect(ring.info).to_have_text(here)
    course.page.keyboard.press("Escape")
    expect(ring.info).to_be_empty()


def test_the_table_says_what_the_picture_shows(ring: Timeline) -> None:
    button = ring.root.locator("button[value=t]")
    expect(ring.table).to_be_hidden()
    button.click()
    expect(ring.table.locator("> table caption")).to_have_text("52 events in view, 52 shown")
    expect(ring.table.locator("> table tr")).to_have_count(53)
    button.click()
    expect(ring.table).to_be_hidden()


def test_help_opens_and_closes(course: Course, ring: Timeline) -> None:
    expect(ring.help).to_be_hidden()
    ring.root.locator("button", has_text="?").click()
    expect(ring.help).to_contain_text("zoom to the selected event")
    course.page.keyboard.press("Escape")
    expect(ring.help).to_be_hidden()


# -- the run that is watched -----------------------------------------------------------------------------------------


def test_loss_and_timeline_grow_while_ranks_train(course: Course) -> None:
    growth: list[Any] = course.page.evaluate("growth")
    values, events = ({row[k] for row in growth if row[k]} for k in (0, 1))
    assert len(values) >= 4, f"the curve was painted {len(values)} times while the cell ran"
    assert len(events) >= 4, f"the timeline was painted {len(events)} times while the cell ran"
    assert [row[1] for row in growth] == sorted(row[1] for row in growth)
    assert any("running" in row[2] for row in growth)


def test_the_loss_falls(course: Course) -> None:
    status = course.output("world.start").locator(".partkit-curve .pk-status")
    expect(status).to_contain_text("finished")
    assert float(re.search(r"loss ([\d.]+)", status.inner_text())[1]) < 0.5  # type: ignore[index]


def test_what_is_saved_is_still(course: Course) -> None:
    saved = course.lab.save(course.page, NAME)
    assert "widgets" not in saved["metadata"]
    outputs = [output for cell in saved["cells"] for output in cell.get("outputs", [])]
    assert [list(output["data"]) for output in outputs if WIDGET in output.get("data", {})] == []
    [training] = [cell for cell in saved["cells"] if cell["cell_type"] == "code" and "world.start" in "".join(cell["source"])]
    pictures = [html for html in ("".join(output["data"]["text/html"]) for output in training["outputs"]) if "<figure" in html]
    assert [re.findall(r'alt="(Curve of loss|Timeline of 4 ranks)', html) for html in pictures] == [["Curve of loss"], ["Timeline of 4 ranks"]]
    assert (course.lab.folder / NAME).stat().st_size < 300_000


# -- the reader's own part -------------------------------------------------------------------------------------------


def test_the_exercise_is_open_until_it_is_solved(course: Course) -> None:
    expect(course.output("check_ring(")).to_contain_text("ring all-reduce: not yet")
    text = "\n".join(course.page.evaluate(TEXTS))
    solution = re.search(r"<summary>A solution</summary>\s*```python\n(.*?)```", text, re.DOTALL)
    assert solution is not None
    mine = course.index("def my_all_reduce")
    course.set_source(mine, solution[1])
    for words in ("%ranks 4", "import torch\nx = torch", "def my_all_reduce", "check_ring(", "%ranks stop"):
        course.lab.run(course.page, course.index(words))
    expect(course.output("check_ring(")).to_contain_text("ring all-reduce: solved")


# -- the page --------------------------------------------------------------------------------------------------------


def test_a_change_of_theme_repaints(course: Course, ring: Timeline) -> None:
    light = ring.settle()
    course.lab.command(course.page, "apputils:change-theme", theme="JupyterLab Dark")
    expect(ring.root).to_have_attribute("data-theme", "dark")
    ring.settle()
    assert count(ring.main, SEND) == [0]
    assert min(count(ring.main, STYLES["send"].dark.fill, bands=4)[:3]) > 20
    course.lab.command(course.page, "apputils:change-theme", theme="JupyterLab Light")
    expect(ring.root).to_have_attribute("data-theme", "light")
    assert ring.settle() == light


def test_a_cell_that_runs_twenty_times_leaves_one_widget(course: Course) -> None:
    index = course.index("pk.Timeline(ring)")
    course.lab.run(course.page, index)
    before = int(course.ask(ALIVE))
    for _ in range(20):
        course.lab.run(course.page, index)
    assert int(course.ask(ALIVE)) == before
    expect(course.output("pk.Timeline(ring)").locator(".pk-over")).to_have_attribute("data-painted", "52")
    in_page = "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestCommInfo({}).then(reply => Object.keys(reply.content.comms).length)"
    assert course.page.evaluate(in_page) <= before + 1


def test_nothing_went_wrong_in_the_browser(course: Course) -> None:
    assert course.errors == []


def test_the_stop_button_frees_stuck_ranks(lab: Lab, page: Page) -> None:
    stuck = "%%ranks\nimport time, torch\nprint('here')\nif rank == 0:\n    comm.recv(torch.empty(1), 1)\nelse:\n    time.sleep(1000)"
    name = lab.write("stop.ipynb", "%load_ext partkit\n%ranks 2", stuck, "%%ranks\nrank * 10.0")
    outputs = page.locator(".jp-Notebook .jp-Cell .jp-OutputArea")
    lab.open(page, name)
    lab.run(page, 0)
    lab.start(page, 1)
    expect(outputs.nth(1)).to_contain_text("[1] here", timeout=30_000)
    lab.command(page, "notebook:interrupt-kernel")
    expect(outputs.nth(1)).to_contain_text("KeyboardInterrupt", timeout=15_000)
    # until the cell has ended, a kernel refuses what is sent to it, since an error ends all that waits
    page.wait_for_function("() => jupyterapp.shell.currentWidget.content.widgets[1].model.executionState === 'idle'")
    lab.run(page, 2)
    expect(outputs.nth(2)).to_contain_text(re.compile(r"rank 0\s*0\.0\s*rank 1\s*10\.0"))
