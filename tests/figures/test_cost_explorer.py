"""Curves, crossovers and bands of the model; points of a trace; the link fitted to them; the picture, the table and the text."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import COSTS, LOOPBACK, Cost, CostFunction, Link
from partkit.figures.cost_explorer import SIZES, assemble, model, spec
from partkit.figures.cost_picture import View, bundle, headline, look, time_scale
from partkit.figures.cost_points import Point, PointEncoder, Points, fit, points, read_tag
from partkit.tracing import Event, Recorder, Trace


def line(fixed: float, per_byte: float) -> CostFunction:
    """An algorithm that takes ``fixed`` latencies and moves each byte ``per_byte`` times."""
    return lambda numel, itemsize, size, link=LOOPBACK: Cost((1,), (numel,), 1, fixed * link.latency + per_byte * numel * itemsize / link.bandwidth)


UNIT = Link(latency=1.0, bandwidth=1.0)


# -- the model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", list(COSTS))
@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 13])
def test_curves_are_the_closed_forms(operation: str, ranks: int) -> None:
    found = model(operation, ranks)
    assert [curve.algorithm for curve in found.curves] == list(COSTS[operation])
    for curve in found.curves:
        for i in range(0, len(SIZES), 5):
            exact = COSTS[operation][curve.algorithm](int(SIZES[i]), 1, ranks, LOOPBACK).through(LOOPBACK).seconds
            assert curve.seconds[i] == pytest.approx(exact, rel=5e-3)


def test_a_straight_curve_takes_few_evaluations() -> None:
    asked: list[int] = []

    def slow(numel: int, itemsize: int, size: int, link: Link = LOOPBACK) -> Cost:
        asked.append(numel)
        return line(3.0, 2.0)(numel, itemsize, size, link)

    curve = assemble("broadcast", 2, UNIT, {"slow": slow}).curves[0]
    assert np.allclose(curve.seconds, 3 + 2 * SIZES) and len(asked) < 8


def test_crossovers_are_where_lines_meet_and_bands_are_between_them() -> None:
    found = assemble("broadcast", 2, UNIT, {"middle": line(1e4, 3.0), "first": line(10.0, 10.0), "last": line(1e7, 1.0), "never": line(1e8, 20.0)})
    assert [(one.before, one.after) for one in found.crossovers] == [("first", "middle"), ("middle", "last")]
    assert [one.nbytes for one in found.crossovers] == pytest.approx([9990 / 7, (1e7 - 1e4) / 2])
    assert found.crossovers[0].seconds == pytest.approx(10 + 10 * 9990 / 7)
    assert [band.name for band in found.bands] == ["first", "middle", "last"]
    assert found.bands[0].low == SIZES[0] and found.bands[-1].high == SIZES[-1]
    assert all(before.high == after.low for before, after in pairwise(found.bands))


def test_equals_share_a_band_and_do_not_cross() -> None:
    found = assemble("broadcast", 2, UNIT, {"one": line(10.0, 1.0), "same": line(10.0, 1.0), "better later": line(100.0, 0.5)})
    assert [band.name for band in found.bands] == ["one = same", "better later"]
    assert [one.nbytes for one in found.crossovers] == pytest.approx([180.0])
    alone = model("all_reduce", 1)  # nothing costs anything
    assert len(alone.bands) == 1 and alone.crossovers == []


def test_one_that_only_catches_up_does_not_take_over() -> None:
    def at_least(floor: float) -> CostFunction:
        return lambda numel, itemsize, size, link=LOOPBACK: Cost((1,), (numel,), 1, max(float(numel), floor))

    found = assemble("broadcast", 2, UNIT, {"catches up": at_least(1e4), "ahead": at_least(10.0)})
    assert [band.name for band in found.bands] == ["ahead"] and found.crossovers == []


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e-3, 1e3)), min_size=1, max_size=6))
def test_the_band_at_any_size_has_the_fastest_curve(made: list[tuple[float, float]]) -> None:
    found = assemble("broadcast", 2, UNIT, {str(k): line(*one) for k, one in enumerate(made)})
    for size in SIZES.tolist():
        band = next(band for band in found.bands if band.low <= size <= band.high)
        fixed, per_byte = made[int(band.algorithm)]
        assert fixed + per_byte * size <= min(a + b * size for a, b in made) * 1.005


@pytest.mark.parametrize(
    ("operation", "ranks", "words"),
    [("all_sum", 2, "operation='all_sum': its cost is not known; operation is one of '"), ("all_reduce", 0, "ranks=0")],
)
def test_refusals(operation: str, ranks: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model(operation, ranks)


def test_the_browser_gets_plain_json() -> None:
    found = model("all_reduce", 8)
    sent = json.loads(json.dumps(spec(found, 1000), allow_nan=False))
    ring = next(row for row in sent["costs"] if row["name"] == "ring")
    exact = COSTS["all_reduce"]["ring"](1000, 1, 8, LOOPBACK).through(LOOPBACK)
    assert (ring["messages"], ring["bytes"], ring["steps"], ring["seconds"]) == (max(exact.messages), max(exact.bytes_sent), exact.steps, exact.seconds)
    assert len(sent["sizes"]) == len(sent["curves"][0]["seconds"]) == len(SIZES)


# -- points of a trace -----------------------------------------------------------------------------------------------


def call(
    ranks: list[int], seq: int, start: float, seconds: float, *, tag: str = "all_reduce[sum, ring]", nbytes: int = 1000, span: str = "", group: str = ""
) -> list[Event]:
    """One call: the ranks enter one after another, 0.5 s apart, and leave ``seconds`` after the last has entered."""
    last = start + 0.5 * (len(ranks) - 1)
    return [Event(rank, "collective", start + 0.5 * k, last + seconds, None, nbytes, tag, seq, span, "", group) for k, rank in enumerate(ranks)]


def test_a_call_lasts_from_the_last_entry_to_the_last_exit() -> None:
    events = [event for seq, seconds in enumerate((1.0, 2.0, 4.0, 8.0, 3.0)) for event in call([0, 1, 2], seq, 100.0 * seq, seconds)]
    assert points(Trace.from_events(events)) == [Point("all_reduce", "ring", 3, 1000, 5, 3.0, 2.0, 4.0)]


def test_sizes_algorithms_and_operations_are_points_of_their_own() -> None:
    made = [
        call([0, 1], 0, 0, 1.0),
        call([0, 1], 1, 9, 1.0, nbytes=8),
        call([0, 1], 2, 18, 1.0, tag="all_reduce[sum, native]"),
        call([0, 1], 3, 27, 1.0, tag="barrier[dissemination]", nbytes=0),
    ]
    found = points(Trace.from_events([event for events in made for event in events]))
    assert [point[:4] for point in found] == [
        ("all_reduce", "native", 2, 1000),
        ("all_reduce", "ring", 2, 8),
        ("all_reduce", "ring", 2, 1000),
        ("barrier", "dissemination", 2, 0),
    ]


def test_warm_ups_unknown_collectives_and_calls_that_lack_a_rank_are_no_points() -> None:
    events = [
        *call([0, 1, 2], 0, 0, 1.0, span="sweep/warm-up"),
        *call([0, 1, 2], 1, 9, 1.0, tag="dist.all_reduce"),
        *call([0, 1, 2], 1, 9, 1.0, tag="my_own[ring]"),
        *call([0, 1], 2, 18, 1.0),
    ]
    assert points(Trace.from_events(events, size=3)) == []
    assert [read_tag(tag) for tag in ("barrier", "all_reduce[mean, ring]")] == [None, ("all_reduce", "ring")]


def test_groups_with_one_name_are_told_apart_by_who_sends_to_whom() -> None:
    links = [Event(a, "send", 0, 1, peer=b, nbytes=8, group="tp") for a, b in ((0, 2), (2, 4), (1, 3), (3, 5))]
    events = [*links, *call([0, 2, 4], 0, 0, 1.0, group="tp"), *call([1, 3, 5], 0, 50, 2.0, group="tp"), *call([6, 7], 0, 0, 1.0, group="tp")]
    assert points(Trace.from_events(events)) == [Point("all_reduce", "ring", 3, 1000, 2, 1.5, 1.25, 1.75)]


def test_a_trace_that_grows_gives_the_points_that_have_changed() -> None:
    trace, recorders = Trace(2), [Recorder(0), Recorder(1)]
    found, encoder = Points(trace), PointEncoder(trace)

    def happens(seq: int, seconds: float, nbytes: int) -> None:
        for recorder in recorders:
            recorder.add("collective", 10.0 * seq, 10.0 * seq + seconds, -1, nbytes, seq, "all_reduce[sum, ring]")
            trace.append(recorder.drain())

    assert found.update() == [] and encoder.encode() == b""
    happens(0, 1.0, 8)
    assert [(point.nbytes, point.runs) for point in found.update()] == [(8, 1)]
    happens(1, 3.0, 8)
    happens(2, 3.0, 16)
    assert [(point.nbytes, point.runs, point.median) for point in found.update()] == [(8, 2, 2.0), (16, 1, 3.0)]
    assert b'"nbytes":16' in encoder.encode() and encoder.encode() == b"" and encoder.num_events == 1


# -- the link --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [Link(1e-6, 1e9), Link(5e-3, 1e11), Link(0.0, 1e6)])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_link_that_made_the_points_is_found_again(link: Link, ranks: int) -> None:
    made = [
        Point("all_reduce", name, ranks, n, 1, cost(n, 1, ranks, link).seconds, 0, 0)
        for name, cost in COSTS["all_reduce"].items()
        if name != "double_tree"  # its cuts depend on the link: see below
        for n in (1000, 1_000_000, 10_000_000)
        if cost(n, 1, ranks, link).seconds > 0
    ]
    found = fit(made)
    assert found is not None
    assert (found.latency, found.bandwidth) == pytest.approx((link.latency, link.bandwidth), rel=1e-6, abs=2e-8)


@pytest.mark.parametrize("channels", [1, 2, 64])
def test_the_link_is_found_again_where_ranks_share_channels(channels: int) -> None:
    link, names = Link(2e-4, 1e9, channels), ("ring", "recursive_doubling", "reduce_broadcast")
    costs = {(name, n): COSTS["all_reduce"][name](n, 1, 8, link).through(link) for name in names for n in (1000, 10_000_000)}
    made = [Point("all_reduce", name, 8, n, 1, cost.seconds, 0, 0) for (name, n), cost in costs.items()]
    found = fit(made, channels)
    assert found is not None
    assert (found.latency, found.bandwidth) == pytest.approx((link.latency, link.bandwidth), rel=1e-6)


def test_through_shared_channels_the_sum_of_all_messages_counts() -> None:
    own, shared = model("broadcast", 4, Link(2e-4, 1e9)), model("broadcast", 4, Link(2e-4, 1e9, channels=1))
    at = int(np.searchsorted(SIZES, 10**8))
    curves = {name: [next(curve.seconds[at] for curve in found.curves if curve.algorithm == name) for found in (own, shared)] for name in ("tree", "chain")}
    assert curves["tree"] == pytest.approx([2 * (2e-4 + 0.1), 3 * (2e-4 + 0.1)])
    assert curves["chain"][0] < curves["tree"][0] and curves["chain"][1] > curves["tree"][1]
    assert (spec(own, 1000)["channels"], spec(shared, 1000)["channels"]) == (0, 1)
    assert shared.cost("tree", 10**8).seconds == pytest.approx(3 * (2e-4 + 0.1))
    assert headline(View(shared, [], 1000)) == "model of broadcast, 4 ranks, latency 200 us, bandwidth 1 GB/s, 1 shared channel"


def test_an_algorithm_that_cuts_its_tensor_by_the_link_can_be_fitted_too() -> None:
    link, cost = Link(3e-5, 4e9), COSTS["broadcast"]["chain"]
    found = fit([Point("broadcast", "chain", 8, n, 1, cost(n, 1, 8, link).seconds, 0, 0) for n in (100, 10_000, 1_000_000, 100_000_000)])
    assert found is not None
    assert (found.latency, found.bandwidth) == pytest.approx((link.latency, link.bandwidth), rel=0.02)


def test_a_fit_gives_no_negative_number_and_needs_two_points_with_a_model() -> None:
    falling = [Point("all_reduce", "ring", 4, n, 1, t, 0, 0) for n, t in ((1000, 1.0), (1_000_000, 0.5))]
    found = fit(falling)
    assert found is not None and found.latency > 0 and found.bandwidth > 9e12
    assert fit(falling[:1]) is None
    assert fit([point._replace(algorithm="native") for point in falling]) is None


# -- the picture -----------------------------------------------------------------------------------------------------


DOTS = [Point("all_reduce", name, 8, n, 5, 1e-3, 9e-4, 2e-3) for name in ("ring", "native") for n in (1000, 100_000)]


def image(html: str) -> ElementTree.Element:
    """The SVG in a figure."""
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert found is not None
    return ElementTree.fromstring(base64.b64decode(found[1]).decode())


@pytest.mark.parametrize("operation", list(COSTS))
@pytest.mark.parametrize("ranks", [1, 2, 16])
def test_a_bundle_is_small_and_says_nothing_of_this_machine(operation: str, ranks: int) -> None:
    made = bundle(View(model(operation, ranks), DOTS, 1000), "Title")
    image(made["text/html"])
    assert len(made["text/html"]) < 60_000
    assert made["text/plain"].startswith(f"Title: model of {operation}, {ranks} rank")


def test_lines_are_called_model_and_dots_by_their_clock() -> None:
    view = View(model("all_reduce", 8), DOTS, 1000)
    texts = {node.text for node in image(bundle(view)["text/html"]).iter()}
    assert {"lines: model", "dots: measured here", "native (no model)", "fastest", "bytes of the tensor", "time"} <= texts
    assert "dots: simulated" in {node.text for node in image(bundle(view._replace(clock="virtual"))["text/html"]).iter()}
    assert not [text for text in (node.text for node in image(bundle(view._replace(points=[]))["text/html"]).iter()) if text and "dots" in text]


def test_the_text_holds_no_measured_time() -> None:
    view = View(model("all_reduce", 8), DOTS, 1000)
    slower = [point._replace(median=point.median * 1.7) for point in DOTS]
    assert bundle(view)["text/plain"] == bundle(view._replace(points=slower))["text/plain"]
    assert "measured here: 20 calls as 4 dots" in bundle(view)["text/plain"]
    assert "<td>1 ms</td>" in bundle(view)["text/html"]


def test_dots_of_other_ranks_or_operations_are_not_on_the_curves() -> None:
    assert View(model("all_reduce", 4), DOTS, 1000).shown == []
    assert View(model("barrier", 8), DOTS, 1000).shown == []


def test_crossovers_are_marked_and_told() -> None:
    found = assemble("broadcast", 2, UNIT, {"small": line(10.0, 10.0), "large": line(1e6, 1.0)})
    made = bundle(View(found, [], 1000))
    assert "fastest: small up to 111 kB, then large" in made["text/plain"]
    assert "111 kB" in {node.text for node in image(made["text/html"]).iter()}


def test_twenty_algorithms_look_different_and_times_fit_on_the_axis() -> None:
    assert len({look(k) for k in range(20)}) == 20
    up = time_scale(View(model("all_reduce", 8), [DOTS[0]._replace(low=1e-9, high=50.0)], 1000))
    assert up.low < 1e-9 and up.high > 50
