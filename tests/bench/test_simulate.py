"""The benchmark of simulated ranks runs, in its quick form, and gives what the command line prints."""

from __future__ import annotations

import json

import pytest

from partkit.bench import simulate


@pytest.mark.live
def test_simulate_measures_what_it_claims() -> None:
    found = simulate.run(["--quick"])
    assert [(row["ranks"], row["events"]) for row in found["ring all-reduce"]] == [(4, 52), (8, 232)]
    assert all(row["virtual time off by"] <= 1e-12 and row["seconds"] > 0 for row in found["ring all-reduce"])
    assert [row["ranks"] for row in found["beside live ranks"]] == [2]
    assert [row["ranks"] for row in found["without numbers"]] == [16]
    assert len(found["claims"]) == 4 and {row["holds"] for row in found["claims"]} <= {"yes", "NO"}
    json.dumps(found)
