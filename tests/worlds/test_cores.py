"""How many cores the ranks of a world share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from partkit import World
from partkit.worlds.cores import shared_cores


@pytest.mark.parametrize(
    ("text", "cores"),
    [("100000 100000\n", 1), ("50000 100000\n", 1), ("150000 100000\n", 2), ("9900000 100000\n", None), ("max 100000\n", None), ("", None)],
)
def test_a_container_is_granted_so_much(tmp_path: Path, text: str, cores: int | None) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    usable = shared_cores(tmp_path / "none")
    assert shared_cores(quota) == (usable if cores is None else min(cores, usable))


def test_a_process_uses_the_cores_that_it_is_bound_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 6}, raising=False)
    assert shared_cores(tmp_path / "none") == 3


def test_all_ranks_of_a_world_know_how_many_they_share(live_world: Callable[[int], World]) -> None:
    assert [*live_world(2).run(lambda comm: comm.cluster.cores)] == [shared_cores()] * 2
