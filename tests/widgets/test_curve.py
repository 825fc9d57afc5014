"""The curve without a kernel: what it accepts, sends and stores; and in a browser: pixels, keys, words."""

from __future__ import annotations

import base64
import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from partkit.tracing import Event, Recorder, Trace
from partkit.widgets.curve import Curve
from partkit.widgets.showing import WIDGET
from tests.widgets.fake_display import Display

DARK = "--jp-layout-color0: #111111; --jp-ui-font-color0: #e6e6e6; background: #111111"
Show = Callable[..., Page]


def training(steps: int = 40, *, size: int = 4, apart: bool = False, live: bool = False) -> Trace:
    """Ranks that note a falling loss at every step and an accuracy at every tenth; ``apart``: each rank another loss."""
    trace = Trace(size, clock="virtual")
    for rank in range(size):
        recorder = Recorder(rank)
        for k in range(steps):
            recorder.add("metric", k, k, tag="loss", value=2.0 * math.exp(-k / 10) + 0.1 + rank * k / steps * apart)
            if k % 10 == 9:
                recorder.add("metric", k, k, tag="accuracy", value=1 - math.exp(-k / 20))
        trace.append(recorder.drain())
    if not live:
        trace.finished.set()
    return trace


class Live:
    """A run that goes on, and what its curve sends."""

    def __init__(self, size: int = 2) -> None:
        self.trace = Trace(size)
        self.recorders = [Recorder(rank) for rank in range(size)]
        self.sent: list[tuple[dict[str, Any], bytes]] = []

    def note(self, rank: int, value: float) -> None:
        self.recorders[rank].add("metric", len(self.trace), len(self.trace), tag="loss", value=value)
        self.trace.append(self.recorders[rank].drain())

    def listen(self, curve: Curve) -> None:
        curve.send = lambda content, buffers: self.sent.append((content, buffers[0]))  # type: ignore[method-assign]

    def finish(self, curve: Curve) -> None:
        """End the run; the curve's pump ends with it."""
        self.trace.finished.set()
        assert curve._pump is not None
        curve._pump.join(10)
        assert not curve._pump.is_alive()


