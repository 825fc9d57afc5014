"""Layers on ranks: totals, what is in flight, refusals, and a picture that holds every layer."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import partkit as pk
from partkit.figures.stage_map import by_rank, headline, stages, sums
from partkit.figures.stage_map_picture import picture, rows
from partkit.pipeline_parallel import Schedule, chimera, gpipe, one_f_one_b, zb_v
from partkit.pipeline_parallel.balance import balance

LAYERS = [(f"block {i}", 1e-3 * (i + 1), 1000 * (i + 1), 500.0) for i in range(8)]


def test_a_cut_gives_every_layer_to_one_stage() -> None:
    found = stages(LAYERS, [3, 5])
    assert [[layer.name for layer in stage.layers] for stage in found] == [[f"block {i}" for i in part] for part in (range(3), range(3, 5), range(5, 8))]
    assert [stage.totals[0] for stage in found] == pytest.approx([0.006, 0.009, 0.021])
    assert [stage.totals[1:] for stage in found] == [(6000, 1500.0), (9000, 1000.0), (21000, 1500.0)]
    assert stages(LAYERS, [0, 3, 5]) == found


@pytest.mark.parametrize(("schedule", "kept"), [(one_f_one_b(4, 8), [4, 3, 2, 1]), (gpipe(4, 8), [8, 8, 8, 8]), (one_f_one_b(4, 2), [2, 2, 2, 1])])
def test_case_M04_activations_are_kept_for_the_micro_batches_in_flight(schedule: Schedule, kept: list[int]) -> None:
    assert [stage.totals[2] / 1000 for stage in stages(LAYERS, [2, 4, 6], schedule)] == kept


def test_stages_lie_where_the_schedule_says() -> None:
    found = stages(LAYERS, [1, 2, 3, 4, 5, 6, 7], zb_v(4, 8))
    assert [[stage.number for stage in own] for own in by_rank(found)] == [[0, 7], [1, 6], [2, 5], [3, 4]]
    assert [sums(own)[0] for own in by_rank(found)] == [pytest.approx(0.009)] * 4


def test_layers_that_are_alike_are_counted_each() -> None:
    assert headline(stages([("block", 1.0, 1, 1)] * 4, [2])).startswith("4 layers in 2 stages on 2 ranks")


def test_two_pipelines_hold_every_layer_twice() -> None:
    found = stages(LAYERS, [2, 4, 6], chimera(4, 8))
    assert sum(stage.totals[1] for stage in found) == 2 * sum(layer[2] for layer in LAYERS)
    assert headline(found).startswith("8 layers in 4 stages on 4 ranks")
    assert sum(stage.totals[0] for stage in found) == pytest.approx(sum(layer[1] for layer in LAYERS))  # a micro-batch passes one of the two


@pytest.mark.parametrize(
    ("layers", "cut", "schedule", "words"),
    [
        (LAYERS, [5, 3], None, r"StageMap\(cut=\[5, 3\]\): a cut is rising numbers of layers from 1 to 7"),
        (LAYERS, [3, 3], None, "a cut is rising numbers"),
        (LAYERS, [8], None, "a cut is rising numbers"),
        (LAYERS, [4], gpipe(3, 4), "this makes 2 stages, the schedule has 3"),
        ([("a", -1.0, 0, 0)], [], None, r"'a' has \(-1.0, 0, 0\); seconds and bytes are at least 0"),
    ],
)
def test_refusals(layers: list[tuple[str, float, float, float]], cut: list[int], schedule: Schedule | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pk.StageMap(layers, cut, schedule=schedule)


def test_every_layer_is_in_every_panel() -> None:
    found = stages(LAYERS, [3, 5])
    bars = [node for node in ET.fromstring(picture(found)).iter("{http://www.w3.org/2000/svg}rect") if node.get("height") == "28"]
    assert len(bars) == 3 * len(LAYERS)
    longest = max(float(bar.get("x") or 0) + float(bar.get("width") or 0) for bar in bars)
    assert longest < 960


def test_costs_of_nothing_draw_nothing() -> None:
    assert ET.fromstring(picture(stages([("a", 0, 0, 0), ("b", 0, 0, 0)], [1]))) is not None
    assert headline(stages([("a", 0, 0, 0), ("b", 0, 0, 0)], [1])) == "2 layers in 2 stages on 2 ranks"


def test_many_layers_are_counted_and_names_are_escaped() -> None:
    assert rows(stages(LAYERS, [6]))[0][2] == "block 0 ... block 5 (6)"
    html = pk.StageMap([("<a>", 1, 1, 1)], [], title="<b>")._repr_mimebundle_()["text/html"]
    assert "<a>" not in html and "&lt;b&gt;" in html


def test_what_balance_gives_is_a_cut() -> None:
    found = stages(LAYERS, balance([layer[1] for layer in LAYERS], 3))
    assert max(stage.totals[0] for stage in found) == pytest.approx(0.015)
