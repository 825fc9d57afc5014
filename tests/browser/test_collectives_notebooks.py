"""Notebooks 02 and 03 as their readers meet them: a guess is typed, messages are stepped through and let go, a matrix is asked, sliders are moved."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.course import Course, Opened

SCRATCH, COST = "notebooks/02-collectives-from-scratch.ipynb", "notebooks/03-what-does-it-cost.ipynb"

pytestmark = pytest.mark.timeout(600)


def press(course: Course, view: Locator, *keys: str) -> None:
    view.locator(".pk-over").focus()
    for key in keys:
        course.page.keyboard.press(key)


def test_02_a_ring_is_stepped_through_held_and_let_go(opened: Opened) -> None:
    course = opened(SCRATCH)
    course.run_cells("%load_ext", "%ranks 4", "def flat_broadcast", "def steps(fn, p)", "fewest = pk.Prediction")
    course.guess("fewest = pk.Prediction", 6)
    course.run_cells("fewest.reveal", "def gather_ring")
    expect(course.output("fewest.reveal")).to_contain_text("6 steps")

    stepper = course.output("def gather_ring").locator(".partkit-stepper")
    press(course, stepper, "Home")
    expect(stepper.locator(".pk-info")).to_have_text("Start: nothing sent yet")
    press(course, stepper, "ArrowRight")
    expect(stepper.locator(".pk-info")).to_contain_text(re.compile(r"message 1 of 12: rank \d to rank \d"))
    press(course, stepper, "End")
    expect(stepper.locator(".pk-info")).to_contain_text("message 12 of 12")

    course.run_cells("held = pk.MessageStepper.pause")
    held = course.output("held = pk.MessageStepper.pause")
    expect(held.locator(".pk-status")).to_contain_text("4 messages held")
    held.locator(".pk-holding button").first.click()
    expect(held.locator(".pk-info")).to_contain_text("message 1 of 1")
    assert course.ask("print(world.busy)") == "True"
    course.run_cells("held.run_on()")
    expect(held.locator(".pk-info")).to_contain_text("message 12 of 12")

    course.run_cells("def matrix(fn, title)")
    tree = course.output("def matrix(fn, title)").locator(".partkit-matrix").first
    press(course, tree, "Home")
    expect(tree.locator(".pk-info")).to_contain_text(re.compile(r"rank 0 to rank \d+: \d+ message"))
    assert course.errors == []


def test_03_sliders_move_the_curves_and_a_matrix_shows_the_nodes(opened: Opened) -> None:
    course = opened(COST)
    course.run_cells("%load_ext", "plain = pk.Cluster", 'pk.CostExplorer("all_reduce", ranks=4')
    explorer = course.output('pk.CostExplorer("all_reduce", ranks=4').locator(".partkit-cost")
    expect(explorer.locator(".pk-info")).to_contain_text("model, 4 ranks, 100 kB")
    explorer.get_by_role("slider", name="Ranks").focus()
    course.page.keyboard.press("ArrowRight")
    expect(explorer.locator(".pk-info")).not_to_contain_text("4 ranks")
    explorer.get_by_role("slider", name="Latency").focus()
    before = explorer.locator(".pk-info").inner_text()
    for _ in range(10):
        course.page.keyboard.press("ArrowRight")
    expect(explorer.locator(".pk-info")).not_to_have_text(before)

    course.run_cells("nodes = pk.Cluster(link=slow", 'pk.CommMatrix(traces["hierarchical"]')
    matrix = course.output('pk.CommMatrix(traces["hierarchical"]').locator(".partkit-matrix")
    press(course, matrix, "Home")
    expect(matrix.locator(".pk-info")).to_contain_text("rank 0 to rank")
    assert course.errors == []
