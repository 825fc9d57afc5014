"""The explorer without a kernel: what it accepts, computes and stores; and in a browser: sliders, keys, words."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page

from partkit.cluster import COSTS, Cost, CostFunction, Link
from partkit.figures.cost_explorer import assemble, spec
from partkit.figures.palette import LINES
from partkit.tracing import Event, Recorder, Trace
from partkit.widgets.cost_explorer import STOPS, CostExplorer
from partkit.widgets.showing import WIDGET
from tests.widgets.fake_display import Display
from tests.widgets.painted import listen, words

DARK = "--jp-layout-color0: #111111; --jp-ui-font-color0: #e6e6e6; background: #111111"
LINK = Link(latency=1e-4, bandwidth=1e9)
Show = Callable[..., Page]


def calls(ranks: int = 4, *, link: Link = LINK, sizes: tuple[int, ...] = (1000, 100_000, 10_000_000)) -> Trace:
    """All-reduces by ring that take what the model says, and a native one of each size that takes as long."""
    events, now = [], 0.0
    for seq, nbytes in enumerate(sizes):
        for k, name in enumerate(("ring", "native")):
            seconds = COSTS["all_reduce"]["ring"](nbytes, 1, ranks, link).seconds
            tag, number = f"all_reduce[sum, {name}]", 2 * seq + k
            events += [Event(rank, "collective", now, now + seconds, None, nbytes, tag, number) for rank in range(ranks)]
            now += 2 * seconds
    return Trace.from_events(events)


def algorithm(fixed: float, per_byte: float) -> CostFunction:
    """Takes ``fixed`` latencies and moves each byte ``per_byte`` times."""
    return lambda numel, itemsize, size, link=LINK: Cost((3,), (numel,), 2, fixed * link.latency + per_byte * numel * itemsize / link.bandwidth)


CROSSING = {"small": algorithm(2.0, 3.0), "large": algorithm(12.0, 1.0)}
"""Cross at 5 latencies times the bandwidth: 500 kB."""


# -- without a browser -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: CostExplorer("all_sum"), ValueError, r"CostExplorer\(operation='all_sum'\): operation is a collective with a known cost: '"),
        (lambda: CostExplorer(measured=3), TypeError, r"CostExplorer\(source=3\): source is a int; give a Trace"),
        (lambda: CostExplorer(ranks=0), ValueError, r"CostExplorer\(ranks=0\): ranks is at least 1"),
        (lambda: CostExplorer(nbytes=0), ValueError, r"CostExplorer\(nbytes=0\): nbytes is at least 1"),
        (lambda: CostExplorer(link=Link(1.0, float("inf"))), ValueError, r"CostExplorer\(bandwidth=inf\): bandwidth is in bytes per second, above 0"),
        (lambda: CostExplorer(height=3), ValueError, r"CostExplorer\(height=3\): height is a number of pixels from 40"),
    ],
)
def test_refusals(make: Callable[[], CostExplorer], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_channels_are_a_number_or_none_are_shared() -> None:
    explorer = CostExplorer()
    with pytest.raises(ValueError, match=r"CostExplorer\(channels=-1\): channels is the number that all ranks share, or 0 if each pair has its own link"):
        explorer.channels = -1
    explorer.close()


def test_the_curves_follow_the_sliders() -> None:
    explorer = CostExplorer("all_reduce", ranks=8, link=LINK, nbytes=1000)
    for name, value in (("ranks", 4), ("latency", 2e-3), ("bandwidth", 5e8), ("channels", 1), ("nbytes", 4_000_000), ("operation", "barrier")):
        setattr(explorer, name, value)
        wanted = COSTS[explorer.operation]
        link = Link(explorer.latency, explorer.bandwidth)
        assert [row["name"] for row in explorer.chart["costs"]] == list(wanted)
        for row in explorer.chart["costs"]:
            cost = wanted[row["name"]](explorer.nbytes, 1, explorer.ranks, link)
            assert row["seconds"] == cost.through(replace(link, channels=explorer.channels or None)).seconds, name
    json.dumps(explorer.chart, allow_nan=False)
    explorer.close()


def test_a_slider_of_the_browser_is_a_trait() -> None:
    explorer = CostExplorer("all_reduce", ranks=8)
    explorer.set_state({"ranks": 2})  # what a browser's message does
    assert explorer.chart["ranks"] == 2
    explorer.close()


def test_dots_of_a_trace_and_the_number_of_ranks_that_most_of_them_have() -> None:
    explorer = CostExplorer("all_reduce", calls(5))
    assert explorer.ranks == 5
    assert [(point.algorithm, point.nbytes) for point in explorer.points] == [(name, n) for name in ("native", "ring") for n in (1000, 100_000, 10_000_000)]
    assert "planned" not in explorer._repr_mimebundle_()["text/plain"]
    assert "measured here: 6 calls as 6 dots" in explorer._repr_mimebundle_()["text/plain"]
    explorer.ranks = 6
    assert explorer.points == []
    explorer.close()


def test_the_link_is_that_of_the_world_unless_it_is_given() -> None:
    class World:
        trace = Trace.from_events([])

        class cluster:
            link = Link(latency=3e-6, bandwidth=7e9)

    with_world, given = CostExplorer("all_reduce", World()), CostExplorer("all_reduce", World(), link=LINK)
    assert (with_world.latency, with_world.bandwidth) == (3e-6, 7e9)
    assert (given.latency, given.bandwidth, given.channels) == (1e-4, 1e9, 0)
    shared = CostExplorer("all_reduce", World(), link=replace(LINK, channels=2))
    assert (shared.channels, shared.chart["channels"]) == (2, 2)
    shared.close()
    with_world.close()
    given.close()


def test_the_link_is_fitted_to_the_dots_also_by_the_button() -> None:
    explorer = CostExplorer("all_reduce", calls(link=Link(latency=2e-4, bandwidth=3e8)))
    assert explorer.fit() == Link(latency=2e-4, bandwidth=3e8)
    explorer.latency = 1e-6
    explorer._hear({"type": "fit"})
    assert explorer.latency == pytest.approx(2e-4)
    explorer.ranks = 16
    explorer._hear({"type": "fit"})  # no dots: nothing moves
    with pytest.raises(ValueError, match=r"fit\(\): a link has two numbers, so it takes two dots of all_reduce on 16 ranks"):
        explorer.fit()
    explorer.close()


def test_the_output_is_a_still_picture_in_the_end(notebook: None, display: Display) -> None:
    trace, recorders = Trace(2), [Recorder(0), Recorder(1)]
    explorer = CostExplorer("all_reduce", trace, nbytes=1000)
    explorer._ipython_display_()
    assert WIDGET in display.shown[0]
    for recorder in recorders:
        recorder.add("collective", 0.0, 1e-3, -1, 1000, 0, "all_reduce[sum, ring]")
        trace.append(recorder.drain())
    trace.finished.set()
    assert explorer._pump is not None
    explorer._pump.join(10)
    assert [set(bundle) for bundle in display.replaced] == [{"text/html", "text/plain"}]
    assert "measured here: 1 call as 1 dot" in display.replaced[0]["text/plain"]
    explorer._hear({"type": "shown"})
    assert len(display.replaced) == 2
    explorer.close()


def test_closed_explorers_are_freed() -> None:
    explorers = [CostExplorer("barrier") for _ in range(3)]
    alive = [weakref.ref(explorer) for explorer in explorers]
    for explorer in explorers:
        explorer.close()
    del explorer, explorers
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


def crossing(ranks: int = 4) -> dict[str, Any]:
    """Curves that cross once."""
    return spec(assemble("all_reduce", ranks, LINK, CROSSING), 1_000_000)


def traits(page: Page, *names: str) -> list[Any]:
    return [page.evaluate("name => model.get(name)", name) for name in names]


def test_curves_bands_and_words(show: Show) -> None:
    page = show(CostExplorer("all_reduce", nbytes=1_000_000, ranks=4, link=LINK, title="Which one?"), chart=crossing())
    assert colored(page, LINES[0][0]) > 3000 and colored(page, LINES[1][0]) > 3000
    assert page.inner_text(".pk-info") == "model, 4 ranks, 1 MB: large 2.2 ms, then small 3.2 ms (1.45 times)"
    assert page.inner_text(".pk-status") == "crossovers: small to large at 500 kB · no dots: nothing measured"
    assert page.locator("output").all_inner_texts() == ["4 ranks", "1 MB", "100 us", "1 GB/s", "own links"]
    assert page.locator("select option").all_inner_texts() == list(COSTS) and page.locator("select").input_value() == "all_reduce"
    assert page.locator("button[value=f]").is_disabled()
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator(".pk-table tr").all()]
    assert rows[1:] == [["small", "3", "1,000,000", "2", "3.2 ms"], ["large", "3", "1,000,000", "2", "2.2 ms"]]


def test_sliders_answer_to_keys_and_say_their_value(show: Show) -> None:
    page = show(CostExplorer("all_reduce", nbytes=100_000, ranks=16, link=LINK))
    slider = {name: page.locator("input").nth(k) for k, name in enumerate(("ranks", "nbytes", "latency", "bandwidth", "channels"))}
    for name, key, value in [
        ("ranks", "ArrowRight", STOPS[STOPS.index(16) + 1]),
        ("nbytes", "ArrowRight", 130_000),
        ("latency", "ArrowLeft", 8.9e-05),
        ("bandwidth", "End", 1e13),
        ("channels", "ArrowRight", 1),
    ]:
        slider[name].focus()
        after(page, lambda key=key: page.keyboard.press(key))
        assert traits(page, name) == [pytest.approx(value)]
    assert slider["bandwidth"].get_attribute("aria-valuetext") == "10 TB/s" and slider["ranks"].get_attribute("aria-label") == "Ranks"
    after(page, lambda: page.select_option("select", "barrier"))
    assert traits(page, "operation") == ["barrier"]


def test_keys_and_clicks_choose_a_size(show: Show) -> None:
    page = show(CostExplorer("all_reduce", nbytes=100_000, ranks=4, link=LINK), chart=crossing())
    page.focus(".pk-over")
    for key, name, value in [
        ("n", "nbytes", 500_000),
        ("ArrowRight", "nbytes", 630_000),
        ("Shift+ArrowRight", "nbytes", 6_300_000),
        ("p", "nbytes", 500_000),
        ("+", "ranks", 5),
        ("-", "ranks", 4),
    ]:
        after(page, lambda key=key: page.keyboard.press(key))
        assert traits(page, name) == [value]
    box = page.locator(".pk-over").bounding_box()
    assert box is not None
    after(page, lambda: page.mouse.click(box["x"] + 74, box["y"] + 200))
    assert traits(page, "nbytes") == [1]
    page.keyboard.press("f")
    assert page.evaluate("sent") == [{"type": "fit"}]


def test_dots_are_drawn_named_and_told_apart_from_the_model(show: Show) -> None:
    trace = calls()
    page = show(CostExplorer("all_reduce", trace, link=LINK, nbytes=1000))
    assert "measured here: 6 dots · 1 call a dot" in page.inner_text(".pk-status")
    native = LINES[len(COSTS["all_reduce"]) % len(LINES)][0]
    assert colored(page, native) > 60
    header, *rows = [row.locator("th, td").all_inner_texts() for row in page.locator(".pk-table tr").all()]
    ring = next(row for row in rows if row[0] == "ring")
    assert header[-1] == "measured here" and ring[-1] == ring[-2] != ""
    page = show(CostExplorer("all_reduce", trace, link=LINK, ranks=16))
    assert page.inner_text(".pk-status").endswith("more dots at 4 ranks")


def test_the_link_can_be_fitted_only_where_there_are_two_dots_of_an_algorithm_with_a_model(show: Show) -> None:
    trace = calls(sizes=(1000,))
    for measured, ranks, can in [(calls(), 4, True), (calls(), 16, False), (trace, 4, False)]:  # of native there is no model
        page = show(CostExplorer("all_reduce", measured, link=LINK, ranks=ranks))
        assert page.locator("button[value=f]").is_enabled() is can


def test_the_size_of_a_crossover_is_painted_over_the_line_of_the_chosen_one(show: Show) -> None:
    page = show(CostExplorer("all_reduce", nbytes=100_000, ranks=4, link=LINK), chart=crossing())
    listen(page)
    after(page, lambda: page.evaluate("model.set('nbytes', 400000)"))
    assert [word.canvas for word in words(page) if word.text == "500 kB"] == ["pk-over"]


def test_of_equally_fast_algorithms_one_is_named_where_there_is_no_room_for_all(show: Show) -> None:
    found = spec(assemble("all_reduce", 4, LINK, {**CROSSING, "the_same_in_other_words": CROSSING["large"]}), 1_000_000)
    page = show(CostExplorer("all_reduce", nbytes=1_000_000, ranks=4, link=LINK), chart=found, width=1000)
    for width, name in [(1000, "large = the_same_in_other_words"), (620, "large")]:
        page.set_viewport_size({"width": width, "height": 600})
        listen(page)
        after(page, lambda: page.evaluate("model.set('nbytes', model.get('nbytes') + 1)"))
        assert {word.text for word in words(page) if word.y == 18 and word.text != "fastest"} == {"small", name}


def test_the_pointer_reads_times_and_dots(show: Show) -> None:
    page = show(CostExplorer("all_reduce", calls(sizes=(1000, 100_000)), link=LINK), chart=crossing())
    box = page.locator(".pk-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 600, box["y"] + 350)
    assert page.locator(".pk-tip b").inner_text().startswith("model at ")
    assert page.locator(".pk-tip div").count() == 2
    page.mouse.move(box["x"] + 600, box["y"] + 425)
    assert page.locator(".pk-tip").is_hidden()


def test_dark_pages_narrow_pages_and_a_change_of_theme(show: Show) -> None:
    page = show(CostExplorer("all_reduce", calls(), link=LINK), width=340, style=DARK)
    assert page.get_attribute(".partkit-cost", "data-theme") == "dark"
    assert colored(page, "#111111") > 10_000 and colored(page, LINES[0][1]) > 300
    assert page.evaluate("document.documentElement.scrollWidth") == 340
    assert page.locator(".pk-legend b").inner_text() == "lines: model, dots: measured here"
    assert page.locator(".partkit-cost div.pk-legend span").all_inner_texts() == [*COSTS["all_reduce"], "native (no model)"]
    after(page, lambda: page.evaluate("document.body.setAttribute('style', '')"))
    assert page.get_attribute(".partkit-cost", "data-theme") == "light" and colored(page, LINES[0][0]) > 300
    after(page, lambda: page.set_viewport_size({"width": 800, "height": 500}))
    assert page.locator(".pk-legend b").is_hidden()


def test_two_views_share_the_sliders_and_leave_nothing_behind(show: Show) -> None:
    page = show(CostExplorer("all_reduce", ranks=4))
    page.evaluate("window.cleanups.push(window.mount())")
    page.wait_for_function("document.querySelectorAll('.pk-over[data-painted]').length === 2")
    page.locator("input").first.focus()
    after(page, lambda: page.keyboard.press("ArrowRight"))
    page.wait_for_function("[...document.querySelectorAll('output')].filter((one) => one.textContent === '5 ranks').length === 2")
    page.evaluate("() => { for (const cleanup of window.cleanups) cleanup(); window.stop(); }")
    assert page.evaluate("[document.querySelectorAll('canvas').length, window.model.count()]") == [0, 0]
