"""Memory and a cluster in a real JupyterLab: a live run fills the one, a click makes simulated ranks run again for the other."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

SETUP = "import torch\nimport partkit as pk\nworld = pk.World(2)"
MEMORY = "memory = pk.MemoryView(world, title='A step')\nmemory"
STEP = """def step(comm):
    model = torch.nn.Linear(100, 50, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    with pk.Memory(comm, model, optimizer):
        with comm.span("forward"):
            loss = model(torch.ones(8, 100)).sum()
        with comm.span("backward"):
            torch.autograd.backward(loss)
        with comm.span("step"):
            optimizer.step()

world.run(step);"""
FULL = """def fill(comm):
    with pk.Memory(comm, cap=1000):
        x = torch.ones(200)
        y = torch.ones(100)

world.run(fill)"""
CLUSTER = """def ring(comm):
    pk.all_reduce(torch.ones(1000), comm, algorithm="ring")

cluster = pk.ClusterView(pk.clusters.H100_NODES, ring, ranks=16)
cluster"""
ASK = "print(cluster.cluster.conditions[0].factor, cluster.after.makespan > cluster.before.makespan)"
END = "memory.close()\nworld.close()"


def test_memory_grows_with_a_live_run_and_a_click_slows_a_link_down(lab: Any, page: Page) -> None:
    name = lab.write("views.ipynb", SETUP, MEMORY, STEP, FULL, CLUSTER, ASK, END)
    lab.open(page, name)
    for cell in range(3):
        lab.run(page, cell)
    memory = page.locator(".pk-seated .partkit-memory")
    expect(memory.locator(".pk-status").first).to_contain_text("2 ranks · finished")
    memory.locator(".pk-over").focus()
    page.keyboard.press("End")
    expect(memory.locator(".pk-info")).to_contain_text("gradients 20 kB, optimizer state 40 kB, parameters 20 kB")
    lab.run(page, 3)
    error = page.locator(".jp-Cell").nth(3).locator(".jp-OutputArea-output").last
    expect(error).to_contain_text("out of memory: ones makes float32[100] of 400 B, but of the 1 kB of the cap only 200 B are left")
    expect(error).to_contain_text("held are 800 B: other 800 B; the largest, and where they were made:")
    expect(error).to_contain_text("float32[200]  Cell In[4], line 3")
    lab.run(page, 4)
    cluster = page.locator(".partkit-cluster").last
    expect(cluster.locator(".pk-status")).to_contain_text("8 x H100 a node, 16 ranks: makespan")
    cluster.locator(".pk-over").focus()
    page.keyboard.press("W")  # the last link of the map: the way out of the second node
    cluster.get_by_role("button", name="Slow down").click()
    expect(cluster.locator(".pk-status")).to_contain_text("with out of ranks 8-15: 4 times as slow")
    expect(cluster.locator(".k-badge-text")).to_have_text("\N{MULTIPLICATION SIGN}4")
    lab.run(page, 5)
    expect(page.locator(".jp-Cell").nth(5).locator(".jp-OutputArea-output")).to_have_text("4.0 True\n")
    cluster.get_by_role("button", name="Undo").click()
    expect(cluster.locator(".k-badge-text")).to_have_count(0)
    page.keyboard.press("s")
    lab.run(page, 6)  # the reader leaves the view: its picture is renewed
    expect(page.locator(".jp-Cell").nth(4).locator("figcaption")).to_contain_text("4 times as slow")
    saved = lab.save(page, name)
    for cell in (1, 4):
        assert [set(output.get("data", {})) for output in saved["cells"][cell]["outputs"]] == [{"text/html", "text/plain"}]
