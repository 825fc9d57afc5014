"""A schedule is a value: it prints, parses back, and travels as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from partkit.pipeline_parallel import SCHEDULES, add_communication, make, split_backward
from partkit.pipeline_parallel.schedule import Schedule
from tests.pipeline_parallel.sizes import all_sizes


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_travels_as_text_and_as_csv_in_every_size(name: str, tmp_path: Path) -> None:
    for plain in all_sizes(name, ranks=5, microbatches=10):
        for schedule in (plain, add_communication(plain), split_backward(plain)):
            path = schedule.to_csv(tmp_path / "schedule.csv")
            assert Schedule.from_csv(path, replicas=schedule.replicas) == schedule == Schedule.parse(str(schedule))


def test_a_schedule_can_be_hashed_and_has_equals_of_any_name() -> None:
    first, second = make("gpipe", 2, 1), make("one_f_one_b", 2, 1)
    assert first == second and hash(first) == hash(second) and first.name != second.name


def test_pauses_of_a_csv_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("0F0,,,0B0\n,1F0,1B0,\n")
    assert str(Schedule.from_csv(tmp_path / "s.csv")) == "rank 0: 0F0 0B0\nrank 1: 1F0 1B0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rank 0: 0F0\nrank 2: 1F0", "should begin with 'rank 1:'"),
        ("0F0 0B0", "should begin with 'rank 0:'"),
        ("rank 0: 0F0 nothing", "'nothing' is no action"),
        ("", "at least one rank"),
    ],
)
def test_a_text_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Schedule.parse(text)


@pytest.mark.parametrize(
    ("known", "words"),
    [({"placement": (0, 5)}, "ranks of this schedule are 0 to 1"), ({"replicas": 3}, "are not 3 replicas"), ({"num_microbatches": 0}, "one micro-batch")],
)
def test_a_placement_that_cannot_be_is_refused(known: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Schedule.parse("rank 0: 0F0\nrank 1: 1F0", **known)


def test_what_can_be_read_off_the_lists_is() -> None:
    schedule = Schedule.parse("rank 0: 0F0 3F0 3B0 0B0\nrank 1: 1F0 2F0 2B0 1B0")
    assert (schedule.placement, schedule.num_microbatches, schedule.stages_of(0), schedule.lowered) == ((0, 1, 1, 0), 1, (0, 3), False)
