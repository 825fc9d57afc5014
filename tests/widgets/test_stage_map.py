"""Layers on ranks, with cuts that are moved: by functions, by wishes of a browser, by keys and by drag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from playwright.sync_api import Page
from torch import Tensor, nn

import partkit as pk
from partkit.pipeline_parallel import one_f_one_b
from partkit.pipeline_parallel.execution.cut import cut_module
from partkit.widgets.showing import WIDGET
from partkit.widgets.stage_map import StageMap
from tests.browser.pixels import count
from tests.widgets.fake_display import Display
from tests.widgets.test_curve import DARK, after

Show = Callable[..., Page]
EDGES = """(times) => {
    const pen = document.createElement("canvas").getContext("2d"), wide = document.querySelector(".pk-over").width, all = times.reduce((a, b) => a + b);
    pen.font = "600 13px system-ui, sans-serif";
    const left = 16 + pen.measureText("rank 3").width, room = wide - left - 12, found = [left];
    for (const time of times) found.push(found.at(-1) + 12 + ((room - 12 * times.length) * time) / all);
    return found;
}"""
"""Where the layers of a map of four ranks begin, for times of the layers: in proportion, and 12 pixels for each."""
LAYERS = [(f"{i} block", 1e-3, 4e6, 1e6) for i in range(7)] + [("7 head", 3e-3, 1e6, 2e6)]


@pytest.fixture
def view() -> Iterator[StageMap]:
    made = StageMap(LAYERS, [2, 4, 6], schedule=one_f_one_b(4, 8), title="A model")
    yield made
    made.close()


# -- without a browser -----------------------------------------------------------------------------------------------


def test_what_is_moved_can_be_read_and_undone(view: StageMap) -> None:
    before = view.bubble
    assert view.trace.makespan > 0 and view.stages[3].layers[-1].name == "7 head"
    # the last rank is never idle once it has begun: 3 forwards, 8 micro-batches, 3 backwards take 2 + 32 + 4 ms; then 7/3 + 24 + 14/3
    assert view.balance() == "stage 3 begins at 7 head: slowest is rank 2 with 3 ms, before rank 3 with 4 ms; bubble 35.5 %, before 47.4 %"
    assert before == pytest.approx(1 - 80 / (4 * 38)) and view.bubble == pytest.approx(1 - 80 / (4 * 31))
    assert (view.cut, view.cut_names) == ([2, 4, 7], ["2 block", "4 block", "7 head"])
    view.undo()
    assert view.cut == [2, 4, 6] and view.bubble == before and view.chart["redo"]
    view.redo()
    assert view.cut == [2, 4, 7] and "bubble 35.5 %; with even stages 27.3 %" in repr(view)


def test_the_cut_is_one_that_a_pipeline_takes() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    view = StageMap.of(cut_module(model, 2, [1]), {str(i): (1.0, 64.0) for i in range(5)})
    view.move(1, "3")
    for cut in (view.cut, view.cut_names):
        assert [list(dict(piece.module.named_children())) for piece in cut_module(model, 2, cut).stages] == [["0", "1", "2"], ["3", "4"]]
    view.close()


class Model(nn.Module):
    """No sequence: blocks in a list, a parameter of its own, a head that is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(10, 4), nn.Parameter(torch.zeros(3, 4))
        self.blocks = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(4))
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.positions
        for block in self.blocks:
            x = x + block(x)
        y: Tensor = self.head(x)
        return y


def test_layers_of_a_graph_have_the_names_at_which_it_is_cut() -> None:
    view = StageMap.of(cut_module(Model(), 3, ["blocks.1", "blocks.3"]), {"blocks.3": (2.0, 8.0)})
    assert [(layer.name, layer.parameter_bytes) for stage in view.stages for layer in stage.layers] == [
        ("embed", 160 + 48),  # and the positions
        *[(f"blocks.{i}", 64) for i in range(4)],
        ("head", 160),
    ]
    assert view.stages[2].layers[0].seconds == 2.0 and view.cut_names == ["blocks.1", "blocks.3"]
    view.move(1, "blocks.2")
    again = StageMap.of(cut_module(Model(), 3, view.cut_names))
    assert again.cut_names == view.cut_names == ["blocks.2", "blocks.3"]
    view.close()
    again.close()


