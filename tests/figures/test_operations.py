"""A table of operations: what makes a row, what is counted, how it shows."""

from __future__ import annotations

import pickle

import pytest

from partkit.figures.operations import operation_table, phase
from partkit.tracing import Event, Trace

REDUCE = Event(0, "collective", 1.0, 2.0, nbytes=100, tag="dist.all_reduce", span="step 0/backward", site="/home/me/train.py:14")
EVENTS = [
    REDUCE,
    REDUCE._replace(rank=1, end=4.0),
    REDUCE._replace(rank=1, end=1.5, span="step 1/backward", site="/home/me/train.py:20"),
    REDUCE._replace(group="tp"),
    REDUCE._replace(span="step 0/forward"),
    Event(0, "collective", 0.0, 1.0, nbytes=8, tag="all_reduce[sum, ring]"),
    Event(0, "send", 0.0, 1.0, peer=1, nbytes=8, tag="dist.message"),
    Event(1, "recv", 0.0, 1.0, peer=0, nbytes=8, tag="dist.message"),
]


def test_a_row_is_an_operation_in_a_group_and_phase() -> None:
    rows = operation_table(EVENTS).rows
    assert [(row.operation, row.group, row.phase) for row in rows] == [
        ("dist.all_reduce", "", "backward"),
        ("dist.all_reduce", "tp", "backward"),
        ("dist.all_reduce", "", "forward"),
        ("all_reduce[sum, ring]", "", ""),
        ("send dist.message", "", ""),
        ("recv dist.message", "", ""),
    ]


def test_what_a_row_counts() -> None:
    row = operation_table(EVENTS).rows[0]
    assert (row.ranks, row.calls, row.nbytes, row.seconds, row.typical) == ((0, 1), 3, 300, 4.5, 1.0)
    assert row.sites == ("/home/me/train.py:14", "/home/me/train.py:20")


def test_messages_of_partkit_s_algorithms_spans_and_computations_are_no_operations() -> None:
    others = [Event(0, "send", 0, 1, peer=1, tag="ring 1"), Event(0, "span", 0, 1, tag="step"), Event(0, "compute", 0, 1, tag="dist.fake")]
    assert operation_table(others).rows == ()
    assert repr(operation_table(others)) == "no operation of torch.distributed and no collective"


def test_a_trace_gives_the_same_rows_as_its_events_up_to_their_order() -> None:
    assert set(operation_table(Trace.from_events(EVENTS)).rows) == set(operation_table(EVENTS).rows)


def test_it_shows_file_names_only_and_the_plain_text_is_the_same_in_every_run() -> None:
    slower = [event._replace(end=event.end + 1) for event in EVENTS]
    one, other = (operation_table(events)._repr_mimebundle_() for events in (EVENTS, slower))
    assert one["text/plain"] == other["text/plain"] and one["text/html"] != other["text/html"]
    assert "train.py:14, train.py:20" in one["text/plain"] and "/home" not in str(one)
    assert "time" in repr(operation_table(EVENTS)) and "time" not in one["text/plain"]


def test_many_source_lines_are_cut() -> None:
    lines = [REDUCE._replace(site=f"train.py:{i}") for i in range(5)]
    assert repr(operation_table(lines)).endswith("train.py:0, train.py:1, train.py:2 and 2 more")


def test_columns_are_aligned() -> None:
    head, *lines = repr(operation_table(EVENTS)).splitlines()
    edge = head.index("bytes") + len("bytes")
    assert [line[:edge].split()[-1] for line in lines] == ["300", "100", "100", "8", "8", "8"]
    assert all(line[edge] == " " for line in lines)


def test_it_travels_between_processes() -> None:
    table = operation_table(EVENTS)
    assert pickle.loads(pickle.dumps(table)) == table


@pytest.mark.parametrize(
    ("span", "found"), [("", ""), ("step/backward", "backward"), ("forward", "forward"), ("my forward", ""), ("forward/backward", "backward")]
)
def test_phase(span: str, found: str) -> None:
    assert phase(span) == found
