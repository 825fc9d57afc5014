"""The matrix and the explorer in a real JupyterLab: a live run fills the one, a slider makes Python draw the other anew."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

SETUP = "import torch\nimport partkit as pk\nworld = pk.World(2)"
MATRIX = "matrix = pk.CommMatrix(world, title='Who to whom')\nmatrix"
RUN = """def work(comm):
    for _ in range(3):
        with comm.span("step"):
            pk.all_reduce(torch.ones(1000), comm, algorithm="ring")
    return comm.rank

list(world.run(work))"""
EXPLORER = """dots = pk.CostExplorer.measure(world, nbytes=[1000, 100_000], runs=2)
explorer = pk.CostExplorer('all_reduce', dots, nbytes=1000, link=pk.Link(latency=1e-6, bandwidth=1e9))
explorer"""
ASK = "print(explorer.ranks, explorer.chart['ranks'], round(explorer.latency / explorer.fit().latency, 6))"
END = "matrix.close()\nworld.close()"


def test_a_live_matrix_and_a_moved_slider(lab: Any, page: Page) -> None:
    name = lab.write("matrix.ipynb", SETUP, MATRIX, RUN, EXPLORER, ASK, END)
    lab.open(page, name)
    for cell in range(3):
        lab.run(page, cell)
    matrix, explorer = page.locator(".pk-seated .partkit-matrix"), page.locator(".pk-seated .partkit-cost")
    expect(matrix.locator(".pk-status")).to_have_text("everything · 24,000 bytes in 12 messages · 2 ranks · 2 of 2 pairs used · finished")
    matrix.locator("select").select_option("all_reduce")
    matrix.locator(".pk-over").focus()
    page.keyboard.press("Home")
    expect(matrix.locator(".pk-info")).to_contain_text("rank 0 to rank 1: 6 messages, 12,000 bytes")
    lab.run(page, 3)
    expect(explorer.locator(".pk-status")).to_contain_text("measured here")
    slider = explorer.get_by_role("slider", name="Ranks")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(explorer.locator(".pk-info")).to_contain_text("model, 3 ranks, 1 kB")  # from the curves that Python has sent
    expect(explorer.locator(".pk-status")).to_contain_text("more dots at 2 ranks")
    page.keyboard.press("ArrowLeft")
    expect(explorer.locator(".pk-info")).to_contain_text("model, 2 ranks, 1 kB")
    latency = explorer.locator("output").nth(2)
    expect(latency).to_have_text("1 us")  # no machine is so fast
    explorer.get_by_role("button", name="Fit link to dots").click()
    expect(latency).not_to_have_text("1 us")
    lab.run(page, 4)
    expect(page.locator(".jp-Cell").nth(4).locator(".jp-OutputArea-output")).to_have_text("2 2 1.0\n")
    lab.run(page, 5)
    saved = lab.save(page, name)
    for cell in (1, 3):
        assert [set(output.get("data", {})) for output in saved["cells"][cell]["outputs"]] == [{"text/html", "text/plain"}]