def test_wishes_of_a_reader_are_granted_or_answered(view: StageMap) -> None:
    view._hear({"type": "do", "what": "move", "stage": 3, "to": 5, "gesture": "1"})
    view._hear({"type": "do", "what": "move", "stage": 3, "to": 7, "gesture": "1"})
    assert view.chart["cut"] == [2, 4, 7] and view.said["text"].startswith("stage 3 begins at 7 head: slowest is rank 2 with 3 ms, before rank 3 with 4 ms")
    view._hear({"type": "do", "what": "move", "stage": 3, "to": 4})
    assert view.said["refused"] and "stage 3 can begin at layers 5 to 7" in view.said["text"] and view.cut == [2, 4, 7]
    first = view.said
    view._hear({"type": "do", "what": "move", "stage": 3, "to": 4})
    assert view.said != first and view.said["text"] == first["text"]  # a browser that waits for an answer gets one
    view._hear({"type": "do", "what": "undo"})
    assert view.cut == [2, 4, 6] and not view.said["refused"]  # a drag is one step
    view._hear({"type": "do", "what": "redo"})
    view._hear({"type": "do", "what": "balance", "by": "parameters"})
    assert view.cut == [2, 4, 6] and "most parameters are on rank 0 with 8 MB, before rank 2 with 12 MB" in view.said["text"]


def test_what_is_stored_is_what_was_left(notebook: None, display: Display, view: StageMap) -> None:
    view._ipython_display_()
    assert WIDGET in display.shown[0]
    view._hear({"type": "shown"})
    view.move(3, 7)
    view._hear({"type": "do", "what": "settle"})
    view._hear({"type": "do", "what": "settle"})  # nothing has changed since
    assert [set(bundle) for bundle in display.replaced] == [{"text/html", "text/plain"}] * 2
    assert "rank 2 is the slowest" in display.replaced[-1]["text/plain"] and "rank 2 is the slowest" in display.replaced[-1]["text/html"]


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"StageMap\(measure='speed'\): measure is one of time, parameters, activations"):
        pk.StageMap(LAYERS, [1], measure="speed")  # type: ignore[arg-type]


# -- in a browser ----------------------------------------------------------------------------------------------------


def wishes(page: Page) -> list[dict[str, Any]]:
    """What the page has asked for; leaving the view left aside."""
    sent: list[dict[str, Any]] = page.evaluate("window.sent.filter((one) => one.type === 'do' && one.what !== 'settle')")
    return [{key: value for key, value in wish.items() if key not in ("type", "gesture")} for wish in sent]


def answer(page: Page, view: StageMap) -> None:
    """What Python would send back."""
    after(page, lambda: page.evaluate("([chart, said]) => { model.set('chart', chart); model.set('said', said); }", [view.chart, view.said]))


def test_keys_choose_and_move_cuts_and_tell_layers(show: Show, view: StageMap) -> None:
    page = show(view)
    page.focus(".pk-over")
    assert page.inner_text(".pk-info").startswith("Drag a cut")
    after(page, partial(page.keyboard.press, "n"))
    assert page.inner_text(".pk-info") == (
        "0 block, layer 0, on rank 0, stage 0 · 1 ms a micro-batch · 4 MB of parameters · 1 MB of activations for each of 4 micro-batches in flight"
    )
    after(page, partial(page.keyboard.press, "ArrowDown"))
    assert "Cut before stage 2, at 4 block, is chosen." in (page.get_attribute(".pk-over", "aria-label") or "")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # there is no room: stage 2 keeps a layer
    assert wishes(page) == [{"what": "move", "stage": 2, "to": 5}]
    view._hear({"type": "do", "what": "move", "stage": 2, "to": 5})
    answer(page, view)
    assert page.inner_text(".pk-info").startswith("stage 2 begins at 5 block") and page.is_enabled("button[value=u]")
    for key in "bu":
        page.keyboard.press(key)
    page.keyboard.press("Control+Shift+Z")
    after(page, partial(page.keyboard.press, "3"))
    assert [wish["what"] for wish in wishes(page)[1:]] == ["balance", "undo", "redo"]
    assert page.inner_text("button[value=b]") == "Balance by activations" and page.evaluate("model.get('measure')") == "activations"
    page.keyboard.press("b")
    assert wishes(page)[-1] == {"what": "balance", "by": "activations"}


