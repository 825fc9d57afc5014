"""The stepper without a kernel: what it accepts, sends and stores; and in a browser: pixels, keys, words."""

from __future__ import annotations

import base64
import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

from partkit.collectives.all_gather import all_gather
from partkit.figures.stepper_still import RANK_COLORS
from partkit.mesh import Mesh
from partkit.tracing import Trace
from partkit.widgets.showing import WIDGET
from partkit.widgets.stepper import MessageStepper
from partkit.worlds.simulated import SimulatedWorld
from tests.browser.pixels import count, find, picture
from tests.widgets.fake_display import Display
from tests.widgets.painted import listen, words
from tests.widgets.recorded import held, ring

DARK = "--jp-layout-color0: #111111; --jp-ui-font-color0: #e6e6e6; background: #111111"
OVER = ".pk-over"
Show = Callable[..., Page]


class Run:
    """Stands in for a live run: notes what is let go."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.done = trace, trace.finished.is_set()
        self.allowed: list[Any] = []

    def allow(self, numbers: Any = None) -> None:
        self.allowed.append(numbers)


def holding(trace: Trace) -> MessageStepper:
    """A stepper of a run whose messages are held."""
    run = Run(trace)
    stepper = MessageStepper(run)
    stepper._run = run
    stepper.meta = stepper._describe(live=True)
    return stepper


# -- without a browser -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: MessageStepper(3), TypeError, r"MessageStepper\(source=3\): source is a int; give a Trace"),
        (lambda: MessageStepper(ring(), unit="step"), ValueError, r"""unit='step'\): unit is "message" or "round\""""),  # type: ignore[arg-type]
        (lambda: MessageStepper(ring(), mesh=Mesh(dp=3, tp=2)), ValueError, "this mesh has 6 ranks, the run 4"),
        (lambda: MessageStepper.pause(ring(), print), TypeError, r"only ranks of a live world \(pk.World\) can wait"),
        (lambda: MessageStepper.pause(SimulatedWorld(2), print), TypeError, r"only ranks of a live world \(pk.World\) can wait"),
        (lambda: MessageStepper(ring(), height=3), ValueError, r"MessageStepper\(height=3\): height is a number of pixels from 40"),
    ],
)
def test_refusals(make: Callable[[], MessageStepper], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_shown_it_becomes_a_storyboard_with_tables(notebook: None, display: Display) -> None:
    stepper = MessageStepper(ring(), title="Ring")
    stepper._ipython_display_()
    assert WIDGET in display.shown[0]
    stepper._hear({"type": "shown"})
    assert set(display.replaced[-1]) == {"text/html", "text/plain"}
    assert "<b>Ring</b>" in display.replaced[-1]["text/html"] and "What each rank holds at the end" in display.replaced[-1]["text/html"]
    stepper.close()


def test_where_nobody_can_step_it_is_the_picture_only(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    MessageStepper(ring())._ipython_display_()
    assert [set(bundle) for bundle in display.shown] == [{"text/html", "text/plain"}]


def test_a_closed_one_is_freed() -> None:
    stepper = MessageStepper(ring())
    gone = weakref.ref(stepper)
    stepper.close()
    del stepper
    gc.collect()
    assert gone() is None


def test_messages_are_let_go_by_their_ranks() -> None:
    stepper = holding(held())
    assert stepper.waiting == [(0, 1), (1, 0)]
    stepper.let(1)
    stepper.let(0, 1)
    with pytest.raises(ValueError, match="no message of rank 2 is held; these are: 0 -> 1, 1 -> 0"):
        stepper.let(2)
    with pytest.raises(ValueError, match="no message of rank 0 to rank 2 is held"):
        stepper.let(0, 2)
    stepper._hear({"type": "let", "rank": 1, "number": 0})
    stepper.hold()
    stepper._hear({"type": "run"})
    assert stepper.run.allowed == [{1: (0,)}, {0: (0,)}, {1: (0,)}, {0: (), 1: ()}, None]
    stepper.close()


def test_only_the_newest_story_is_kept_for_those_who_come_late() -> None:
    trace = held()
    stepper = MessageStepper(trace)
    stepper.send = lambda content, buffers: None
    trace.sights.append(trace.sights[0]._replace(moment="go"))
    trace.finished.set()
    assert stepper._pump is not None
    stepper._pump.join(10)
    assert len(stepper._blocks) == 1 and stepper.snapshot == stepper._blocks[0] and stepper.meta["total"] == stepper._feed.encoder.num_events
    stepper.close()


# -- in a browser ----------------------------------------------------------------------------------------------------


def at(page: Page, position: int) -> None:
    """Until ``position`` is drawn and the newest arrow has grown."""
    page.wait_for_selector(f"{OVER}[data-painted='{position}']")


def test_keys_and_buttons_lead_through_the_messages(show: Show) -> None:
    page = show(MessageStepper(ring(), title="Ring all-reduce"))
    info = page.locator(".pk-info")
    expect(page.locator(".pk-title")).to_have_text("Ring all-reduce")
    expect(info).to_have_text("Start: nothing sent yet")
    page.locator(OVER).focus()
    page.keyboard.press("ArrowRight")
    expect(info).to_contain_text("Round 1 of 6, message 1 of 24: rank 0 to rank 1")
    page.get_by_role("button", name="One step forward").click()
    expect(info).to_contain_text("message 2 of 24: rank 1 to rank 2 · float32[1] · 4 bytes · reduce-scatter 1 · in all_reduce · data of rank 1: 11")
    page.keyboard.press("PageDown")
    expect(info).to_contain_text("message 4 of 24")
    page.keyboard.press("End")
    expect(info).to_contain_text("message 24 of 24")
    expect(page.get_by_role("button", name="One step forward")).to_be_disabled()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("PageUp")
    expect(info).to_contain_text("message 20 of 24")
    page.keyboard.press("Home")
    expect(info).to_have_text("Start: nothing sent yet")
    expect(page.get_by_role("button", name="One step back")).to_be_disabled()
    assert "position" in page.evaluate("changed")


def test_rounds_are_taken_at_once(show: Show) -> None:
    page = show(MessageStepper(ring(), unit="round"))
    page.locator(OVER).focus()
    for expected in ("Round 1 of 6, 4 messages: 0 → 1, 1 → 2, 2 → 3, 3 → 0 · reduce-scatter 1", "Round 2 of 6, 4 messages"):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".pk-info")).to_contain_text(expected)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".pk-info")).to_contain_text("Round 1 of 6")
    page.keyboard.press("u")
    expect(page.locator(".pk-info")).to_contain_text("message 4 of 24: rank 3 to rank 0")


