"""Sends find their receives, and messages their numbers, by sorting one number for each event."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from partkit.tracing import KIND_CODE, Event, Trace
from partkit.tracing.pairing import number_alike, one_number, pairs


@pytest.mark.parametrize("largest", [3, 2**31 - 1])
def test_one_number_keeps_the_order_of_rows(largest: int) -> None:
    """Also where the ranges of the columns together are too large for an integer."""
    chance = Random(1)
    columns = [np.array([chance.choice([-1, 0, 1, largest]) for _ in range(200)], dtype=np.int32) for _ in range(5)]
    rows, number = list(zip(*(column.tolist() for column in columns), strict=True)), one_number(columns).tolist()
    for one, a in zip(rows, number, strict=True):
        assert [(one < other, one == other) for other in rows] == [(a < b, a == b) for b in number]


def test_pairs_are_those_of_a_search() -> None:
    chance = Random(2)
    events = []
    for seq in range(40):
        src, dst, tag, group = chance.randrange(3), chance.randrange(3), chance.choice("ab"), chance.choice(["", "tp"])
        sides = [Event(src, "send", seq, seq + 1, dst, 8, tag, seq, group=group), Event(dst, "recv", seq, seq + 1, src, 8, tag, seq, group=group)]
        events += chance.sample(sides, chance.choice([1, 2, 2]))
        events.append(Event(src, "compute", seq, seq + 1))
    chance.shuffle(events)
    trace = Trace.from_events(events)
    rows = trace.columns

    def key(row: int, src: str, dst: str) -> tuple[int, ...]:
        return tuple(int(rows[column][row]) for column in (src, dst, "tag", "group", "seq"))

    sends = {key(row, "rank", "peer"): row for row in range(len(rows)) if rows["kind"][row] == KIND_CODE["send"]}
    recvs = {key(row, "peer", "rank"): row for row in range(len(rows)) if rows["kind"][row] == KIND_CODE["recv"]}
    assert pairs(rows).tolist() == [[sends[found], recvs[found]] for found in sorted(sends.keys() & recvs.keys())]
    assert pairs(rows[:0]).shape == (0, 2)


def test_messages_alike_are_numbered_in_the_order_of_posting() -> None:
    begun = [(5, "send", 1, "x"), (1, "send", 1, "x"), (3, "recv", 1, "x"), (2, "send", 2, "x"), (4, "send", 1, "y"), (0, "send", 1, "x")]
    rows = Trace.from_events([Event(0, kind, 0, 1, peer, tag=tag) for _, kind, peer, tag in begun]).columns.copy()  # type: ignore[arg-type]
    rows["begun"] = [mark for mark, *_ in begun]
    number_alike(rows)
    assert rows["seq"].tolist() == [2, 1, 0, 0, 0, 0]
