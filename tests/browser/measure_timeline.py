"""How fast the timeline is in a real JupyterLab: first pictures, frames and messages while events stream in.

    python -m tests.browser.measure_timeline

Times are from the moment when Python starts to build the widget to the moment when the browser has drawn all bars; of a long trace
first from a sketch, which looks the same (`partkit.figures.sketch`), then with all details. Machines differ; the targets are in the
last column. A widget that shows nothing is measured beside: what a kernel, a server and a browser take for any of them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Page, sync_playwright

from partkit.commands import browser as chromium
from tests.browser import jupyter as server

EMPTY_WIDGET = 1
"""So many bars."""
TARGETS = {EMPTY_WIDGET: "(a widget that shows nothing, for comparison)", 1_000: "(a small one, for comparison)", 100_000: "0.2", 1_000_000: "0.4"}
WATCH = """() => { window.painted = {}; window.whole = {}; const look = () => {
    for (const c of document.querySelectorAll(".pk-over")) { const n = Number(c.dataset.painted), now = Date.now() / 1000;
        if (n) { painted[n] ??= now; if (c.dataset.sketch === "false") whole[n] ??= now; } }
    requestAnimationFrame(look); }; look(); }"""
SETUP = """import sys, threading, time; sys.path.insert(0, {root!r})
import partkit as pk
from partkit.figures.encoding import Encoder
from partkit.tracing import Batch, Trace
from tests.widgets.demo_traces import SITES, STRINGS, busy, busy_rows
import anywidget
class Empty(anywidget.AnyWidget):
    _esm = "export default {{ render({{ el }}) {{ el.innerHTML = '<canvas class=pk-over data-painted=1 data-sketch=false></canvas>'; }} }}"
per_event = len(Encoder(busy(100_000)).encode()) / 100_000
warm = pk.Timeline(busy(100)); warm"""
FIRST = """trace = busy({n})
start = time.time(); view = pk.Timeline(trace); print("start", start, per_event); view"""
EMPTY = """start = time.time(); view = Empty(); print("start", start, per_event); view"""
STREAM = """trace, sent = busy({base}), []
trace.finished.clear()
def fill(rate=10_000, seconds=5, ticks=50):
    start = time.monotonic()
    for tick in range(seconds * ticks):
        for rows in busy_rows(rate // ticks, 8, first={base} + tick * rate // ticks):
            trace.append(Batch(STRINGS, rows, SITES) if {base} + tick == 0 else Batch([], rows, []))
        time.sleep(max(0, start + (tick + 1) / ticks - time.monotonic()))
    trace.finished.set()
view = pk.Timeline(trace)
send = view.comm.send
view.comm.send = lambda *a, **k: (sent.append(time.time()), send(*a, **k))[1]
threading.Thread(target=fill).start()
view"""


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder, server.jupyter_lab(Path(folder)) as lab, sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium.find(), args=list(chromium.FLAGS))
        measure(lab, chrome.new_page(viewport={"width": 1280, "height": 900}))
        chrome.close()


def measure(lab: server.Lab, page: Page) -> None:
    """All measurements in one notebook's kernel."""
    sizes = [size for size in TARGETS for _ in range(3)]
    root = str(Path(__file__).parents[2])
    lab.open(
        page,
        lab.write(
            "measure.ipynb",
            SETUP.format(root=root),
            *(EMPTY if n == EMPTY_WIDGET else FIRST.format(n=n) for n in sizes),
            STREAM.format(base=0),
            STREAM.format(base=100_000),
        ),
    )
    page.evaluate(WATCH)
    run(lab, page, 0)
    page.wait_for_selector(".pk-over[data-painted='100']")
    page.wait_for_timeout(1500)
    first: dict[int, list[float]] = {}
    everything: dict[int, list[float]] = {}
    for cell, n in enumerate(sizes, start=1):
        page.evaluate("n => { delete painted[n]; delete whole[n]; for (const c of document.querySelectorAll('.pk-over')) c.dataset.painted = 0; }", n)
        run(lab, page, cell)
        start, per_event = map(float, page.locator(".jp-Cell").nth(cell).locator(".jp-OutputArea-output").first.inner_text().split()[1:])
        page.wait_for_function("n => n in whole", arg=n)
        for times, name in ((first, "painted"), (everything, "whole")):
            times.setdefault(n, []).append(page.evaluate(f"n => {name}[n]", n) - start)
        page.wait_for_timeout(4000)
    print(f"{'what':<58}{'measured':>22}   target")
    for n, seconds in first.items():
        report(
            f"first picture of {n:,} bars, s (median, min-max of {len(seconds)})",
            f"{median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})",
            TARGETS[n],
        )
        report("    with all details, s", f"{median(everything[n]):.2f} ({min(everything[n]):.2f}-{max(everything[n]):.2f})", "")
    report("bytes an event", f"{per_event:.2f}", "about 10")
    for cell, base in ((len(sizes) + 1, 0), (len(sizes) + 2, 100_000)):
        frames, messages, gap = stream(lab, page, cell)
        report(f"frames/s, 10,000 events/s on top of {base:,}", f"{frames:.1f}", "30")
        report("    messages/s", f"{messages:.1f}", "at most 20")
        report("    longest gap between frames, ms", f"{gap:.0f}", "")


def run(lab: server.Lab, page: Page, cell: int) -> None:
    """Run one cell; returns when it is done."""
    page.evaluate("i => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; }", cell)
    lab.command(page, "notebook:run-cell")
    page.wait_for_function(
        "i => { const m = jupyterapp.shell.currentWidget.content.widgets[i].model; return m.executionCount !== null && m.executionState !== 'running'; }",
        arg=cell,
    )


def stream(lab: server.Lab, page: Page, cell: int) -> tuple[float, float, float]:
    """Frames and messages a second in the middle three seconds of five, and the longest time without a frame."""
    run(lab, page, cell)
    page.wait_for_timeout(1000)
    frames, gap = page.evaluate("""async () => {
        const over = [...document.querySelectorAll(".pk-over")].at(-1), first = Number(over.dataset.frames), begin = performance.now();
        let last = first, at = begin, gap = 0;
        while (performance.now() - begin < 3000) {
            await new Promise(requestAnimationFrame);
            if (Number(over.dataset.frames) > last) { last = Number(over.dataset.frames); gap = Math.max(gap, performance.now() - at); at = performance.now(); }
        }
        return [(last - first) / (performance.now() - begin) * 1000, gap];
    }""")
    page.wait_for_timeout(3000)
    messages: Any = page.evaluate("""async () => {
        const future = jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code: "print(len(sent) / 5)" });
        return await new Promise((done) => { future.onIOPub = (m) => { if (m.header.msg_type === "stream") done(Number(m.content.text)); }; });
    }""")
    return frames, messages, gap


def report(what: str, measured: str, target: str) -> None:
    """One line of the table."""
    print(f"{what:<58}{measured:>22}   {target}", flush=True)


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"({time.monotonic() - started:.0f} s)", file=sys.stderr)
