"""JupyterLab itself, as the other browser tests need it."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect


def test_a_cell_runs_and_is_saved(lab: Any, page: Page) -> None:
    name = lab.write("sum.ipynb", "import partkit as pk", "print(pk.Link(latency=1e-6, bandwidth=1e9).seconds(1000))")
    lab.open(page, name)
    lab.run_all(page)
    expect(page.locator(".jp-OutputArea-output").last).to_have_text("2e-06\n")
    saved = lab.save(page, name)
    assert saved["cells"][1]["outputs"][0]["text"] == ["2e-06\n"]
    assert "widgets" not in saved["metadata"]


def test_a_kernel_takes_its_ranks_with_it(lab: Any, page: Page) -> None:
    name = lab.write("ranks.ipynb", "import partkit as pk\nworld = pk.World(2)\nprint(list(world.run(lambda comm: comm.rank)))")
    lab.open(page, name)
    lab.run_all(page)
    expect(page.locator(".jp-OutputArea-output").last).to_have_text("[0, 1]\n")
    lab.end_kernels()
