"""The studio without a kernel: what it accepts, sends and stores; and in a browser: what a reader can do by hand, by keys, by drag."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import partkit as pk
from partkit.figures.palette import PAGE, Theme, contrast
from partkit.figures.studio_look import look, narrow
from partkit.figures.studio_measured import MeasuredEncoder
from partkit.pipeline_parallel import make
from partkit.widgets.schedule_studio import ScheduleStudio
from partkit.widgets.showing import WIDGET
from tests.browser.pixels import count, find
from tests.widgets.fake_display import Display

DARK = "--jp-layout-color0: #111111; --jp-ui-font-color0: #e6e6e6; background: #111111"
OVER = ".pk-over"
Show = Callable[..., Page]


def wish(studio: ScheduleStudio, what: str, **more: Any) -> None:
    """What a browser would send."""
    studio._hear({"type": "do", "what": what, **more})


# -- without a browser -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: ScheduleStudio("pipe"), "there is no schedule 'pipe'"),
        (lambda: ScheduleStudio(ranks=20), "ranks=20: a studio has 1 to 16 ranks"),
        (lambda: ScheduleStudio("gpipe").run(), r"run\(\): there is nothing to run it on; make the studio with world=pk.World\(4\)"),
    ],
)
def test_refusals(make_it: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_it()


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [("gpipe", 2, "the world has 3 ranks, the schedule 2; set ranks to 3"), (None, None, "48 actions are left to place; 0F0 is one")],
)
def test_what_does_not_fit_the_world_is_not_run(name: str | None, ranks: int | None, words: str) -> None:
    with pk.SimulatedWorld(3) as world:
        studio = ScheduleStudio(name, ranks=ranks, world=world)
        with pytest.raises(ValueError, match=words):
            studio.run()
        assert not studio.chart["run"]
        studio.close()


def test_a_closed_world_is_told_with_the_way_on() -> None:
    with pk.SimulatedWorld(2) as world:
        studio = ScheduleStudio("gpipe", microbatches=2, world=world)
    with pytest.raises(ValueError, match=r"its world is closed; start ranks \(%ranks 2\) and run the cell of the studio again"):
        studio.run()
    studio.close()


def test_wishes_of_a_reader_are_moves() -> None:
    studio = ScheduleStudio(ranks=2, microbatches=1)
    for name in ("0F0", "1F0"):
        wish(studio, "place", action=name)
    wish(studio, "next", rank=1, kind="B")
    wish(studio, "place", action="0B0", rank=0)
    assert studio.name == "GPipe" and (studio.said["text"], studio.said["refused"]) == ("", False)
    wish(studio, "remove", action="0B0")
    wish(studio, "undo")
    wish(studio, "split", on=True)
    wish(studio, "set", key="microbatches", at=1)
    wish(studio, "choose", name="zb_h1")
    assert studio.schedule == make("zb_h1", 2, 2)
    wish(studio, "why", rank=1, time=0.5)
    assert studio.said["text"].startswith("Rank 1 waits")
    studio.close()


def test_a_refused_wish_is_an_answer() -> None:
    studio = ScheduleStudio("gpipe", ranks=2, microbatches=2)
    wishes: list[tuple[str, dict[str, Any], str]] = [
        ("place", {"action": "0F0"}, "on the board already"),
        ("place", {"action": "nonsense"}, "is no action"),
        ("move", {"action": "0B0", "to": 0, "rank": 0}, "comes later on the same rank"),
        ("set", {"key": "memory_cap", "at": 0}, "may keep 1"),
        ("run", {}, "nothing to run it on"),
    ]
    for what, more, words in wishes:
        wish(studio, what, **more)
        assert studio.said["refused"] and words in studio.said["text"], what
    assert studio.schedule == make("gpipe", 2, 2)
    studio.close()


def test_a_refused_slider_goes_back() -> None:
    studio = ScheduleStudio("chimera", ranks=4)
    wish(studio, "set", key="ranks", at=1)
    assert studio.said["refused"] and studio.chart["controls"]["ranks"] == [2, "4"]
    studio.close()


def test_a_run_is_laid_over_its_plan_until_the_board_changes() -> None:
    with pk.SimulatedWorld(2, pk.Cluster(link=pk.Link(0.5, 1e12))) as world:
        studio = ScheduleStudio("gpipe", microbatches=2, world=world)
        assert studio.measured is None and studio.chart["run"]
        wish(studio, "run")
        assert studio.measured is world.trace and studio.chart["unit"] == 1.0 and studio.chart["where"] == "2 simulated ranks"
        assert studio.chart["table"][2][:3] == ("the same on 2 simulated ranks", "1", "10")
        studio.change(forward=2.0)
        assert studio.measured is None and studio.chart["unit"] == 0.0
        studio.undo()
        assert studio.measured is world.trace
        studio.close()


def test_the_run_goes_on_while_the_notebook_does(live_world: Callable[[int], pk.World]) -> None:
    world = live_world(2)
    studio = ScheduleStudio("one_f_one_b", microbatches=2, world=world)
    run = studio.run(unit=0.005)
    run.wait()
    assert studio.measured is not None and studio.measured.num_messages() == 4
    assert studio.measured.makespan >= 9 * 0.005  # nothing sleeps shorter than it was told
    studio.close()


def test_shown_it_becomes_a_picture_that_is_renewed_when_the_reader_leaves(notebook: None, display: Display) -> None:
    studio = ScheduleStudio(ranks=2, microbatches=2, title="Mine")
    studio._ipython_display_()
    assert WIDGET in display.shown[0]
    studio._hear({"type": "shown"})
    assert set(display.replaced[-1]) == {"text/html", "text/plain"} and "<b>Mine</b>" in display.replaced[-1]["text/html"]
    wish(studio, "settle")
    assert len(display.replaced) == 1  # nothing has changed
    wish(studio, "place", action="0F0")
    wish(studio, "settle")
    assert "7 actions left to place" in display.replaced[-1]["text/plain"]
    studio.close()


def test_where_nobody_can_build_it_is_the_picture_only(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    ScheduleStudio("gpipe")._ipython_display_()
    assert [set(bundle) for bundle in display.shown] == [{"text/html", "text/plain"}]


def test_a_closed_one_is_freed() -> None:
    studio = ScheduleStudio("gpipe")
    gone = weakref.ref(studio)
    studio.close()
    del studio
    gc.collect()
    assert gone() is None


# -- in a browser ----------------------------------------------------------------------------------------------------


def sent(page: Page, what: str) -> list[dict[str, Any]]:
    """The wishes of one kind, without what is the same in all."""
    every: list[dict[str, Any]] = page.evaluate("sent")
    return [{key: value for key, value in one.items() if key not in ("type", "what")} for one in every if one.get("what") == what]


def answer(page: Page, studio: ScheduleStudio) -> None:
    """Let Python do what the page has asked for, and give the page what comes back."""
    for message in page.evaluate("sent.splice(0)"):
        studio._hear(message)
    page.evaluate("([chart, said]) => { model.set('chart', chart); model.set('said', said); }", json.loads(json.dumps([studio.chart, studio.said])))
    page.wait_for_selector(f"{OVER}[data-painted='{len(studio.chart['bars']['name'])}']")


def test_a_schedule_is_built_by_clicks_and_keys(show: Show) -> None:
    studio = ScheduleStudio(ranks=2, microbatches=1)
    page = show(studio)
    page.get_by_role("button", name="0F0").click()
    answer(page, studio)
    page.locator(OVER).focus()
    for key in ("ArrowDown", "Enter", "b", "ArrowUp", "b"):
        page.keyboard.press(key)
        answer(page, studio)
    assert studio.name == "GPipe" and studio.said["refused"] is False
    expect(page.locator(".pk-status")).to_contain_text("GPipe: 2 ranks")
    page.keyboard.press("f")
    answer(page, studio)
    expect(page.locator(".pk-info")).to_have_text("no F is left to place on rank 0")
    expect(page.locator(".pk-refused")).to_have_count(1)
    page.get_by_label("Action to place").fill("9F0")
    page.keyboard.press("Enter")
    assert sent(page, "place") == [{"action": "9F0"}]


def test_an_empty_slot_is_asked_and_the_plus_places(show: Show) -> None:
    studio = ScheduleStudio("gpipe", ranks=2, microbatches=2)
    studio.remove("0B1")
    page = show(studio)
    bar = find(page.locator(OVER), look(0, 1).fill)  # 0F1, behind which rank 0 waits
    page.locator(OVER).click(position={"x": bar["x"] + 130, "y": bar["y"]})
    assert sent(page, "why") == [{"rank": 0, "time": 3.5}]
    answer(page, studio)
    expect(page.locator(".pk-info")).to_contain_text("Rank 0 waits: its next action 0B0 needs 1B0")
    last = find(page.locator(OVER), look(1, 0).fill)
    page.locator(OVER).click(position={"x": last["x"] + 170, "y": last["y"]})
    assert sent(page, "place") == [{"action": "0B1"}]


def test_bars_are_dragged_to_another_order_and_shifted_by_keys(show: Show) -> None:
    studio = ScheduleStudio("gpipe", ranks=1, microbatches=2)  # 0F0 0F1 0B0 0B1
    page = show(studio)
    box, bar = page.locator(OVER).bounding_box(), find(page.locator(OVER), look(0, 1).fill)
    assert box is not None
    page.mouse.move(box["x"] + bar["x"] + 20, box["y"] + bar["y"])
    page.mouse.down()
    page.mouse.move(box["x"] + bar["x"] + 500, box["y"] + bar["y"], steps=4)
    page.mouse.up()
    assert sent(page, "move") == [{"action": "0F1", "rank": 0, "to": 2}]
    page.locator(OVER).focus()
    page.keyboard.press("Shift+ArrowLeft")
    assert sent(page, "move")[-1] == {"action": "0F1", "rank": 0, "to": 0}
    expect(page.locator(".pk-tip")).to_contain_text("0F1")
    page.keyboard.press("Delete")
    assert sent(page, "remove") == [{"action": "0F1"}]
    studio.remove("0B1")
    answer(page, studio)
    expect(page.locator(".pk-tip")).to_be_hidden()  # what it told of may be gone


def test_sliders_and_choices_are_wishes_and_of_a_drag_the_newest_is_sent(show: Show) -> None:
    studio = ScheduleStudio("gpipe")
    page = show(studio)
    slider = page.get_by_role("slider", name="Latency")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert sent(page, "set") == [{"key": "latency", "at": 1}]
    answer(page, studio)
    assert sent(page, "set") == [{"key": "latency", "at": 3}]
    page.get_by_label("Schedule", exact=True).select_option("zb_v")
    assert sent(page, "choose") == [{"name": "zb_v"}]
    page.locator(".pk-table tr[title]").first.click()
    assert sent(page, "choose")[1:] == [{"name": "gpipe"}]
    assert page.get_by_role("button", name="Run").count() == 0


def test_a_run_is_drawn_below_the_plan(show: Show) -> None:
    with pk.SimulatedWorld(2) as world:
        studio = ScheduleStudio("gpipe", microbatches=2, world=world)
        alone = count(show(studio).locator(OVER), look(1, 0).fill)[0]
        studio.run()
        encoder = MeasuredEncoder(world.trace)
        page = show(studio, snapshot=encoder.encode(), meta={**studio.meta, "run": 1, "total": encoder.num_events})
        both = count(page.locator(OVER), look(1, 0).fill)[0]
        assert both > 1.15 * alone
        expect(page.locator(".pk-table tr").nth(2)).to_contain_text("the same on 2 simulated ranks")
        studio.close()


@pytest.mark.parametrize(("width", "style"), [(360, ""), (1200, DARK)])
def test_it_fits_narrow_and_wide_light_and_dark(show: Show, width: int, style: str) -> None:
    page = show(ScheduleStudio("zb_h1", ranks=4, microbatches=4), width=width, style=style)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    theme: Theme = "dark" if style else "light"
    assert count(page.locator(OVER), look(0, 0, theme).fill)[0] > 200
    page.locator(OVER).focus()
    page.keyboard.press("+")
    page.wait_for_function("document.querySelector('.pk-stage').scrollWidth > document.querySelector('.pk-stage').clientWidth * 1.5")


@pytest.mark.parametrize(("style", "theme"), [("", "light"), (DARK, "dark")])
def test_where_bars_are_narrow_forwards_are_no_gaps(show: Show, style: str, theme: Theme) -> None:
    """Forwards of two pixels between backwards of four: in one look, that of kinds, and apart from the page."""
    page = show(ScheduleStudio("one_f_one_b", ranks=16, microbatches=64), width=700, style=style)
    found = [count(page.locator(OVER), narrow(kind, theme))[0] for kind in (0, 1)]
    assert found[0] > 0.3 * found[1] > 10_000
    assert all(contrast(narrow(kind, theme), PAGE[theme].fill) > 2 for kind in range(4))
    expect(page.locator(".pk-kinds")).to_contain_text("hues stand for kinds")
    assert [hex_of(page, k) for k in range(4)] == [narrow(kind, theme).lower() for kind in range(4)]


def hex_of(page: Page, k: int) -> str:
    """The colour of a patch of the legend."""
    channels: list[int] = page.evaluate("k => getComputedStyle(document.querySelectorAll('.pk-kinds i')[k]).backgroundColor.match(/\\d+/g).map(Number)", k)
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def test_sliders_say_what_they_mean(show: Show) -> None:
    page = show(ScheduleStudio("gpipe"))
    assert "in units of the time axis" in (page.get_by_label("Latency", exact=True).get_attribute("title") or "")
    assert "messages have 1 MB" in (page.get_by_label("Bandwidth", exact=True).get_attribute("title") or "")


def test_it_leaves_nothing_behind(show: Show) -> None:
    page = show(ScheduleStudio("gpipe"))
    before = page.evaluate("model.count()")
    page.evaluate("cleanups.push(mount())")
    page.wait_for_function("document.querySelectorAll('canvas[data-painted]').length === 2")
    page.evaluate("cleanups.pop()()")
    assert page.evaluate("model.count()") == before
    page.evaluate("cleanups.pop()(); stop()")
    assert page.evaluate("[model.count(), document.querySelectorAll('.partkit-view').length]") == [0, 0]