def test_a_cut_is_dragged_over_several_layers_in_one_gesture(show: Show, view: StageMap) -> None:
    page = show(view)
    box = page.locator(".pk-over").bounding_box()
    edges = page.evaluate(EDGES, [1, 1, 1, 1, 1, 1, 1, 3])
    assert box is not None
    page.mouse.move(box["x"] + edges[6], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + edges[7], box["y"] + 50)
    page.mouse.move(box["x"] + edges[5] + 3, box["y"] + 50)  # asked for once the first wish has been answered
    assert wishes(page) == [{"what": "move", "stage": 3, "to": 7}]
    view._hear({"type": "do", "what": "move", "stage": 3, "to": 7})
    answer(page, view)
    page.mouse.up()
    page.mouse.move(box["x"] + edges[1], box["y"] + 50)  # no longer
    assert wishes(page) == [{"what": "move", "stage": 3, "to": 7}, {"what": "move", "stage": 3, "to": 5}]
    assert len(set(page.evaluate("window.sent.filter((one) => one.what === 'move').map((one) => one.gesture)"))) == 1
    page.mouse.move(box["x"] + edges[1] + 20, box["y"] + 50)
    assert page.inner_text(".pk-tip b") == "1 block, layer 1, on rank 0, stage 0"


def test_refusals_and_the_table_are_shown(show: Show, view: StageMap) -> None:
    page = show(view)
    after(page, lambda: page.evaluate("model.set('said', {text: 'stage 3 can begin at layers 5 to 7', refused: true})"))
    assert page.locator(".pk-info.pk-refused").inner_text() == "stage 3 can begin at layers 5 to 7"
    after(page, lambda: page.click("button[value=t]"))
    assert page.locator(".pk-table tr").count() == 5 and "6 block, 7 head" in page.inner_text(".pk-table")
    assert "bubble" in page.inner_text(".pk-status")
    page.focus("select")
    seen = []
    for _ in range(6):
        seen.append(page.evaluate("(({ activeElement: node }) => [node.value ?? node.localName, getComputedStyle(node).outlineStyle])(document)"))
        page.keyboard.press("Tab")
    assert seen == [["time", "solid"], ["b", "solid"], ["t", "solid"], ["?", "solid"], ["canvas", "solid"], ["body", "none"]]


@pytest.mark.parametrize(("width", "style", "colors"), [(400, DARK, ["#4ba3db", "#1fb88d"]), (1200, "", ["#0072b2", "#009e73"])])
def test_dark_narrow_and_wide(show: Show, view: StageMap, width: int, style: str, colors: list[str]) -> None:
    page = show(view, width=width, style=style)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.get_attribute(".partkit-stages", "data-theme") == ("dark" if style else "light")
    tops, bottoms = page.evaluate(
        "[...document.querySelectorAll('.pk-bar, .pk-over, .pk-status')].map((node) => node.getBoundingClientRect())"
        ".reduce(([tops, bottoms], { top, bottom }) => [[...tops, top], [...bottoms, bottom]], [[], []])"
    )
    assert all(top >= bottom for top, bottom in zip(tops[1:], bottoms, strict=False))  # one below the other
    for color in colors:  # of the backwards on ranks 0 and 2
        assert count(page.locator(".pk-over"), color)[0] > 100


@pytest.mark.parametrize("width", [400, 1200])
def test_no_word_is_cut_at_the_lower_edge(show: Show, width: int) -> None:
    """Without a schedule the words of the mean are the last, in a narrow view."""
    page = show(StageMap(LAYERS, [2, 4, 6]), width=width)
    ink = """canvas => { const last = canvas.getContext("2d").getImageData(0, canvas.height - 2, canvas.width, 2).data; return new Set(last).size; }"""
    assert page.locator(".pk-over").evaluate(ink) == 1  # white


def test_a_view_that_goes_leaves_nothing(show: Show, view: StageMap) -> None:
    page = show(view)
    page.evaluate("() => { for (const cleanup of window.cleanups) cleanup(); window.stop(); }")
    assert page.evaluate("[document.querySelectorAll('canvas').length, window.model.count()]") == [0, 0]