def test_the_slider_moves_and_the_keys_work_on_it(show: Show) -> None:
    page = show(MessageStepper(ring()))
    slider = page.locator("input[type=range]")
    slider.fill("7")
    expect(page.locator(".pk-info")).to_contain_text("message 7 of 24")
    slider.press("ArrowLeft")
    expect(page.locator(".pk-info")).to_contain_text("message 6 of 24")
    expect(slider).to_have_value("6")


def test_play_steps_by_itself_and_ends_at_the_end(show: Show) -> None:
    page = show(MessageStepper(ring(2, 2)), position=2)
    page.locator(OVER).focus()
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".pk-info")).to_contain_text("message 4 of 4")
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize(("style", "theme"), [("", 0), (DARK, 1)])
def test_layers_fill_up_in_the_colours_of_the_ranks(show: Show, style: str, theme: int) -> None:
    page = show(MessageStepper(ring()), style=style, reduced_motion="reduce")
    found = []
    for position in (0, 12, 24):
        page.evaluate(f"model.set('position', {position})")
        at(page, position)
        found.append([count(page.locator(OVER), colors[theme])[0] for colors in RANK_COLORS[:4]])
    for rank in range(4):
        assert 100 < found[0][rank] < found[1][rank] < found[2][rank]
    assert page.locator(".partkit-stepper").get_attribute("data-theme") == ("dark" if theme else "light")


