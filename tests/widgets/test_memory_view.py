"""The view of memory without a kernel: what it accepts, sends and stores; and in a browser: areas, keys, words."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from partkit.tracing import Recorder, Trace
from partkit.widgets.memory_view import MemoryView
from partkit.widgets.showing import WIDGET
from tests.widgets.fake_display import Display
from tests.widgets.memory_traces import note, training
from tests.widgets.test_curve import DARK, after, colored

Show = Callable[..., Page]
PARAMETERS, ACTIVATIONS = (0, 114, 178), (213, 94, 0)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: MemoryView(3), TypeError, r"MemoryView\(source=3\): source is a int; give a Trace"),
        (lambda: MemoryView(training([1]), x="step"), ValueError, r"""x='step'\): x is "seconds" or "changes\""""),  # type: ignore[arg-type]
        (lambda: MemoryView(training([1]), height=3), ValueError, r"MemoryView\(height=3\): height is a number of pixels from 40"),
    ],
)
def test_refusals(make: Callable[[], MemoryView], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_a_run_that_goes_on_is_sent_piece_by_piece_and_ends_as_a_picture(notebook: None, display: Display) -> None:
    trace, recorder = Trace(1), Recorder(0)
    view = MemoryView(trace, title="Step")
    sent: list[dict[str, Any]] = []
    view.send = lambda content, buffers: sent.append(content)  # type: ignore[method-assign]
    view._ipython_display_()
    assert WIDGET in display.shown[0] and "still running" not in display.shown[0]["text/plain"]
    for k in range(5):
        note(recorder, {"activations": 100 * k})
        trace.append(recorder.drain())
    trace.finished.set()
    assert view._pump is not None
    view._pump.join(10)
    assert [content["first"] for content in sent] == sorted({content["first"] for content in sent})
    assert view.snapshot == b"".join(view._blocks) and view.meta["live"] is False
    assert [set(bundle) for bundle in display.replaced] == [{"text/html", "text/plain"}]
    assert display.replaced[0]["text/plain"].startswith("Step: memory of 1 rank: peak 400 bytes on rank 0")
    view.close()


# -- in a browser ----------------------------------------------------------------------------------------------------


def test_areas_words_and_table(show: Show) -> None:
    page = show(MemoryView(training([1, 1], caps=[1500, 1500]), title="Step"))
    assert colored(page, PARAMETERS) > 5000 and colored(page, ACTIVATIONS) > 5000
    assert page.locator(".pk-legend > span").all_inner_texts() == ["\xa0parameters", "\xa0activations"]
    assert page.locator(".pk-status").all_inner_texts() == [
        "peak 1 kB on ranks 0-1 · 67% of the device's 1.5 kB · 2 ranks · finished",
        "Largest at that peak: parameters float32[10, 10] 400 bytes",
    ]
    after(page, lambda: page.click("button[value=t]"))
    rows = page.locator(".pk-table tr")
    assert rows.nth(0).locator("th").all_inner_texts() == [
        "change", "time", "parameters", "optimizer state", "buffers", "gradients", "activations", "other", "all", "where",
    ]  # fmt: skip
    assert rows.nth(4).locator("td").all_inner_texts() == ["4", "3 ms", "400", "0", "0", "0", "600", "0", "1,000", "in forward, train.py:4"]
    assert rows.count() == 9


def test_keys_read_states_out_and_go_from_rank_to_rank(show: Show) -> None:
    page = show(MemoryView(training([1, 2])))
    page.focus(".pk-over")
    for key, words in [
        ("p", "rank 1: 2 kB; 3 ms · in forward, train.py:4, activations 1.2 kB, parameters 800 bytes"),
        ("ArrowRight", "rank 1: 1.87 kB; 4 ms · in backward, train.py:5, activations 800 bytes, gradients 266 bytes, parameters 800 bytes"),
        ("ArrowUp", "rank 0: 933 bytes; 4 ms · in backward, train.py:5, activations 400 bytes, gradients 133 bytes, parameters 400 bytes"),
        ("Home", "rank 0: 400 bytes; 0 s · train.py:2, parameters 400 bytes"),
        ("ArrowLeft", "rank 0: 400 bytes; 0 s · train.py:2, parameters 400 bytes"),
        ("End", "rank 0: 400 bytes; 7 ms · train.py:6, parameters 400 bytes"),
        ("x", "rank 0: 400 bytes; change 8 of 8 · train.py:6, parameters 400 bytes"),
        ("Escape", ""),
    ]:
        after(page, lambda key=key: page.keyboard.press(key))
        assert page.inner_text(".pk-info") == words
    assert page.evaluate("window.model.get('x')") == "changes"
    assert page.get_attribute(".pk-info", "aria-live") == "polite"


def test_the_pointer_reads_a_moment_and_chooses_among_many_ranks(show: Show) -> None:
    page = show(MemoryView(training(list(range(1, 17)))))
    box = page.locator(".pk-over").bounding_box()
    assert box is not None
    after(page, lambda: page.mouse.move(box["x"] + 300, box["y"] + 130))
    assert page.locator(".pk-tip b").inner_text().startswith("rank 15: ")  # that with the highest peak is shown
    after(page, lambda: page.mouse.click(box["x"] + 75, box["y"] + 380))  # the first column below
    after(page, lambda: page.mouse.click(box["x"] + 300, box["y"] + 130))
    assert page.inner_text(".pk-info").startswith("rank 0: ")


def test_dark_pages_narrow_pages_and_a_change_of_theme(show: Show) -> None:
    page = show(MemoryView(training([1])), width=320, style=DARK)
    assert page.get_attribute(".partkit-memory", "data-theme") == "dark"
    assert colored(page, (75, 163, 219)) > 2000 and page.evaluate("document.documentElement.scrollWidth") == 320
    after(page, lambda: page.evaluate("document.body.setAttribute('style', '')"))
    assert colored(page, PARAMETERS) > 2000 and page.get_attribute(".partkit-memory", "data-theme") == "light"


@pytest.mark.parametrize("trace", [Trace.from_events([], size=2), training([1]), training(list(range(1, 200)))], ids=["none", "one rank", "199 ranks"])
def test_nothing_little_and_much(show: Show, trace: Trace) -> None:
    page = show(MemoryView(trace, x="changes"))
    assert (colored(page, PARAMETERS) > 20) == (len(trace) > 0)
    assert (page.locator(".pk-status").first.inner_text().startswith("no memory noted")) == (len(trace) == 0)


def test_new_states_are_drawn_and_a_view_that_goes_leaves_nothing(show: Show) -> None:
    trace, recorder = Trace(1), Recorder(0)
    note(recorder, {"parameters": 400})
    trace.append(recorder.drain())
    view = MemoryView(trace)
    view._pump.stop()  # type: ignore[union-attr]
    view._pump.join(10)  # type: ignore[union-attr]
    page = show(view)
    first = view._feed.encoder.num_events
    note(recorder, {"activations": 800, "gradients": 10}, 1.0)
    trace.append(recorder.drain())
    block = base64.b64encode(view._feed.encoder.encode()).decode()
    page.evaluate("([m, b]) => window.receive(m, b)", [{"first": first, "run": 0, "size": 1}, block])
    page.wait_for_function("document.querySelector('.pk-over').dataset.painted === '2'")
    assert page.locator(".pk-status").first.inner_text().startswith("peak 1.21 kB on rank 0 · 1 rank · running")
    page.evaluate("() => { for (const cleanup of window.cleanups) cleanup(); window.stop(); }")
    assert page.evaluate("[document.querySelectorAll('canvas').length, window.model.count()]") == [0, 0]
    view.close()
