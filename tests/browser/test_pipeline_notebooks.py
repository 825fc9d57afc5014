"""Notebooks 05 and 06 as their readers meet them: a cut is moved, a guess is typed, a schedule is chosen, built, refused and run, an exercise is solved."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.course import Course, Opened

FIRST, SECOND = "notebooks/05-fill-the-bubble.ipynb", "notebooks/06-zero-bubble-and-beyond.ipynb"
ANSWER = """def my_zb_h1(p, m):
    plan = []
    for s in range(p):
        ahead, lag = min(p - s, m), s
        line = [f"{s}F{i}" for i in range(ahead)]
        for i in range(m):
            line.append(f"{s}I{i}")
            line += [f"{s}W{i - lag}"] if i >= lag else []
            line += [f"{s}F{ahead + i}"] if ahead + i < m else []
        plan.append(line + [f"{s}W{i}" for i in range(max(0, m - lag), m)])
    return plan


labs.check_zb_h1(my_zb_h1)"""

pytestmark = pytest.mark.timeout(600)


def studio_in(course: Course, words: str) -> Locator:
    studio = course.output(words).locator(".partkit-studio")
    expect(studio.locator(".pk-status")).to_contain_text("makespan")
    return studio


def test_05_a_cut_a_guess_and_the_studio_on_live_ranks(opened: Opened) -> None:
    course = opened(FIRST)
    course.run_cells("%load_ext", "letters = torch.tensor", "model = make_model()", "pk.StageMap(")
    stages = course.output("pk.StageMap(").locator(".partkit-stages")
    stages.locator(".pk-over").focus()
    course.page.keyboard.press("ArrowRight")
    expect(stages.locator(".pk-info")).to_contain_text("stage 1 begins at 3 Block: slowest is rank 0")
    assert course.ask("print(stage_map.cut)") == "[3, 4, 6]"
    stages.get_by_role("button", name="Undo").click()
    expect(stages.locator(".pk-status")).to_contain_text("rank 1 is the slowest")

    course.run_cells("%ranks 4", "idle = pk.Prediction")
    course.guess("idle = pk.Prediction", 60)
    course.run_cells("naive = pp.gpipe", "idle.reveal")
    expect(course.output("idle.reveal")).to_contain_text("75 %")

    course.run_cells("studio = pk.ScheduleStudio")
    studio = studio_in(course, "studio = pk.ScheduleStudio")
    studio.locator("select").select_option("zb_h1")
    expect(studio.locator(".pk-status")).to_contain_text("ZB-H1")
    studio.get_by_role("button", name="Clear").click()
    write = studio.get_by_label("Action to place", exact=True)
    write.fill("1B0")
    write.press("Enter")
    expect(studio.locator(".pk-refused")).to_contain_text("1B0 needs 1F0, the forward of stage 1 on micro-batch 0, which has not been placed")
    write.fill("0F0")
    write.press("Enter")
    expect(studio.locator(".pk-refused")).to_have_count(0)
    assert course.ask("print(studio.schedule.ranks[0])") == "(0F0,)"
    studio.locator("select").select_option("one_f_one_b")
    studio.get_by_role("button", name="Run", exact=True).click()
    while course.ask("print(studio._rehearsal._run is None)") == "True":  # what is asked may overtake the click; the test has a time limit
        pass
    assert course.ask("studio._rehearsal._run.wait(); print(studio.measured.size, len(studio.measured.events) > 100)") == "4 True"
    assert course.errors == []


def test_06_a_solution_typed_into_the_exercise(opened: Opened) -> None:
    course = opened(SECOND)
    course.run_cells("%load_ext", "def my_zb_h1", "pk.ScheduleStudio")
    expect(course.output("def my_zb_h1")).to_contain_text("At 7 rank 1 runs 1W0, for which nobody waits")
    place = course.index("def my_zb_h1")
    course.set_source(place, ANSWER)
    course.lab.run(course.page, place)
    expect(course.output("def my_zb_h1")).to_contain_text("ZB-H1: solved")

    studio = studio_in(course, "pk.ScheduleStudio")
    studio.locator(".pk-over").focus()
    course.page.keyboard.press("ArrowRight")
    expect(studio.locator(".pk-info")).not_to_be_empty()
    assert course.errors == []
