"""The benchmark of pipelines in its quick form."""

from __future__ import annotations

import json

from partkit.bench import pipeline


def test_simulation_and_steps_are_measured() -> None:
    found = pipeline.run(["--quick"])
    first, second = found["simulate"]
    assert (first["computations"], first["actions"]) == (2 * 32 * 64, 2 * 32 * 64 + 4 * 31 * 64)
    assert second["schedule"] == "ZB-H1" and all(row["million/s"] > 0 for row in found["simulate"])
    assert {row["holds"] for row in found["claims"]} <= {"yes", "NO"}
    assert [(row["schedule"], row["ranks"]) for row in found["steps"]] == [("gpipe", 2), ("one_f_one_b", 2), ("interleaved", 2)]
    assert all(row["partkit / torch"] > 0 for row in found["steps"])
    json.dumps(found)
