"""The benchmarks run, in their quick form, and give what the command line prints: numbers, not judgements of this machine."""

from __future__ import annotations

import json

import pytest

from partkit.bench import _measure, collectives, launch


@pytest.mark.live
def test_launch_measures_every_kind_of_start() -> None:
    found = launch.run(["--quick"])
    assert [row["start"] for row in found["starts"]] == ["import torch, once", "World, cold", "World, warm", "World, warm", "torch.multiprocessing.spawn"]
    assert all(row["seconds"] > 0 for row in found["starts"]) and all(row["PSS MB"] > 10 for row in found["memory"])
    assert {row["holds"] for row in found["claims"]} <= {"yes", "NO"} and len(found["claims"]) == 5
    json.dumps(found)


@pytest.mark.live
def test_collectives_compares_all_ways_at_every_size() -> None:
    found = collectives.run(["--quick"])
    assert [(row["ranks"], row["bytes"]) for row in found["all-reduce, ms"]] == [(2, 1000), (2, 16000)]
    assert all(row[way] > 0 for row in found["all-reduce, ms"] for way in (*collectives.WAYS, "ring / torch"))
    assert [row["workload"] for row in found["tracing"]] == list(collectives.WORKLOADS) and all(row["events"] > 1000 for row in found["tracing"])
    json.dumps(found)


def test_measurements_are_taken_by_turns() -> None:
    order: list[str] = []
    numbers = iter(range(100))
    first, second = _measure.by_turns(3, lambda: order.append("a") or next(numbers), lambda: order.append("b") or next(numbers))  # type: ignore[func-returns-value]
    assert order == ["a", "b"] * 3 and (first, second) == (2, 3)


def test_a_claim_says_whether_it_holds() -> None:
    assert _measure.Claim("c", 1.0, 2.0, "s").row()["holds"] == "yes"
    assert _measure.Claim("c", 3.0, 2.0, "s").row()["holds"] == "NO"


def test_a_failed_measurement_says_why() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        _measure.fresh("1 / 0")
