"""Which send belongs to which receive, and the number of each message among those like it: both by sorting one number for each event.

    src dst tag group seq          one number, in the same order
     0   1   7    0    2      ->   ((((0 * dsts + 1) * tags + 7) * groups + 0) * seqs + 2

n messages: O(n log n), all in numpy; 0.5 million pairs take a fraction of a second, where sorting rows of several columns takes ten.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partkit.tracing.events import KIND_CODE, Columns

Ints = npt.NDArray[np.int64]


def one_number(columns: Sequence[npt.NDArray[np.integer]]) -> Ints:
    """One number for each row, equal for equal rows and in the order of rows: by the first column, then by the second, and so on.

    Example:
        >>> one_number([np.array([5, 5, 9]), np.array([7, 6, 6])]).tolist()
        [1, 0, 8]
    """
    number, ranges = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        width = high - low + 1
        if ranges * width >= 2**62:  # too large for an integer: number what there is
            number = np.unique(number, return_inverse=True)[1]
            ranges = int(number.max(initial=0)) + 1
        number, ranges = number * width + (column.astype(np.int64) - low), ranges * width
    return number


def pairs(rows: Columns) -> Ints:
    """Rows that make messages, as an array of shape (messages, 2): send, receive; in the order of src, dst, tag, group, seq.

    Example:
        >>> from partkit.tracing import Event, Trace
        >>> trace = Trace.from_events([Event(1, "recv", 0, 1, peer=0), Event(0, "send", 0, 1, peer=1), Event(0, "send", 1, 2, peer=1, seq=1)])
        >>> pairs(trace.columns).tolist()
        [[0, 2]]
    """
    is_send = rows["kind"] == KIND_CODE["send"]
    messages = np.flatnonzero(is_send | (rows["kind"] == KIND_CODE["recv"]))
    rank, peer, tag, group, seq = (rows[column][messages] for column in ("rank", "peer", "tag", "group", "seq"))
    is_send = is_send[messages]
    number = one_number([np.where(is_send, rank, peer), np.where(is_send, peer, rank), tag, group, seq])
    sides = [np.flatnonzero(side) for side in (is_send, ~is_send)]
    sends, recvs = (side[np.argsort(number[side], kind="stable")] for side in sides)
    if not np.array_equal(number[sends], number[recvs]):  # some have no other side
        _, a, b = np.intersect1d(number[sends], number[recvs], return_indices=True)
        sends, recvs = sends[a], recvs[b]
    return np.stack([messages[sends], messages[recvs]], axis=1).astype(np.int64)


def number_alike(rows: Columns) -> None:
    """Number the messages of one rank in the order in which they were posted: each kind, peer, tag and group by itself.

    Example:
        >>> from partkit.tracing import Event, Trace
        >>> rows = Trace.from_events([Event(0, "send", 0, 1, peer=peer) for peer in (1, 2, 1)]).columns.copy()
        >>> number_alike(rows)
        >>> rows["seq"].tolist()
        [0, 0, 1]
    """
    messages = np.flatnonzero((rows["kind"] == KIND_CODE["send"]) | (rows["kind"] == KIND_CODE["recv"]))
    alike = one_number([rows[column][messages] for column in ("kind", "peer", "tag", "group")])
    if (np.diff(np.sort(alike)) != 0).all():
        return  # of each one only; their numbers are 0
    order = np.lexsort((rows["begun"][messages], alike))
    place, first = np.arange(len(messages)), np.concatenate(([True], np.diff(alike[order]) != 0))
    rows["seq"][messages[order]] = place - np.maximum.accumulate(np.where(first, place, 0))
