"""A cluster on which things go wrong: what a run takes then, without a browser and in one."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from playwright.sync_api import Page

import partkit as pk
from partkit.cluster import Cluster, Device, Islands, Link, clusters
from partkit.communicator import Communicator
from partkit.widgets.cluster_view import ClusterView
from partkit.widgets.showing import WIDGET
from partkit.worlds.errors import RankError
from tests.widgets.fake_display import Display
from tests.widgets.test_curve import DARK, after

Show = Callable[..., Page]
INSIDE, BETWEEN = Link(1e-6, 1e9), Link(1e-5, 1e8)
NODES = Cluster(link=BETWEEN, topology=Islands((4, INSIDE)), name="two nodes")
ELEMENTS = 800
STEP = BETWEEN.seconds(4 * ELEMENTS / 8)
"""One step of the ring on 8 ranks: its slowest message goes from node to node."""


def ring(comm: Communicator) -> None:
    pk.all_reduce(torch.ones(ELEMENTS), comm, algorithm="ring")


def work_then_ring(comm: Communicator) -> None:
    comm.compute("forward", seconds=1e-3)
    ring(comm)


@pytest.fixture
def view() -> Any:
    made = ClusterView(NODES, ring, ranks=8)
    yield made
    made.close()


# -- without a browser -----------------------------------------------------------------------------------------------


def test_what_a_slow_link_costs_is_exact(view: ClusterView) -> None:
    assert view.before is not None and view.before.makespan == pytest.approx(14 * STEP, rel=1e-12)
    view.slow("wire 2", 5)  # the way out of ranks 0-3, there and back
    assert view.after is not None and view.after.makespan == pytest.approx(14 * 5 * STEP, rel=1e-12)
    assert view.trace.makespan == view.after.makespan
    view.slow("wire 2", 1)
    assert view.after is None and str(view) == "two nodes, 8 ranks: makespan 196 us"


def test_a_bus_of_a_node_may_become_the_slowest_link(view: ClusterView) -> None:
    factor = 2 * STEP / INSIDE.seconds(4 * ELEMENTS / 8)
    view.slow("wire 0", factor)
    assert view.after is not None and view.after.makespan == pytest.approx(2 * 14 * STEP, rel=1e-9)


def test_a_slow_rank_makes_all_late_by_what_it_computes_longer() -> None:
    view = ClusterView(NODES, work_then_ring, ranks=8)
    view.slow("rank 5", 3)
    assert view.before is not None and view.after is not None
    assert min(view.after.ends) - min(view.before.ends) == pytest.approx(2e-3, rel=0.2)
    view.close()


def test_undo_and_reset_run_what_was_before(view: ClusterView) -> None:
    view.slow("wire 2", 5)
    slow = view.after
    view.slow("pair 3 4", 20)
    assert view.after is not None and slow is not None and view.after.makespan > slow.makespan
    view.undo()
    assert view.after == slow
    view.reset()
    assert view.after is None
    view.undo()
    assert view.after == slow and len(view.cluster.conditions) == 2


def test_a_rank_that_dies_stops_the_ring_and_the_view_says_so(view: ClusterView) -> None:
    view.kill("rank 3")
    assert view.after is not None and "rank 3 died at 9.8e-05 s" in view.after.error
    assert "rank 3: dies at 98 us" in str(view) and "rank 3 died" in str(view)
    assert "stopped after" in view.chart["ends"][0] and "stopped after" in view.chart["ranks"][0]


def test_a_map_without_a_function() -> None:
    view = ClusterView(clusters.H100_NODES)
    view.slow("rank 3", 2)
    assert (view.before, view.after, len(view.trace)) == (None, None, 0)
    assert str(view) == "8 x H100 a node, 16 ranks; rank 3: 2 times as slow"
    assert view.targets["wire 2"] == "out of ranks 0-7: 50 GB/s, 5 us" and len(view.targets) == 20
    view.close()


@pytest.mark.parametrize(
    ("cluster", "size"),
    [(clusters.LAPTOP, 8), (clusters.H100_NODES, 16), (clusters.tpu_v4(2, 3), 6), (Cluster([Device(1e9, 1e9, 1e9)] * 3), 3)],
    ids=["equal links", "two nodes", "torus", "devices"],
)
def test_how_many_ranks_there_are_by_default(cluster: Cluster, size: int) -> None:
    view = ClusterView(cluster)
    assert len(view.chart["ranks"]) == size
    view.close()


def test_counted_compute_without_numbers_reaches_far() -> None:
    def step(comm: Communicator, x: torch.Tensor) -> None:
        pk.all_reduce(x @ x, comm, algorithm="ring")

    view = ClusterView(clusters.H100_NODES, step, torch.ones(64, 64), ranks=32, compute="counted", numbers=False)
    view.slow("rank 7", 10)
    assert view.after is not None and view.before is not None and view.after.makespan > view.before.makespan
    view.close()


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: ClusterView(3), TypeError, r"ClusterView\(3\): give a Cluster, such as pk.clusters.H100_NODES; this is a int"),  # type: ignore[arg-type]
        (lambda: ClusterView(NODES, ranks=0), ValueError, r"ClusterView\(ranks=0\): at least 1"),
        (lambda: ClusterView(clusters.tpu_v4(2, 2), ranks=5), ValueError, "has 4 places, too few for 5 ranks"),
        (lambda: ClusterView(NODES, lambda comm: 1 / 0), RankError, "ZeroDivisionError"),
    ],
)
def test_refusals(make: Callable[[], ClusterView], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_the_text_and_the_table_say_what_the_picture_says(view: ClusterView) -> None:
    view.slow("wire 2", 5)
    view.slow("rank 6", 2)
    bundle = view._repr_mimebundle_()
    assert bundle["text/plain"].splitlines() == [
        "two nodes, 8 ranks: makespan 196 us; with out of ranks 0-3: 5 times as slow; rank 6: 2 times as slow: 980 us, 5 times as long",
        "ranks      device                         done after  with trouble  what is wrong",
        "0, 3-4, 7  laptop core: 50 GFLOP/s, 4 GB  196 us      980 us",
        "1-2, 5     laptop core: 50 GFLOP/s, 4 GB  183 us      911 us",  # their last message comes from inside
        "6          laptop core: 50 GFLOP/s, 4 GB  183 us      911 us        2 times as slow",
        "links                           figures          what is wrong",
        "inside ranks 0-3 and 1 like it  1 GB/s, 1 us",
        "out of ranks 0-3                100 MB/s, 10 us  5 times as slow",
        "out of ranks 4-7                100 MB/s, 10 us",
    ]
    image = base64.b64decode(bundle["text/html"].split("base64,")[1].split('"')[0]).decode()
    for words in ("\N{MULTIPLICATION SIGN}5", "\N{MULTIPLICATION SIGN}2", "makespan 196 us before, 980 us after", "links inside: 1 GB/s, 1 us"):
        assert words in image


def test_wishes_of_a_reader_are_granted_or_answered(view: ClusterView) -> None:
    view._hear({"type": "do", "what": "slow", "target": "wire 2", "factor": 5})
    assert view.after is not None and view.chart["told"] == [["wire 2", "out of ranks 0-3: 5 times as slow"]]
    view._hear({"type": "do", "what": "kill", "target": "wire 2", "part": 0.5})
    assert (view.said["text"], view.said["refused"]) == ("kill('wire 2'): only a rank can die; choose one, or slow the link down", True)
    view._hear({"type": "do", "what": "undo", "target": "wire 2"})
    assert view.after is None and (view.said["text"], view.said["refused"]) == ("", False)


def test_what_is_stored_is_what_was_left(notebook: None, display: Display, view: ClusterView) -> None:
    view._ipython_display_()
    assert WIDGET in display.shown[0]
    view._hear({"type": "shown"})
    view._hear({"type": "do", "what": "slow", "target": "wire 2", "factor": 5})
    view._hear({"type": "do", "what": "settle"})
    assert [set(bundle) for bundle in display.replaced] == [{"text/html", "text/plain"}] * 2
    assert "5 times as slow" in display.replaced[-1]["text/plain"]


# -- in a browser ----------------------------------------------------------------------------------------------------


def test_keys_choose_ranks_and_links_and_ask_for_trouble(show: Show, view: ClusterView) -> None:
    page = show(view)
    page.focus(".pk-over")
    for key, words in [
        ("ArrowRight", "rank 1, laptop core: 50 GFLOP/s, 4 GB; done after 183 us"),
        ("ArrowDown", "rank 3, laptop core: 50 GFLOP/s, 4 GB; done after 196 us"),
        ("l", "all links of rank 3"),
        ("l", "rank 3, laptop core: 50 GFLOP/s, 4 GB; done after 196 us"),
        ("w", "inside ranks 0-3: 1 GB/s, 1 us"),
        ("W", "out of ranks 4-7: 100 MB/s, 10 us"),
        ("Home", "rank 0, laptop core: 50 GFLOP/s, 4 GB; done after 196 us"),
        ("p", "Link from rank 0 to rank ...? Arrows and Enter, or a click"),
        ("End", "the link between rank 0 and rank 7"),
    ]:
        after(page, partial(page.keyboard.press, key))
        assert page.inner_text(".pk-info") == words
    page.keyboard.press("s")
    page.select_option("[data-part=factor]", "10")
    page.focus(".pk-over")
    page.keyboard.press("Home")
    for key in "skhur":
        page.keyboard.press(key)
    wishes = [(wish["what"], wish["target"], wish.get("factor"), wish.get("part")) for wish in page.evaluate("window.sent") if wish.get("what") != "settle"]
    assert wishes == [
        ("slow", "pair 0 7", 4, None),
        ("slow", "rank 0", 10, None),
        ("kill", "rank 0", None, 0.5),
        ("heal", "rank 0", None, None),
        ("undo", "rank 0", None, None),
        ("reset", "rank 0", None, None),
    ]


def test_clicks_hovering_and_marks(show: Show, view: ClusterView) -> None:
    view.slow("wire 2", 5)
    page = show(view)
    assert page.locator(".k-badge-text").all_text_contents() == ["\N{MULTIPLICATION SIGN}5"]
    page.locator(".pk-over [data-target='rank 6']").hover()
    assert page.inner_text(".pk-tip") == "rank 6, laptop core: 50 GFLOP/s, 4 GB; done after 183 us, with trouble after 911 us"
    after(page, lambda: page.locator(".pk-over [data-target='rank 6']").click())
    assert page.inner_text(".pk-info").startswith("rank 6")
    after(page, lambda: page.locator(".pk-over [data-target='rank 1']").click(modifiers=["Shift"]))
    assert page.inner_text(".pk-info") == "the link between rank 1 and rank 6"
    after(page, lambda: page.locator("[data-part=ends] [data-target='rank 2']").click())
    assert page.inner_text(".pk-info").startswith("rank 2") and page.locator(".k-chosen").count() == 2  # on the map and in the chart
    assert page.inner_text(".pk-status").endswith("980 us, 5 times as long")


def test_what_python_answers_is_shown(show: Show, view: ClusterView) -> None:
    page = show(view)
    after(page, lambda: page.evaluate("window.model.set('said', {text: 'only a rank can die', refused: true})"))
    assert page.inner_text(".pk-info") == "Not possible: only a rank can die"
    after(page, lambda: page.evaluate("window.model.set('chart', {...window.model.get('chart'), running: true})"))
    assert page.inner_text(".pk-status") == "running ..." and page.locator("button[value=s]").is_disabled()


@pytest.mark.parametrize(("width", "style", "size"), [(320, "", 8), (400, DARK, 64), (1200, DARK, 512)])
def test_dark_narrow_and_large_maps(show: Show, width: int, style: str, size: int) -> None:
    view = ClusterView(clusters.H100_NODES, ranks=size)
    page = show(view, width=width, style=style)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.get_attribute(".partkit-cluster", "data-theme") == ("dark" if style else "light")
    assert page.locator(".pk-over .k-rank").count() == size and not page.locator("[data-part=ends]").is_visible()
    view.close()


def test_a_view_that_goes_leaves_nothing(show: Show, view: ClusterView) -> None:
    page = show(view)
    page.evaluate("() => { for (const cleanup of window.cleanups) cleanup(); window.stop(); }")
    assert page.evaluate("[document.querySelectorAll('svg').length, window.model.count()]") == [0, 0]
