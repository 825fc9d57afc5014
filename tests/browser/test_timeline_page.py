"""The timeline's drawing, mouse and keyboard in a real browser, without Jupyter: a page with the script and a model of its own."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from partkit.cluster import clusters
from partkit.figures.encoding import Encoder
from partkit.figures.path import outline
from partkit.figures.sketch import encode_sketch
from partkit.tracing import Batch, Event, Trace
from partkit.tracing.critical_path import critical_path
from partkit.widgets.timeline import Timeline
from tests.widgets.demo_traces import SITES, STRINGS, busy, busy_rows, training
from tests.widgets.fake_model import page as html

DARK = "--jp-layout-color0:#111;--jp-ui-font-color0:#eee;background:#111"
OVER = ".pk-over"
COLORS = """() => { const c = document.querySelector("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, found = {};
    for (let i = 0; i < d.length; i += 4) { const k = [d[i], d[i+1], d[i+2]].join(); found[k] = (found[k] ?? 0) + 1; } return found; }"""
PIXELS = "() => document.querySelector('canvas').toDataURL()"
COVER = "() => { const c = document.querySelectorAll('canvas')[1]; return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0); }"
INK = """() => { const c = document.querySelectorAll("canvas")[1], { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
    return data.filter((v, i) => i % 4 === 3 && v > 0).length; }"""
BLUE, ORANGE, GREEN = "0,114,178", "230,159,0", "0,158,115"
Show = Callable[..., Page]


@pytest.fixture
def show(page: Page) -> Iterator[Show]:
    """``show(trace)``: the page with a view of it, painted. An error in the page fails the test."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    timelines = []

    def make(trace: Trace, *, style: str = "", title: str = "", height: int | None = None, **changes: Any) -> Page:
        timelines.append(Timeline(trace, title=title, height=height))
        page.set_content(html(timelines[-1], style=style, **changes))
        page.wait_for_selector(f"{OVER}[data-frames]")
        return page

    yield make
    for timeline in timelines:
        timeline.close()
    assert errors == []


def finished(*events: Event, size: int | None = None) -> Trace:
    return Trace.from_events(events, size=size)


def settle(page: Page) -> None:
    """Until the next frame is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def selected(page: Page) -> Any:
    return page.evaluate("model.get('selected')")


def focus(page: Page) -> None:
    page.locator(OVER).focus()


def test_bars_of_every_kind_and_arrows_are_drawn(show: Show) -> None:
    page = show(training(3))
    colors = page.evaluate(COLORS)
    assert all(colors.get(color, 0) > 200 for color in (BLUE, ORANGE, GREEN))
    assert page.evaluate(COVER)
    expect(page.locator(".pk-status")).to_have_text("3 ranks · 84 events · 24 messages · finished")
    assert page.locator(".pk-legend").inner_text().split() == ["S", "send", "R", "recv", "C", "compute", "N", "span", "G", "collective", "M", "metric"]


def test_a_run_without_messages_has_no_arrows_and_its_legend_names_what_it_holds(show: Show) -> None:
    page = show(finished(Event(0, "compute", 0, 1)))
    assert not page.evaluate(COVER)
    assert page.locator(".pk-legend").inner_text().split() == ["C", "compute"]


def test_numbers_about_memory_are_left_to_their_own_view(show: Show) -> None:
    told = [Event(0, "metric", n / 10, n / 10, tag="memory: activations", value=n) for n in range(10)]
    page = show(finished(Event(0, "compute", 0, 1), *told))
    assert page.locator(".pk-legend").inner_text().split() == ["C", "compute"]
    with_them = page.evaluate(PIXELS)
    focus(page)
    for _ in range(3):
        page.keyboard.press("n")
        settle(page)
    expect(page.locator(".pk-info")).to_contain_text("compute")
    assert show(finished(Event(0, "compute", 0, 1))).evaluate(PIXELS) == with_them


@pytest.mark.parametrize(
    ("trace", "status"),
    [
        (finished(size=4), "4 ranks · 0 events · 0 messages · finished"),
        (finished(Event(0, "compute", 0, 1)), "1 rank · 1 event · 0 messages · finished"),
        (finished(Event(0, "metric", 2, 2, tag="loss", value=1.5)), "1 rank · 1 event · 0 messages · finished"),
        (busy(640, 64), "64 ranks · 640 events · "),
    ],
)
def test_little_and_much_are_drawn(show: Show, trace: Trace, status: str) -> None:
    expect(show(trace).locator(".pk-status")).to_contain_text(status)


def test_case_W08_two_hundred_thousand_events(show: Show) -> None:
    page = show(busy(200_000))
    expect(page.locator(".pk-status")).to_contain_text("200,000 events")
    expect(page.locator(".pk-status")).to_contain_text("narrow bars are merged")
    focus(page)
    for _ in range(20):
        page.keyboard.press("+")
    settle(page)
    expect(page.locator(".pk-status")).not_to_contain_text("merged")
    assert page.evaluate(COVER)  # arrows again


def test_a_sketch_looks_like_the_whole_which_takes_its_place(show: Show) -> None:
    trace = busy(40_000, 2)
    block, number = encode_sketch(trace)
    page = show(trace)
    focus(page)
    whole = page.evaluate(PIXELS)
    assert number < 40_000
    page.evaluate(
        """([sketch, block]) => { window.all = { meta: model.get("meta"), snapshot: model.get("snapshot") };
        model.set("snapshot", bytes(block)); model.set("meta", { ...all.meta, run: "sketch", sketch }); }""",
        [number, base64.b64encode(block).decode()],
    )
    expect(page.locator(".pk-status")).to_contain_text("2 ranks · 40,000 events · details to follow")
    page.wait_for_selector(f"{OVER}[data-painted='40000'][data-sketch='true']")
    assert page.evaluate(PIXELS) == whole
    page.keyboard.press("n")
    assert selected(page) is None  # which event it is will be known with the details
    page.evaluate("() => { model.set('snapshot', all.snapshot); model.set('meta', { ...all.meta, run: 'sketch' }); }")
    page.wait_for_selector(f"{OVER}[data-painted='40000'][data-sketch='false']")
    assert page.evaluate(PIXELS) == whole
    page.keyboard.press("n")
    assert selected(page) is not None


def test_the_axis_names_its_clock(show: Show) -> None:
    """Text on a canvas leaves no text behind; what is written is caught on its way there."""
    page = show(training(2))
    page.evaluate("""() => { window.written = []; const canvas = CanvasRenderingContext2D.prototype, old = canvas.fillText;
        canvas.fillText = function (text, ...rest) { written.push(String(text)); old.call(this, text, ...rest); }; }""")
    focus(page)
    page.keyboard.press("Home")
    settle(page)
    written = page.evaluate("written")
    assert "us, virtual time (simulated)" in written or "ms, virtual time (simulated)" in written
    assert {"rank 0", "rank 1", "forward", "step"} <= set(written)


def test_keys_select_step_follow_a_message_and_let_go(show: Show) -> None:
    trace = training(3)
    page = show(trace)
    focus(page)
    page.keyboard.press("n")
    first = trace.columns[selected(page)]
    assert (first["rank"], first["start"]) == (0, 0)
    for _ in range(30):
        page.keyboard.press("n")
        settle(page)
        if trace.event(trace.columns[selected(page)]).kind == "send":
            break
    sent = trace.event(trace.columns[selected(page)])
    page.keyboard.press("m")
    settle(page)
    received = trace.event(trace.columns[selected(page)])
    assert (sent.kind, received.kind, received.rank, received.tag, received.seq) == ("send", "recv", sent.peer, sent.tag, sent.seq)
    expect(page.locator(".pk-info")).to_contain_text(f"recv {received.tag} · rank {received.rank} from rank {sent.rank} · 4 kB")
    expect(page.locator(".pk-info")).to_contain_text("in step/all_reduce · train.py:12")
    assert received.tag in str(page.locator(OVER).get_attribute("aria-label"))
    page.keyboard.press("Escape")
    assert selected(page) is None
    settle(page)
    expect(page.locator(".pk-info")).to_have_text("")


def test_previous_goes_back_and_up_and_down_change_the_rank(show: Show) -> None:
    trace = training(3)
    page = show(trace, selected=0)
    settle(page)
    focus(page)
    page.keyboard.press("n")
    settle(page)
    page.keyboard.press("p")
    settle(page)
    assert selected(page) == 0
    page.keyboard.press("ArrowDown")
    settle(page)
    assert trace.columns[selected(page)]["rank"] == 1
    page.keyboard.press("ArrowUp")
    settle(page)
    assert trace.columns[selected(page)]["rank"] == 0


def test_every_arrow_joins_the_two_ends_that_the_trace_pairs(show: Show) -> None:
    trace = training(4, steps=3)
    page = show(trace)
    pairs = dict(trace.pairs().tolist())
    for sent in list(pairs)[::7]:
        page.evaluate("i => model.set('selected', i)", sent)
        settle(page)
        focus(page)
        page.keyboard.press("m")
        assert selected(page) == pairs[sent]


def test_zoom_and_move_by_keyboard_and_home(show: Show) -> None:
    page = show(training(3))
    focus(page)
    whole = page.evaluate(COLORS)
    for keys in (["+", "+"], ["ArrowRight"], ["-"], ["]"]):
        before = page.evaluate(COLORS)
        for key in keys:
            page.keyboard.press(key)
        settle(page)
        assert page.evaluate(COLORS) != before, keys
    page.keyboard.press("Home")
    settle(page)
    assert page.evaluate(COLORS) == whole


def test_keys_stay_here_and_foreign_ones_go_on(show: Show) -> None:
    page = show(training(2))
    page.evaluate("() => { window.heard = []; document.addEventListener('keydown', (e) => heard.push(e.key)); }")
    focus(page)
    for key in ("+", "n", "Tab", "Control+s"):
        page.keyboard.press(key)
    assert page.evaluate("heard.filter((key) => key !== 'Control')") == ["Tab", "s"]


def test_the_wheel_scrolls_the_page_until_the_picture_is_clicked(show: Show) -> None:
    page = show(training(3), style="height:3000px")
    box = page.locator(OVER).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 60)
    whole = page.evaluate(COLORS)
    page.mouse.wheel(0, 60)
    page.wait_for_function("scrollY > 0")
    assert page.evaluate(COLORS) == whole
    page.evaluate("scrollTo(0, 0)")
    page.locator(OVER).click(position={"x": 300, "y": 60})
    settle(page)
    frames = page.evaluate("Number(document.querySelector('.pk-over').dataset.frames)")
    page.mouse.wheel(0, -300)
    page.wait_for_function("frames => Number(document.querySelector('.pk-over').dataset.frames) > frames", arg=frames)
    assert page.evaluate(COLORS) != whole and page.evaluate("scrollY") == 0


def test_a_click_selects_and_hovering_tells_all(show: Show) -> None:
    page = show(finished(Event(0, "compute", 0.0, 1.0, tag="forward"), Event(1, "send", 0.0, 1.0, peer=0, nbytes=4096, tag="x"), size=2))
    page.locator(OVER).hover(position={"x": 300, "y": 72})
    tip = page.locator(".pk-tip")
    expect(tip).to_contain_text("rank 1 to rank 0")
    expect(tip).to_contain_text("4.1 kB")
    expect(tip).to_contain_text("1 s from 0 s")
    page.locator(OVER).hover(position={"x": 300, "y": 30})
    expect(tip).to_be_hidden()  # rank 0's lane of sends is empty
    page.locator(OVER).click(position={"x": 300, "y": 72})
    assert selected(page) == 1
    page.locator(OVER).click(position={"x": 300, "y": 30})
    assert selected(page) is None


def test_a_drag_moves_and_selects_nothing(show: Show) -> None:
    page = show(training(3))
    before = page.evaluate(COLORS)
    box = page.locator(OVER).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 500, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 60, steps=5)
    page.mouse.up()
    settle(page)
    assert page.evaluate(COLORS) != before and selected(page) is None


def test_the_table_twin_lists_what_is_in_view(show: Show) -> None:
    page = show(training(3))
    page.get_by_role("button", name="Table").click()
    expect(page.locator(".pk-table > table caption")).to_have_text("84 events in view, 84 shown")
    assert page.locator(".pk-table tr").nth(1).locator("td").all_inner_texts()[:3] == ["0", "compute", "forward"]
    page.keyboard.press("+")
    expect(page.locator(".pk-table > table caption")).not_to_contain_text("84 events in view")
    page.locator(".pk-table tr").nth(2).click()
    assert selected(page) is not None
    focus(page)
    page.keyboard.press("t")
    expect(page.locator(".pk-table")).to_be_hidden()


def test_help_opens_and_closes(show: Show) -> None:
    page = show(training(2))
    focus(page)
    page.keyboard.press("?")
    expect(page.locator(".pk-help")).to_contain_text("other end of the message")
    page.keyboard.press("Escape")
    expect(page.locator(".pk-help")).to_be_hidden()


def test_light_dark_and_the_switch_between_them(show: Show) -> None:
    page = show(training(3), style=DARK)
    expect(page.locator(".partkit-timeline")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(COLORS).get("17,17,17", 0) > 1000
    page.evaluate("document.body.setAttribute('style', '--jp-layout-color0:#fff')")
    expect(page.locator(".partkit-timeline")).to_have_attribute("data-theme", "light")
    settle(page)
    assert page.evaluate(COLORS).get("17,17,17", 0) == 0


@pytest.mark.parametrize("width", [360, 1400])
def test_narrow_and_wide_pages(show: Show, width: int) -> None:
    page = show(training(4))
    page.set_viewport_size({"width": width, "height": 700})
    page.wait_for_function("w => Math.abs(document.querySelector('.pk-over').clientWidth - w) < 30", arg=width)
    page.wait_for_function("() => { const c = document.querySelector('canvas'); return Math.abs(c.width - c.clientWidth * devicePixelRatio) < 2; }")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_two_views_of_one_model_share_the_selection(show: Show) -> None:
    page = show(training(3))
    page.evaluate("cleanups.push(mount())")
    page.wait_for_function("document.querySelectorAll('.pk-over[data-painted=\"84\"]').length === 2")
    page.locator(OVER).first.focus()
    page.keyboard.press("n")
    expect(page.locator(".pk-info").last).to_contain_text("rank 0")


def test_what_is_left_takes_nothing_along(show: Show) -> None:
    page = show(training(3))
    handlers = page.evaluate("model.count()")
    page.evaluate("cleanups.push(mount())")
    page.evaluate("cleanups.pop()()")
    assert page.locator(".partkit-timeline").count() == 1 and page.evaluate("model.count()") == handlers
    page.evaluate("cleanups.pop()(); stop()")
    assert page.locator(".partkit-timeline").count() == 0 and page.evaluate("model.count()") == 0
    assert page.evaluate("document.querySelectorAll('[id]').length") == 0


def test_a_live_run_grows_and_a_missed_block_is_asked_for(show: Show) -> None:
    growing = Trace(4)
    encoder = Encoder(growing)
    meta = {"title": "", "height": None, "size": 4, "clock": "wall clock", "live": True, "frozen": False, "run": 0, "total": 0, "note": ""}
    page = show(finished(size=4), meta=meta, snapshot=b"")

    def give(num_events: int, first: int) -> None:
        told = encoder.num_events
        for rows in busy_rows(num_events, 4, first=first):
            growing.append(Batch([] if first else STRINGS, rows, [] if first else SITES))
        block = base64.b64encode(encoder.encode()).decode()
        page.evaluate("([first, block]) => receive({ type: 'events', run: 0, size: 4, first }, block)", [told, block])

    give(400, 0)
    page.wait_for_selector(f"{OVER}[data-painted='400']")
    expect(page.locator(".pk-status")).to_contain_text("400 events")
    expect(page.locator(".pk-status")).to_contain_text("running")
    give(4000, 400)
    page.wait_for_selector(f"{OVER}[data-painted='4400']")
    block = base64.b64encode(Encoder(busy(40, 4)).encode()).decode()
    page.evaluate("block => receive({ type: 'events', run: 0, size: 4, first: 9999 }, block)", block)
    assert page.evaluate("sent") == [{"type": "resend"}]
    page.evaluate("block => receive({ type: 'events', run: 1, size: 4, first: 0 }, block)", block)  # another run begins
    page.wait_for_selector(f"{OVER}[data-painted='40']")


def test_reduced_motion_waits_between_frames(new_page: Callable[..., Page]) -> None:
    timeline = Timeline(Trace(4))
    page = new_page(reduced_motion="reduce")
    page.set_content(html(timeline))
    page.wait_for_selector(f"{OVER}[data-frames]")
    settle(page)
    before = page.evaluate("Number(document.querySelector('.pk-over').dataset.frames)")
    block = base64.b64encode(Encoder(busy(40, 4)).encode()).decode()
    page.evaluate("block => receive({ type: 'events', run: 0, size: 4, first: 0 }, block)", block)
    settle(page)
    assert page.evaluate("Number(document.querySelector('.pk-over').dataset.frames)") == before
    page.wait_for_selector(f"{OVER}[data-painted='40']")
    timeline.close()


def test_details_that_were_too_many_are_said_to_be_in_python(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partkit.figures.encoding.MAX_DETAILS", 6)
    page = show(finished(Event(0, "compute", 0, 1, tag="x")), selected=0)
    expect(page.locator(".pk-info")).to_contain_text("details in Python only")
    expect(page.locator(".pk-status")).to_contain_text("1 event without details")


# -- clocks and the critical path: the page sets traits, Python answers with others -----------------------------------


def test_the_clock_and_the_dials_set_traits_and_show_them(show: Show) -> None:
    page = show(training(3))
    clock = page.locator("[data-trait=clock]")
    assert clock.locator("option").all_inner_texts() == ["virtual time, as simulated", "replayed on ..."]
    expect(page.locator("[data-trait=latency_dial]")).to_be_hidden()
    clock.select_option("replayed")
    settle(page)
    assert page.evaluate("model.get('clock')") == "replayed"
    expect(page.locator("[data-trait=latency_dial]")).to_be_visible()
    page.locator("[data-trait=preset]").select_option("volunteers, 200 Mb/s")
    page.locator("[data-trait=bandwidth_dial]").fill("6.5")
    assert page.evaluate("[model.get('preset'), Number(model.get('bandwidth_dial'))]") == ["volunteers, 200 Mb/s", 6.5]
    page.evaluate("() => { model.set('latency_dial', -2); model.fire('change:meta'); }")
    settle(page)
    assert page.locator("[data-trait=latency_dial]").input_value() == "-2"


def test_the_critical_path_is_drawn_over_the_bars(show: Show) -> None:
    trace = training(3)
    page = show(trace)
    before = page.evaluate(INK)
    page.get_by_role("button", name="Critical path").click()
    assert page.evaluate("model.get('critical_path')") is True
    page.evaluate("path => model.set('outlined', path)", outline(critical_path(trace)))
    settle(page)
    assert page.evaluate(INK) > before + 1000
    expect(page.get_by_role("button", name="Critical path")).to_have_attribute("aria-pressed", "true")
    focus(page)
    page.keyboard.press("c")
    assert page.evaluate("model.get('critical_path')") is False


def test_the_answer_to_a_hover_is_in_the_tip_and_that_to_a_selection_below(show: Show) -> None:
    page = show(finished(Event(0, "compute", 0.0, 1.0, tag="forward"), Event(1, "send", 0.0, 1.0, peer=0, nbytes=4096, tag="x"), size=2))
    page.locator(OVER).hover(position={"x": 300, "y": 72})
    assert page.evaluate("model.get('asked')") == 1
    page.evaluate("model.set('answers', { 1: 'waited 1 s for rank 0 to receive' })")
    settle(page)
    expect(page.locator(".pk-tip")).to_contain_text("waited 1 s for rank 0 to receive")
    page.evaluate("model.set('selected', 1)")
    settle(page)
    expect(page.locator(".pk-info")).to_contain_text("waited 1 s for rank 0 to receive")


def test_another_clock_is_another_picture_in_the_same_place(show: Show) -> None:
    trace = training(3)
    page = show(trace)
    before = page.evaluate(COLORS)
    timeline = Timeline(trace, clock="replayed", cluster=clusters.VOLUNTEERS)
    block = base64.b64encode(timeline.snapshot).decode()
    page.evaluate("([meta, block]) => { model.set('meta', meta); model.set('snapshot', bytes(block)); }", [timeline.meta, block])
    page.wait_for_selector(f"{OVER}[data-painted='84']")
    settle(page)
    assert page.evaluate(COLORS) != before
    page.get_by_role("button", name="Table").click()
    assert page.evaluate("sent.map((message) => message.type)") == ["sums"]
    timeline._handle_custom_msg({"type": "sums"}, [])
    page.evaluate("sums => model.set('sums', sums)", timeline.sums)
    expect(page.locator(".pk-table")).to_contain_text("Where the time of each rank went")
    timeline.close()