# -- without a browser -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: Curve(3), TypeError, r"Curve\(source=3\): source is a int; give a Trace"),
        (lambda: Curve(training(), 7), TypeError, r"7\): the name of a metric is a string"),  # type: ignore[arg-type]
        (lambda: Curve(training(), x="epoch"), ValueError, r"""x='epoch'\): x is "step" or "seconds\""""),  # type: ignore[arg-type]
        (lambda: Curve(training(), height=3), ValueError, r"Curve\(height=3\): height is a number of pixels from 40"),
    ],
)
def test_refusals(make: Callable[[], Curve], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_what_goes_to_the_browser_is_plain() -> None:
    curve = Curve(training(), "loss", title="Run", log=True)
    state = curve.get_state()
    assert (state["x"], state["log"], state["meta"]["title"], state["meta"]["live"]) == ("step", True, "Run", False)
    assert b'"lines":[["loss",0,"ranks 0-3",0,40]]' in state["snapshot"]
    assert len(state["snapshot"]) < 40 * 16 + 200  # one line for four ranks
    curve.close()


def test_a_run_that_goes_on_is_sent_piece_by_piece_and_kept_whole() -> None:
    live = Live()
    curve = Curve(live.trace)
    live.listen(curve)
    for step in range(5):
        for rank in (0, 1):
            live.note(rank, 1.0 / (1 + step))
    live.finish(curve)
    numbers = [content["first"] for content, _ in live.sent]
    assert numbers == sorted(set(numbers)) and numbers[0] == 1  # after the block that the constructor made
    assert curve.snapshot == b"".join(curve._blocks)
    assert curve.meta["live"] is False and curve.meta["total"] >= 11
    curve.close()


def test_a_late_note_of_another_value_makes_two_lines() -> None:
    live = Live()
    curve = Curve(live.trace)
    live.listen(curve)
    for rank, value in ((0, 1.0), (1, 1.0), (0, 0.5), (1, 0.25)):
        live.note(rank, value)
    live.finish(curve)
    assert b'["loss",0,"rank 0",' in curve.snapshot and b'["loss",1,"rank 1",0,2]' in curve.snapshot
    curve.close()


def test_when_the_run_ends_the_output_becomes_a_still_picture(notebook: None, display: Display) -> None:
    live = Live()
    curve = Curve(live.trace, "loss")
    live.note(0, 1.0)
    curve._ipython_display_()
    assert WIDGET in display.shown[0]
    live.finish(curve)
    assert [set(bundle) for bundle in display.replaced] == [{"text/html", "text/plain"}]
    assert display.replaced[0]["text/plain"].startswith("loss, 1 value of 2 ranks\n")
    curve.close()


def test_without_a_reader_the_picture_is_shown_and_brought_up_to_date_once(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    monkeypatch.setattr("partkit.widgets.live.PATIENCE", 0.01)  # this run does not end meanwhile
    live = Live(1)
    curve = Curve(live.trace)
    curve._ipython_display_()
    assert WIDGET not in display.shown[0] and "still running" in display.shown[0]["text/plain"]
    live.note(0, 1.0)
    live.finish(curve)
    assert [bundle["text/plain"].splitlines()[0] for bundle in display.replaced] == ["loss, 1 value of 1 rank"]
    curve.close()


def test_a_finished_run_without_a_reader_is_shown_once(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    curve = Curve(training())
    curve._ipython_display_()
    assert len(display.shown) == 1 and display.replaced == []
    curve.close()


def test_the_still_picture_follows_the_switches() -> None:
    curve = Curve(training(), "loss")
    curve.log, curve.x = True, "seconds"
    html = curve._repr_mimebundle_()["text/html"]
    image = base64.b64decode(html.split("base64,")[1].split('"')[0]).decode()
    assert "loss, logarithmic" in image and "s, virtual time (simulated)" in image
    curve.close()


def test_closed_curves_are_freed() -> None:
    curves = [Curve(training(3)) for _ in range(3)]
    alive = [weakref.ref(curve) for curve in curves]
    for curve in curves:
        curve.close()
    del curve, curves
    gc.collect()
    assert [one for one in alive if one() is not None] == []


# -- in a browser ----------------------------------------------------------------------------------------------------


def colored(page: Page, color: tuple[int, int, int]) -> int:
    """Pixels of the main canvas near a colour."""
    number: int = page.evaluate(
        """([r, g, b]) => {
            const canvas = document.querySelector("canvas"), { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let n = 0;
            for (let i = 0; i < data.length; i += 4) n += Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 30;
            return n;
        }""",
        list(color),
    )
    return number


def frames(page: Page) -> int:
    return int(page.get_attribute(".pk-over", "data-frames") or 0)


def after(page: Page, act: Callable[[], Any]) -> None:
    """Do something and wait until the picture has been painted again."""
    before = frames(page)
    act()
    page.wait_for_function("n => document.querySelector('.pk-over').dataset.frames > n", arg=before)


BLUE, VERMILLION = (0, 114, 178), (213, 94, 0)


def test_lines_legend_and_words(show: Show) -> None:
    page = show(Curve(training(apart=True), "loss"))
    assert colored(page, BLUE) > 300 and colored(page, VERMILLION) > 300
    assert page.locator(".pk-legend > span").all_inner_texts() == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert page.inner_text(".pk-status") == "loss · 4 ranks · finished"
    assert "Curve of loss" in (page.get_attribute(".pk-over", "aria-label") or "")
    page = show(Curve(training()))
    assert page.locator(".pk-legend > span").all_inner_texts() == ["ranks 0-3"]
    assert page.inner_text(".pk-status") == "loss 0.1405, accuracy 0.8577 · 4 ranks · finished"


def test_keys_move_a_cursor_that_is_read_out(show: Show) -> None:
    page = show(Curve(training(apart=True)))
    page.focus(".pk-over")
    for key, words in [
        ("End", "loss of rank 0 at step 40, 39 s: 0.1405"),
        ("ArrowLeft", "loss of rank 0 at step 39, 38 s: 0.1447"),
        ("Shift+ArrowLeft", "loss of rank 0 at step 35, 34 s: 0.1667"),
        ("ArrowDown", "loss of rank 1 at step 35, 34 s: 1.017"),
        ("Home", "loss of rank 1 at step 1, 0 s: 2.1"),
        ("ArrowLeft", "loss of rank 1 at step 1, 0 s: 2.1"),
        ("Escape", ""),
    ]:
        after(page, lambda key=key: page.keyboard.press(key))
        assert page.inner_text(".pk-info") == words
    assert page.get_attribute(".pk-info", "aria-live") == "polite"


def test_the_pointer_reads_the_nearest_value(show: Show) -> None:
    page = show(Curve(training(apart=True), "loss"))
    box = page.locator(".pk-over").bounding_box()
    assert box is not None
    after(page, lambda: page.mouse.move(box["x"] + 500, box["y"] + 30))
    assert page.locator(".pk-tip b").inner_text().endswith("rank 3")
    assert page.locator(".pk-tip div").count() == 4  # the step, and the other three lines
    after(page, lambda: page.mouse.click(box["x"] + 500, box["y"] + 235))
    assert page.inner_text(".pk-info").startswith("loss of rank 0 at step")


def test_switches_and_table(show: Show) -> None:
    page = show(Curve(training()))
    after(page, lambda: page.click("button[value=l]"))
    assert page.evaluate("window.model.get('log')") is True
    assert page.get_attribute("button[value=l]", "aria-pressed") == "true"
    after(page, lambda: page.keyboard.press("x"))
    assert page.evaluate("window.model.get('x')") == "seconds"
    after(page, lambda: page.keyboard.press("t"))
    page.wait_for_selector(".pk-table td")
    assert page.locator(".pk-table th").all_inner_texts() == ["step", "loss, ranks 0-3", "accuracy, ranks 0-3"]
    assert page.locator(".pk-table tr").nth(1).locator("td").all_inner_texts() == ["1", "2.1", "0.3624"]


def test_dark_pages_narrow_pages_and_a_change_of_theme(show: Show) -> None:
    page = show(Curve(training(), "loss"), width=320, style=DARK)
    assert page.get_attribute(".partkit-curve", "data-theme") == "dark"
    assert colored(page, (17, 17, 17)) > 10_000 and colored(page, (75, 163, 219)) > 50
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    legend = page.locator(".pk-legend svg").get_attribute("style")
    after(page, lambda: page.evaluate("document.body.setAttribute('style', '')"))
    assert page.locator(".pk-legend svg").get_attribute("style") != legend
    assert page.get_attribute(".partkit-curve", "data-theme") == "light"
    after(page, lambda: page.set_viewport_size({"width": 700, "height": 500}))
    assert page.evaluate("document.querySelector('canvas').width") == 700


@pytest.mark.parametrize("reduced_motion", ["no-preference", "reduce"])
def test_new_points_are_drawn_on_top_and_several_views_agree(show: Show, reduced_motion: str) -> None:
    live = Live(1)
    live.note(0, 2.0)
    live.note(0, 1.0)
    curve = Curve(live.trace)
    curve._pump.stop()  # type: ignore[union-attr]
    curve._pump.join(10)  # type: ignore[union-attr]
    page = show(curve, reduced_motion=reduced_motion)
    page.evaluate("window.cleanups.push(window.mount())")
    first = curve._feed.encoder.num_events
    for value in [1.5] * 30 + [9.0, math.nan, 1e300, 3.0]:
        live.note(0, value)
    block = base64.b64encode(curve._feed.encoder.encode()).decode()
    page.evaluate("([m, b]) => window.receive(m, b)", [{"first": first, "run": 0, "size": 1}, block])
    page.wait_for_function("[...document.querySelectorAll('.pk-over')].every((one) => one.dataset.painted === '36')")
    page.evaluate("([m, b]) => window.receive(m, b)", [{"first": 99, "run": 0, "size": 1}, block])
    assert page.evaluate("window.sent") == [{"type": "resend"}]
    page.evaluate("() => { for (const cleanup of window.cleanups) cleanup(); window.stop(); }")
    assert page.evaluate("[document.querySelectorAll('canvas').length, window.model.count()]") == [0, 0]
    curve.close()


ONE = Trace.from_events([Event(0, "metric", 1.0, 1.0, tag="loss", value=2.0)])


@pytest.mark.parametrize("trace", [Trace.from_events([], size=2), ONE, training(10_000, apart=True)], ids=["none", "one", "10,000 on each of 4 ranks"])
@pytest.mark.parametrize("log", [False, True])
def test_no_point_one_point_and_many(show: Show, trace: Trace, log: bool) -> None:
    page = show(Curve(trace, "loss", log=log, x="seconds"))
    many = len(trace) > 1000
    assert (colored(page, BLUE) > 20) == (len(trace) > 0)
    assert ("band: lowest to highest" in page.inner_text(".pk-status")) == many
