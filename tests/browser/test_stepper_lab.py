"""Real ranks, stepped from a real JupyterLab: they wait, they are let go, the notebook goes on meanwhile, a picture stays."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

SETUP = """import torch, partkit as pk
world = pk.World(3)
def reduce(comm):
    return pk.all_reduce(torch.arange(3.0) + 10 * comm.rank, comm, algorithm="ring")"""
PAUSE = "stepper = pk.MessageStepper.pause(world, reduce)\nstepper"


def shows(page: Page, cell: int, text: str) -> None:
    expect(page.locator(".jp-Cell").nth(cell).locator(".jp-OutputArea-output").last).to_contain_text(text)


def outputs(saved: Any, cell: int) -> list[set[str]]:
    return [set(output.get("data", {})) for output in saved["cells"][cell]["outputs"]]


def test_ranks_wait_until_a_reader_lets_their_messages_go(lab: Any, page: Page) -> None:
    name = lab.write("held.ipynb", SETUP, PAUSE, "print(len(stepper.waiting), world.busy)", "print(stepper.run.wait()[0].tolist())", "world.close()")
    lab.open(page, name)
    lab.run(page, 0)
    lab.run(page, 1)
    status, buttons = page.locator(".pk-status"), page.locator(".pk-holding button")
    expect(status).to_contain_text("3 messages held")
    lab.run(page, 2)  # the kernel is free
    shows(page, 2, "3 True")
    buttons.nth(1).click()  # rank 1's message, which rank 2 takes
    expect(page.locator(".pk-info")).to_contain_text("message 1 of 1: rank 1 to rank 2")
    page.locator(".pk-over").focus()
    page.keyboard.press("ArrowRight")  # the first that waits
    expect(page.locator(".pk-info")).to_contain_text("message 2 of 2: rank 0 to rank 1")
    page.keyboard.press("r")
    expect(page.locator(".pk-seated .pk-status")).to_contain_text("finished")
    expect(page.locator(".pk-seated .pk-info")).to_contain_text("message 12 of 12")
    lab.run(page, 3)
    shows(page, 3, "[30.0, 33.0, 36.0]")
    assert outputs(lab.save(page, name), 1) == [{"text/html", "text/plain"}] * 2  # what ranks print, and the picture
    page.locator(".pk-over").focus()
    page.keyboard.press("Home")  # it can still be stepped through
    expect(page.locator(".pk-info")).to_have_text("Start: nothing sent yet")
    lab.run(page, 4)


def test_a_held_run_can_be_stopped_and_the_ranks_go_on_with_the_next(lab: Any, page: Page) -> None:
    name = lab.write("stopped.ipynb", SETUP, PAUSE, "print(world.run(reduce)[2].tolist())", "world.close()")
    lab.open(page, name)
    lab.run(page, 0)
    lab.run(page, 1)
    expect(page.locator(".pk-status")).to_contain_text("3 messages held")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".pk-seated .pk-status")).to_contain_text("finished")
    lab.run(page, 2)
    shows(page, 2, "[30.0, 33.0, 36.0]")
    lab.run(page, 3)
