"""The matrix without a kernel: what it accepts, sends and stores; and in a browser: colours, keys, words."""

from __future__ import annotations

import base64
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from partkit.figures.comm_matrix import MatrixEncoder
from partkit.figures.palette import amounts
from partkit.tracing import Event, Recorder, Trace
from partkit.widgets.comm_matrix import CommMatrix
from partkit.widgets.showing import WIDGET
from tests.widgets.demo_traces import training
from tests.widgets.fake_display import Display

DARK = "--jp-layout-color0: #111111; --jp-ui-font-color0: #e6e6e6; background: #111111"
Show = Callable[..., Page]


def everyone(size: int) -> Trace:
    """Rank r sends r + 1 times 100 bytes to each other rank."""
    pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
    return Trace.from_events([Event(a, "send", 0, 1, peer=b, nbytes=100 * (a + 1), span="step" if b else "", group="tp" if b == 1 else "") for a, b in pairs])


def ring(size: int) -> Trace:
    """Each rank sends to the next one."""
    return Trace.from_events([Event(rank, "send", 0, 1, peer=(rank + 1) % size, nbytes=100) for rank in range(size) if size > 1], size=size)


class Live:
    """A run that goes on."""

    def __init__(self, size: int = 2) -> None:
        self.trace = Trace(size)
        self.recorders = [Recorder(rank) for rank in range(size)]

    def send(self, src: int, dst: int, nbytes: int, span: str = "step") -> None:
        self.recorders[src].add("send", 0.0, 1.0, dst, nbytes, 0, "", span)
        self.trace.append(self.recorders[src].drain())

    def finish(self, matrix: CommMatrix) -> None:
        """End the run; the matrix's pump ends with it."""
        self.trace.finished.set()
        assert matrix._pump is not None
        matrix._pump.join(10)
        assert not matrix._pump.is_alive()


