"""The timeline in a real JupyterLab: what is on the screen, what is saved, what is left after reruns."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

SETUP = "import partkit as pk\nfrom partkit.tracing import Event, Trace\nevents = [Event(0, 'send', 0, 1, 1, 8), Event(1, 'recv', 0, 1, 0, 8)]"
SHOW = "timeline = pk.Timeline(Trace.from_events(events, clock='planned'))\ntimeline"
LIVE = """import threading
from partkit.tracing import Recorder
live, go = Trace(2), threading.Event()
def fill():
    recorder = Recorder(0)
    recorder.add("compute", 0.0, 1.0, tag="forward")
    live.append(recorder.drain())
    go.wait()
    live.finished.set()
threading.Thread(target=fill).start()
pk.Timeline(live)"""
SLOW = """import IPython.display as front
from pathlib import Path
display_at_once = front.display
def display_slowly(*arguments, **options):
    handle = display_at_once(*arguments, **options)
    while not Path("drawn").exists():  # the browser is faster than this kernel
        pass
    go.set()
    while timeline.meta["live"]:  # and the run is over before the kernel knows where the view is
        pass
    return handle
front.display = display_slowly"""
COUNT = "import ipywidgets.widgets.widget as w\nprint(sum(isinstance(x, pk.Timeline) for x in w._instances.values()), 'open')"


def outputs(saved: Any, cell: int) -> list[set[str]]:
    return [set(output.get("data", {})) for output in saved["cells"][cell]["outputs"]]


def test_a_finished_trace_can_be_touched_and_is_saved_as_a_picture(lab: Any, page: Page) -> None:
    name = lab.write("finished.ipynb", SETUP, SHOW, "print(timeline.selected_event and timeline.selected_event.kind)")
    lab.open(page, name)
    lab.run(page, 0)
    lab.run(page, 1)
    expect(page.locator(".pk-seated .pk-over[data-painted='2']")).to_be_visible()
    assert outputs(lab.save(page, name), 1) == [{"text/html", "text/plain"}]
    page.locator(".pk-over").click(position={"x": 300, "y": 15})
    expect(page.locator(".pk-info")).to_contain_text("rank 0 to rank 1")
    for _ in range(20):  # the front end sends one change at a time: what was pointed at, then what was clicked, perhaps after the cell
        lab.run(page, 2)
        if page.locator(".jp-OutputArea-output").last.inner_text().strip() == "send":
            break
    expect(page.locator(".jp-OutputArea-output").last).to_have_text("send\n")
    lab.run(page, 1)  # again: the old view goes, the new one takes its seat
    expect(page.locator(".pk-seated .pk-over[data-painted='2']")).to_have_count(1)
    lab.save(page, name)  # an unsaved notebook would not let the page go
    lab.end_kernels()
    lab.open(page, name)
    expect(page.locator("figure.partkit-figure img")).to_be_visible()  # without its kernel's widget: the picture
    expect(page.locator("body")).not_to_contain_text("Error displaying widget")


def test_a_live_run_ends_as_a_picture_that_can_still_be_touched(lab: Any, page: Page) -> None:
    name = lab.write("live.ipynb", SETUP, LIVE, "go.set()")
    lab.open(page, name)
    lab.run(page, 0)
    lab.run(page, 1)
    expect(page.locator(".pk-over[data-painted='1']")).to_be_visible()
    expect(page.locator(".pk-status")).to_contain_text("running")
    lab.run(page, 2)
    expect(page.locator(".pk-seated .pk-status")).to_contain_text("finished")
    assert outputs(lab.save(page, name), 1) == [{"text/html", "text/plain"}]
    page.locator(".pk-over").focus()
    page.keyboard.press("n")
    expect(page.locator(".pk-info")).to_contain_text("compute forward")


def test_a_run_that_ends_while_its_view_is_being_shown_ends_as_a_picture_too(lab: Any, page: Page) -> None:
    name = lab.write("race.ipynb", SETUP, LIVE.replace("pk.Timeline", "timeline = pk.Timeline") + "\n" + SLOW, "timeline")
    lab.open(page, name)
    lab.run(page, 0)
    lab.run(page, 1)
    lab.start(page, 2)
    expect(page.locator(".pk-over[data-painted='1']")).to_be_visible()
    (lab.folder / "drawn").touch()
    expect(page.locator(".pk-seated .pk-status")).to_contain_text("finished")
    assert outputs(lab.save(page, name), 2) == [{"text/html", "text/plain"}]


def test_reruns_of_a_cell_leave_one_widget(lab: Any, page: Page) -> None:
    name = lab.write("rerun.ipynb", SETUP, SHOW, COUNT)
    lab.open(page, name)
    lab.run(page, 0)
    for _ in range(4):
        lab.run(page, 1)
        expect(page.locator(".pk-seated .pk-over")).to_have_count(1)
    for _ in range(20):  # the browser looks every two seconds whether a view's place is gone
        lab.run(page, 2)
        if page.locator(".jp-Cell").nth(2).locator(".jp-OutputArea-output").inner_text().strip() == "1 open":
            break
        page.wait_for_timeout(500)
    expect(page.locator(".jp-Cell").nth(2).locator(".jp-OutputArea-output")).to_have_text("1 open\n")