@pytest.mark.parametrize(("size", "num_elements", "width"), [(2, 4, 360), (4, 8, 360), (4, 64, 1400), (8, 16, 900), (16, 16, 1200), (16, 64, 380)])
def test_every_card_is_on_the_stage_and_none_touches_another(show: Show, size: int, num_elements: int, width: int) -> None:
    page = show(MessageStepper(ring(size, num_elements)), width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    stage = page.locator(OVER).bounding_box()
    assert stage is not None and stage["height"] <= 1200
    # The swatch of each card is found where its colour begins; a hidden one would leave fewer pixels than a swatch has.
    for colors in RANK_COLORS[: min(size, 7)]:
        assert count(page.locator(OVER), colors[0])[0] >= 80


@pytest.mark.parametrize("width", [560, 950])
def test_numbers_keep_away_from_their_neighbours_and_every_message_shows_its_own(show: Show, width: int) -> None:
    with SimulatedWorld(4) as world:
        stepper = MessageStepper.record(world, lambda comm: all_gather(torch.full((2,), 1000.0 + comm.rank), comm, algorithm="ring"))
    page = show(stepper, width=width, reduced_motion="reduce", unit="round")
    listen(page)
    page.evaluate("model.set('position', 4)")
    at(page, 4)
    numbers = sorted((word.y, word.left, word.right) for word in words(page) if word.text.isdigit() and len(word.text) == 4)
    assert len(numbers) == 4 * 2 + 4 * 2 + 4 * 2  # of its own, of what came, and on the way
    gaps = [b[1] - a[2] for a, b in itertools.pairwise(numbers) if a[0] == b[0]]
    assert min(gaps) >= 3


@pytest.mark.parametrize("width", [500, 1100])
def test_messages_between_two_ranks_are_whole_on_the_stage(show: Show, width: int) -> None:
    with SimulatedWorld(2) as world:
        stepper = MessageStepper.record(world, lambda comm: comm.sendrecv(torch.tensor([77.0]), 1 - comm.rank, torch.empty(1), 1 - comm.rank))
    page = show(stepper, width=width, reduced_motion="reduce", unit="round")
    listen(page)
    page.evaluate("model.set('position', 2)")
    at(page, 2)
    stage = page.locator(OVER).bounding_box()
    assert stage is not None
    numbers = [word for word in words(page) if word.text == "77"]
    assert len(numbers) == 2 + 2
    assert all(12 <= word.y <= stage["height"] - 34 for word in numbers)  # the strip under a number is 16 high, and then comes a border


def test_hovering_an_element_tells_all_about_it(show: Show) -> None:
    page = show(MessageStepper(ring(2, 2)), position=4)
    at(page, 4)
    place = find(page.locator(OVER), RANK_COLORS[0][0])
    page.locator(OVER).hover(position={"x": place["x"] + 8, "y": place["y"] + 40})
    expect(page.locator(".pk-tip")).to_contain_text("rank 0, element 0 of float32[2] = 10")
    expect(page.locator(".pk-tip")).to_contain_text("data of ranks 0-1")


def test_the_table_twin_leads_to_a_message(show: Show) -> None:
    page = show(MessageStepper(ring()))
    page.get_by_role("button", name="Table").click()
    expect(page.locator(".pk-table caption")).to_have_text("Messages 1 to 24 of 24")
    cells = page.locator(".pk-table tr").nth(6).locator("td").all_inner_texts()
    assert cells == ["6", "2", "1", "2", "4", "reduce-scatter 2", "all_reduce", "ranks 0-1", "10"]
    page.locator(".pk-table tr").nth(6).click()
    expect(page.locator(".pk-info")).to_contain_text("message 6 of 24")
    expect(page.locator(".pk-now td").first).to_have_text("6")


def test_hundreds_of_messages_stay_fluid(show: Show) -> None:
    """480 messages of 16 ranks: a table of 200 rows, and a redraw costs less than a frame's patience."""
    page = show(MessageStepper(ring(16, 16)), position=300)
    page.get_by_role("button", name="Table").click()
    expect(page.locator(".pk-table tr")).to_have_count(201)
    expect(page.locator(".pk-table caption")).to_have_text("Messages 201 to 400 of 480")
    page.get_by_role("button", name="Table").click()
    frames = page.evaluate("Number(document.querySelector('.pk-over').dataset.frames)")
    page.evaluate("() => { for (let i = 0; i < 480; i++) model.set('position', i); }")
    at(page, 479)
    assert page.evaluate("Number(document.querySelector('.pk-over').dataset.frames)") - frames < 60  # changes between two frames are drawn once


def test_a_run_without_values_shows_what_each_rank_has_sent(show: Show) -> None:
    page = show(MessageStepper(ring(recorded=False)))
    expect(page.locator(".pk-status")).to_contain_text("values were not recorded")
    before = picture(page.locator(OVER))
    page.locator(OVER).focus()
    page.keyboard.press("ArrowRight")
    at(page, 1)
    assert picture(page.locator(OVER)) != before
    expect(page.locator(".pk-info")).to_contain_text("rank 0 to rank 1 · 4 bytes")


def test_help_opens_and_closes(show: Show) -> None:
    page = show(MessageStepper(ring()))
    page.locator(OVER).focus()
    page.keyboard.press("?")
    expect(page.locator(".pk-help")).to_contain_text("rank 0 uppermost")
    page.keyboard.press("Escape")
    expect(page.locator(".pk-help")).to_be_hidden()


def test_held_messages_are_let_go_by_button_key_and_click(show: Show) -> None:
    stepper = holding(held())
    page = show(stepper)
    expect(page.locator(".pk-status")).to_contain_text("2 messages held")
    buttons = page.locator(".pk-holding button")
    expect(buttons).to_have_text(["0 → 1 · float32[1] · x", "1 → 0 · float32[1] · x"])
    buttons.nth(1).click()
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Run on").click()
    page.keyboard.press("h")
    page.keyboard.press("s")
    let = [{"type": "let", "rank": rank, "number": 0} for rank in (1, 0)]
    assert page.evaluate("sent") == [*let, {"type": "run"}, {"type": "hold"}, {"type": "stop"}]
    stepper.close()


def test_what_arrives_is_followed(show: Show) -> None:
    stepper = holding(held())
    page = show(stepper)
    page.locator(".pk-holding button").first.click()
    other = holding(held(1))
    other._feed.encoder.num_events, other._feed.encoder._seen = 1, ()  # type: ignore[attr-defined]
    block = base64.b64encode(other._feed.encoder.encode()).decode()
    page.evaluate("([first, block]) => receive({ type: 'events', run: 0, size: 2, first }, block)", [1, block])
    expect(page.locator(".pk-info")).to_contain_text("message 1 of 1: rank 0 to rank 1")
    expect(page.locator(".pk-holding button")).to_have_count(1)
    for one in (stepper, other):
        one.close()


def test_two_views_and_what_is_left_takes_nothing_along(show: Show) -> None:
    page = show(MessageStepper(ring()))
    handlers = page.evaluate("model.count()")
    page.evaluate("cleanups.push(mount())")
    page.wait_for_function("document.querySelectorAll('.pk-over[data-painted]').length === 2")
    page.locator(OVER).first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pk-info").last).to_contain_text("message 1 of 24")
    page.evaluate("cleanups.pop()()")
    assert page.locator(".partkit-stepper").count() == 1 and page.evaluate("model.count()") == handlers
    page.evaluate("cleanups.pop()(); stop()")
    assert page.locator(".partkit-stepper").count() == 0 and page.evaluate("model.count()") == 0