# -- without a browser -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: CommMatrix(3), TypeError, r"CommMatrix\(source=3\): source is a int; give a Trace"),
        (lambda: CommMatrix(everyone(2), unit="kB"), ValueError, r"""unit='kB'\): unit is "bytes" or "messages\""""),  # type: ignore[arg-type]
        (
            lambda: CommMatrix(everyone(2), phase="stop"),
            ValueError,
            r"phase='stop'\): no message of this run is in it; there are 'step', 'no span', 'group tp'",
        ),
        (lambda: CommMatrix(Trace.from_events([]), phase="x"), ValueError, r"there are no messages at all"),
        (lambda: CommMatrix(everyone(2), height=3), ValueError, r"CommMatrix\(height=3\): height is a number of pixels from 40"),
    ],
)
def test_refusals(make: Callable[[], CommMatrix], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_a_run_that_goes_on_may_still_come_to_its_phase_and_is_sent_piece_by_piece() -> None:
    live, sent = Live(), list[tuple[dict[str, Any], bytes]]()
    matrix = CommMatrix(live.trace, phase="later")
    matrix.send = lambda content, buffers: sent.append((content, buffers[0]))  # type: ignore[method-assign]
    for nbytes in (8, 16):
        live.send(0, 1, nbytes, "later")
    live.finish(matrix)
    assert matrix.snapshot == b"".join(matrix._blocks) == b"".join(block for _, block in sent)
    assert matrix.meta["live"] is False and matrix.meta["total"] == 2
    assert "24 bytes in 2 messages" in matrix._repr_mimebundle_()["text/plain"]
    matrix.close()


def test_when_the_run_ends_the_output_becomes_a_still_picture(notebook: None, display: Display) -> None:
    live = Live()
    matrix = CommMatrix(live.trace, unit="messages")
    live.send(0, 1, 8)
    matrix._ipython_display_()
    assert WIDGET in display.shown[0]
    live.finish(matrix)
    assert [set(bundle) for bundle in display.replaced] == [{"text/html", "text/plain"}]
    assert display.replaced[0]["text/plain"].startswith("messages sent, 2 ranks: 8 bytes in 1 message\n")
    matrix.close()


def test_without_a_reader_the_picture_alone_is_shown(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    matrix = CommMatrix(training(3))
    matrix._ipython_display_()
    assert [set(bundle) for bundle in display.shown] == [{"text/html", "text/plain"}] and display.replaced == []
    matrix.close()


def test_closed_matrices_are_freed() -> None:
    matrices = [CommMatrix(everyone(3)) for _ in range(3)]
    alive = [weakref.ref(matrix) for matrix in matrices]
    for matrix in matrices:
        matrix.close()
    del matrix, matrices
    gc.collect()
    assert [one for one in alive if one() is not None] == []


# -- in a browser ----------------------------------------------------------------------------------------------------


def colored(page: Page, color: str) -> int:
    """Pixels of the main canvas that have exactly the colour ``#rrggbb``."""
    number: int = page.evaluate(
        """(color) => {
            const wanted = [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16)), canvas = document.querySelector("canvas");
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let n = 0;
            for (let i = 0; i < data.length; i += 4) n += wanted.every((value, k) => data[i + k] === value);
            return n;
        }""",
        color,
    )
    return number


def after(page: Page, act: Callable[[], Any]) -> None:
    """Do something and wait until the picture has been painted again."""
    before = int(page.get_attribute(".pk-over", "data-frames") or 0)
    act()
    page.wait_for_function("n => document.querySelector('.pk-over').dataset.frames > n", arg=before)


LITTLE, MUCH = amounts("light")[0], amounts("light")[-1]


def test_cells_chooser_and_words(show: Show) -> None:
    page = show(CommMatrix(everyone(4), title="Run"))
    assert colored(page, MUCH) > 3 * 80 * 30  # the three cells of rank 3
    assert page.inner_text(".pk-title") == "Run"
    assert page.inner_text(".pk-status") == "everything · 3,000 bytes in 12 messages · 4 ranks · 12 of 12 pairs used · finished"
    assert page.locator("select option").all_inner_texts() == ["everything", "step", "no span", "group tp"]
    assert page.locator("optgroup").evaluate_all("all => all.map((one) => one.label)") == ["Spans", "Groups"]
    assert (page.get_attribute(".pk-over", "aria-label") or "").startswith("Matrix of bytes sent. everything")


def test_a_phase_shows_its_own_messages(show: Show) -> None:
    page = show(CommMatrix(everyone(4), phase="group tp"))
    assert page.inner_text(".pk-status").startswith("group tp · 800 bytes in 3 messages · 4 ranks · 3 of 12 pairs used")
    after(page, lambda: page.select_option("select", "step"))
    assert page.evaluate("model.get('phase')") == "step"
    assert page.inner_text(".pk-status").startswith("step · 2,100 bytes in 9 messages")
    page.focus(".pk-over")
    for phase in ("no span", "group tp", "", "step"):
        after(page, lambda: page.keyboard.press("]"))
        assert page.evaluate("model.get('phase')") == phase == page.locator("select").input_value()
    after(page, lambda: page.keyboard.press("["))
    assert page.evaluate("model.get('phase')") == ""


def test_keys_move_a_cell_that_is_read_out(show: Show) -> None:
    page = show(CommMatrix(training(4)))
    page.focus(".pk-over")
    for key, words in [
        ("Home", "rank 0 to rank 1: 12 messages, 36,000 bytes · 100 % of what rank 0 sends, 100 % of what rank 1 receives"),
        ("ArrowRight", "rank 0 to rank 2: 0 messages, 0 bytes"),
        ("ArrowDown", "rank 1 to rank 2: 12 messages, 36,000 bytes · 100 % of what rank 1 sends, 100 % of what rank 2 receives"),
        ("ArrowLeft", "rank 1 to rank 1: 0 messages, 0 bytes"),
        ("Shift+ArrowRight", "rank 1 to rank 2: 12 messages, 36,000 bytes · 100 % of what rank 1 sends, 100 % of what rank 2 receives"),
        ("Shift+ArrowRight", "rank 1 to rank 3: 0 messages, 0 bytes"),
        ("Escape", ""),
    ]:
        page.keyboard.press(key)
        assert page.inner_text(".pk-info") == words
    assert page.get_attribute(".pk-info", "aria-live") == "polite"


def test_units_and_logarithmic_colours(show: Show) -> None:
    page = show(CommMatrix(everyone(8)))
    assert colored(page, LITTLE) < 400  # in the scale only: the least is an eighth of the most
    after(page, lambda: page.click("button[value=l]"))
    assert page.evaluate("model.get('log')") is True and page.get_attribute("button[value=l]", "aria-pressed") == "true"
    assert colored(page, LITTLE) > 7 * 50 * 20
    after(page, lambda: page.keyboard.press("m"))
    assert page.evaluate("model.get('unit')") == "messages" and page.get_attribute("button[value=b]", "aria-pressed") == "false"
    assert colored(page, MUCH) > 56 * 50 * 20  # all pairs sent one


def test_the_pointer_reads_a_cell_and_a_click_keeps_it(show: Show) -> None:
    page = show(CommMatrix(training(2)))
    box = page.locator(".pk-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 220, box["y"] + 70)
    assert page.locator(".pk-tip b").inner_text() == "rank 0 to rank 1: 4 messages, 24,000 bytes"
    page.mouse.click(box["x"] + 100, box["y"] + 120)
    assert page.inner_text(".pk-info").startswith("rank 1 to rank 0")
    page.mouse.move(box["x"] + 600, box["y"] + 70)
    assert page.locator(".pk-tip").is_hidden()


def test_the_table_twin_has_the_totals_and_of_many_ranks_the_largest_pairs(show: Show) -> None:
    page = show(CommMatrix(everyone(3)))
    after(page, lambda: page.click("button[value=t]"))
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator(".pk-table tr").all()]
    assert rows == [
        ["from / to", "0", "1", "2", "sent"],
        ["0", "", "100", "100", "200"],
        ["1", "200", "", "200", "400"],
        ["2", "300", "300", "", "600"],
        ["received", "500", "400", "300", "1,200"],
    ]
    page = show(CommMatrix(everyone(30)))
    after(page, lambda: page.click("button[value=t]"))
    assert page.inner_text(".pk-table caption") == "200 of 870 pairs of ranks, the most first"
    assert page.locator(".pk-table tr").nth(1).locator("td").all_inner_texts() == ["29", "0", "1", "3,000"]


def test_dark_pages_narrow_pages_and_a_change_of_theme(show: Show) -> None:
    page = show(CommMatrix(training(8)), width=320, style=DARK)
    assert page.get_attribute(".partkit-matrix", "data-theme") == "dark"
    assert colored(page, "#111111") > 10_000 and colored(page, amounts("dark")[-1]) > 500
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    after(page, lambda: page.evaluate("document.body.setAttribute('style', '')"))
    assert page.get_attribute(".partkit-matrix", "data-theme") == "light" and colored(page, MUCH) > 500
    after(page, lambda: page.set_viewport_size({"width": 700, "height": 500}))
    assert page.evaluate("document.querySelector('canvas').width") == 700


@pytest.mark.parametrize("size", [1, 2, 64, 512])
def test_few_ranks_and_many_are_drawn_and_no_cell_is_lost(show: Show, size: int) -> None:
    page = show(CommMatrix(ring(size)), width=400)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert colored(page, MUCH) >= (size if size > 1 else 0)
    assert f" {size:,} rank" in page.inner_text(".pk-status")


def test_a_live_run_grows_several_views_agree_and_a_missed_block_is_asked_for(show: Show) -> None:
    live = Live()
    matrix = CommMatrix(live.trace)
    matrix._pump.stop()  # type: ignore[union-attr]
    matrix._pump.join(10)  # type: ignore[union-attr]
    page = show(matrix)
    page.evaluate("window.cleanups.push(window.mount())")
    encoder = MatrixEncoder(live.trace)
    for first, nbytes in ((0, 1000), (1, 2000)):
        live.send(0, 1, nbytes)
        block = base64.b64encode(encoder.encode()).decode()
        page.evaluate("([m, b]) => window.receive(m, b)", [{"first": first, "run": 0, "size": 2}, block])
    page.wait_for_function("[...document.querySelectorAll('.pk-over')].every((one) => one.dataset.painted === '2')")
    for status in page.locator(".pk-status").all_inner_texts():
        assert status == "everything · 3,000 bytes in 2 messages · 2 ranks · 1 of 2 pairs used · running"
    assert page.locator("select").first.locator("option").all_inner_texts() == ["everything", "step"]
    page.evaluate("([m, b]) => window.receive(m, b)", [{"first": 99, "run": 0, "size": 2}, block])
    assert page.evaluate("window.sent") == [{"type": "resend"}]
    page.evaluate("() => { for (const cleanup of window.cleanups) cleanup(); window.stop(); }")
    assert page.evaluate("[document.querySelectorAll('canvas').length, window.model.count()]") == [0, 0]
    matrix.close()
