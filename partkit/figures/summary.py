"""A trace in numbers and words: the table behind every picture of it, and a Gantt chart of letters.

On a wall clock no two runs take the same time, so the plain text holds only what is the same in every run: events, messages,
bytes. In virtual or planned time all of it is the same in every run, and the text shows the times too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.figures.encoding import BLOCK
from partkit.figures.palette import STYLES
from partkit.figures.units import clock_name, count, seconds
from partkit.tracing import KIND_CODE, KINDS, Columns, Event, Kind, Trace

MAX_LINES = 16
"""Ranks that a text lists before it folds and cuts."""
_SHOWN: tuple[Kind, ...] = ("send", "recv", "compute", "collective", "span")
"""Kinds in a chart of letters: the first one that a rank is in is shown."""


class RankSummary(NamedTuple):
    """What one rank did."""

    rank: int
    computations: int
    collectives: int
    messages_sent: int
    bytes_sent: int
    messages_received: int
    bytes_received: int


def rank_summaries(trace: Trace) -> list[RankSummary]:
    """One entry a rank, in order.

    Example:
        >>> from partkit.tracing import Event
        >>> rank_summaries(Trace.from_events([Event(0, "send", 0, 1, peer=1, nbytes=8), Event(1, "recv", 0, 1, peer=0, nbytes=8)]))[0]
        RankSummary(rank=0, computations=0, collectives=0, messages_sent=1, bytes_sent=8, messages_received=0, bytes_received=0)
    """
    counts, volumes = (np.zeros(trace.size * len(KINDS)) for _ in range(2))  # exact below 2**53
    for first in range(0, len(trace), BLOCK):
        rows = trace.columns[first : first + BLOCK]
        key = rows["rank"].astype(np.int64) * len(KINDS) + rows["kind"]
        counts += np.bincount(key, minlength=len(counts))
        volumes += np.bincount(key, rows["nbytes"], minlength=len(counts))
    number, volume = (table.astype(np.int64).reshape(-1, len(KINDS)).tolist() for table in (counts, volumes))
    compute, collective, send, recv = (KIND_CODE[kind] for kind in ("compute", "collective", "send", "recv"))
    return [RankSummary(rank, n[compute], n[collective], n[send], v[send], n[recv], v[recv]) for rank, (n, v) in enumerate(zip(number, volume, strict=True))]


def headline(trace: Trace, summaries: list[RankSummary] | None = None) -> str:
    """The trace in one line, the same in every run: ``3 ranks, 78 events, 24 messages, 96,000 bytes sent; wall clock``.

    Args:
        trace: in any clock.
        summaries: its `rank_summaries`, if they are at hand.
    """
    summaries = rank_summaries(trace) if summaries is None else summaries
    messages, sent = sum(s.messages_sent for s in summaries), sum(s.bytes_sent for s in summaries)
    parts = (count(trace.size, "rank"), count(len(trace), "event"), count(messages, "message"), f"{count(sent, 'byte')} sent")
    return f"{', '.join(parts)}; {clock_name(trace)}{'' if trace.finished.is_set() else '; still running'}"


def plain_text(trace: Trace, title: str = "", summaries: list[RankSummary] | None = None) -> str:
    """The trace for readers without a picture: headline, Gantt chart (not on a wall clock), a line a rank.

    Args:
        trace: in any clock.
        title: stands before the headline.
        summaries: its `rank_summaries`, if they are at hand.
    """
    summaries = rank_summaries(trace) if summaries is None else summaries
    lines = [f"{title}: {headline(trace, summaries)}" if title else headline(trace, summaries)]
    if len(trace) == 0:
        return lines[0] + ("\nno events" if trace.finished.is_set() else "\nno events yet")
    if trace.clock != "wall":
        lines += gantt(trace)
    return "\n".join([*lines, *rank_table(summaries)])


def first_events(trace: Trace, number: int) -> list[Event]:
    """The ``number`` events that start first, ties by rank. Does not sort the whole trace."""
    rows = trace.columns
    if len(rows) > number:
        start = rows["start"]
        rows = rows[start <= np.partition(start, number)[number]]
    order = np.lexsort((rows["rank"], rows["start"]))[:number]
    return [trace.event(row) for row in rows[order]]


def rank_table(summaries: list[RankSummary]) -> list[str]:
    """Aligned text, a line a rank; with many ranks, a line for neighbours that did the same."""
    folded = fold(summaries) if len(summaries) > MAX_LINES else [(str(s.rank), s) for s in summaries]
    head = ("rank", "computations", "collectives", "messages sent", "bytes sent", "messages received", "bytes received")
    table = [head, *((name, *(f"{value:,}" for value in summary[1:])) for name, summary in folded[:MAX_LINES])]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    return lines + ([f"... and {count(len(folded) - MAX_LINES, 'line')} more"] if len(folded) > MAX_LINES else [])


def fold(summaries: list[RankSummary]) -> list[tuple[str, RankSummary]]:
    """Neighbouring ranks that did the same under one name: ``0-63``."""
    out: list[tuple[str, RankSummary]] = []
    first = 0
    for i, summary in enumerate(summaries):
        if i + 1 == len(summaries) or summaries[i + 1][1:] != summary[1:]:
            out.append((str(summary.rank) if first == i else f"{summaries[first].rank}-{summary.rank}", summary))
            first = i + 1
    return out


def gantt(trace: Trace, width: int = 72) -> list[str]:
    """A line of letters a rank: what it does at each of ``width`` moments.

    S sends, R receives, X both, C computes, G is in a collective, N is in a named span, . does nothing.

    Example:
        >>> from partkit.tracing import Event
        >>> plan = Trace.from_events([Event(0, "compute", 0, 1), Event(1, "compute", 1, 2)], clock="planned")
        >>> print("\\n".join(gantt(plan, width=8)))
        rank 0 |CCCC....|
        rank 1 |....CCCC|
                0 to 2 s; C compute
    """
    rows = trace.columns
    begin, length = float(rows["start"].min()), trace.makespan or 1.0
    busy = {kind: _busy(rows[rows["kind"] == KIND_CODE[kind]], trace.size, begin, length / width, width) for kind in _SHOWN}
    letters = np.full((trace.size, width), ".")
    for kind in reversed(_SHOWN):
        letters[busy[kind]] = STYLES[kind].letter
    letters[busy["send"] & busy["recv"]] = "X"
    names = [f"rank {rank}" for rank in range(trace.size)]
    lines = [f"{name:<{len(names[-1])}} |{''.join(line)}|" for name, line in zip(names, letters, strict=True)]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"... and {count(len(lines) - MAX_LINES, 'rank')} more", lines[-1]]
    used = set("".join(map("".join, letters)))
    legend = [f"{STYLES[kind].letter} {kind}" for kind in _SHOWN if STYLES[kind].letter in used] + (["X send and recv"] if "X" in used else [])
    return [*lines, " " * (len(names[-1]) + 2) + f"{seconds(begin) if begin else 0} to {seconds(begin + length)}; {', '.join(legend)}"]


def _busy(rows: Columns, size: int, begin: float, step: float, width: int) -> npt.NDArray[np.bool_]:
    """Which ranks are inside one of the events at the middle of each column. Shape (size, width)."""
    edges = [np.clip(np.ceil(np.round((rows[side] - begin) / step - 0.5, 9)), 0, width).astype(np.int64) for side in ("start", "end")]
    change = np.zeros((size, width + 1), dtype=np.int64)
    np.add.at(change, (rows["rank"], edges[0]), 1)
    np.add.at(change, (rows["rank"], edges[1]), -1)
    inside: npt.NDArray[np.bool_] = change.cumsum(axis=1)[:, :width] > 0
    return inside
