"""What a session in JupyterLab costs: the live view while a run goes on, and the memory of server, kernel and four ranks.

    python -m tests.browser.measure_session

The same training runs in turn with tracing off, with it on, and on with a live timeline beside it, in one kernel; medians and
ratios of the runs' wall times. Memory is proportional (PSS), after notebook 01 has run from top to bottom in the browser.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from partkit.commands import browser as chromium
from tests.browser import jupyter as server

ROUNDS = """import partkit as pk, statistics, time, torch
def train(comm, steps=150):
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(128, 64)
    for step in range(steps):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            parameter.grad = pk.all_reduce(parameter.grad, comm, "mean")
        optimizer.step()
quiet, traced = pk.World(4, trace=False), pk.World(4)
times = {"tracing off": [], "tracing on": [], "live view": []}
def timed(name, world):
    start = time.perf_counter()
    world.run(train)
    times[name].append(time.perf_counter() - start)
for world in (quiet, traced):
    world.run(train, steps=2)"""
ROUND = """timed("tracing off", quiet)
timed("tracing on", traced)"""
LIVE = """view = pk.Timeline(traced)
view"""
LIVE_ROUND = """timed("live view", traced)"""
TABLE = """base, on, live = (statistics.median(times[name]) for name in times)
print(f"{base:.3f} {on:.3f} {live:.3f}")"""


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder, server.jupyter_lab(Path(folder)) as lab, sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium.find(), args=list(chromium.FLAGS))
        live_view(lab, chrome.new_page(viewport={"width": 1280, "height": 900}))
        lab.end_kernels()
        memory(lab, chrome.new_page(viewport={"width": 1280, "height": 900}))
        chrome.close()


def live_view(lab: server.Lab, page: Page) -> None:
    """Wall times of the same run, and their ratios."""
    cells = [ROUNDS]
    for _ in range(7):
        cells += [ROUND, LIVE, LIVE_ROUND, "view.close()"]
    lab.open(page, lab.write("cost.ipynb", *cells, TABLE))
    lab.run_all(page, 400)
    off, on, live = map(float, page.locator(".jp-OutputArea-output").last.inner_text().split())
    print(f"150 training steps on 4 ranks, medians of 7: tracing off {off:.2f} s, on {on:.2f} s, with a live timeline {live:.2f} s")
    print(f"tracing on / off:    {on / off:.3f}   target at most 1.03")
    print(f"live view / off:     {live / off:.3f}   target at most 1.10", flush=True)


def memory(lab: server.Lab, page: Page) -> None:
    """PSS of everything that a session on Binder would hold."""
    source = Path(__file__).parents[2] / "notebooks" / "01-first-four-ranks.ipynb"
    (lab.folder / "tour.ipynb").write_text(source.read_text(encoding="utf-8").replace('"%ranks stop"', '"%ranks"'), encoding="utf-8")
    lab.open(page, "tour.ipynb")
    lab.run_all(page, 400)
    family = [lab.process, *lab.process.children(recursive=True)]
    kernel = lab.kernels()
    sizes = {process.pid: process.memory_full_info().pss / 1e6 for process in family if process.is_running()}
    ranks = sum(size for pid, size in sizes.items() if pid != lab.process.pid and pid not in {k.pid for k in kernel})
    print(f"memory (PSS), MB: server {sizes[lab.process.pid]:.0f}, kernel {sum(sizes[k.pid] for k in kernel):.0f}, fork server and 4 ranks {ranks:.0f}")
    print(f"together {sum(sizes.values()):.0f} MB   target at most 1000", flush=True)


if __name__ == "__main__":
    main()
