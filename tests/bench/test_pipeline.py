"""The benchmark of pipelines in its quick form."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

import pytest

from partkit.bench import pipeline
from partkit.bench.pipeline_steps import keep_to_cores


def test_simulation_and_steps_are_measured() -> None:
    found = pipeline.run(["--quick"])
    first, second = found["simulate"]
    assert (first["computations"], first["actions"]) == (2 * 32 * 64, 2 * 32 * 64 + 4 * 31 * 64)
    assert second["schedule"] == "ZB-H1" and all(row["million/s"] > 0 for row in found["simulate"])
    assert {row["holds"] for row in found["claims"]} <= {"yes", "NO"}
    assert [(row["schedule"], row["ranks"]) for row in found["steps"]] == [("gpipe", 2), ("one_f_one_b", 2), ("interleaved", 2)]
    assert all(row["partkit / torch"] > 0 and row["messages alone"] > 0 for row in found["steps"])
    json.dumps(found)


@pytest.mark.parametrize(
    ("cores", "size", "kept"), [({0, 1}, 2, [{0}, {1}]), ({4, 5, 6, 7}, 2, [{4, 5}, {6, 7}]), ({0, 1}, 4, [{0}, {0}, {1}, {1}]), ({3}, 2, [{3}, {3}])]
)
def test_ranks_share_out_the_cores(monkeypatch: pytest.MonkeyPatch, cores: set[int], size: int, kept: list[set[int]]) -> None:
    found: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, chosen: found.append(set(chosen)), raising=False)
    for rank in range(size):
        comm: Any = SimpleNamespace(rank=rank, size=size)
        keep_to_cores(comm)
    assert found == kept


def test_where_ranks_can_not_be_bound_they_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    comm: Any = SimpleNamespace(rank=0, size=2)
    keep_to_cores(comm)
