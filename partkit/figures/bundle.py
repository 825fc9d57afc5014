"""A trace as a mimebundle that shows without a kernel, without JavaScript and without trust.

    text/html     a figure: the picture as an <img> with an alternative text, a caption, and the numbers as a table
    text/plain    the same in letters

Notebooks sanitise the HTML of files that they do not trust: scripts, style sheets and inline SVG go, and a bare image/svg+xml is
not shown at all. An <img> whose source is the SVG in base64 stays, in JupyterLab, nbconvert and on web pages alike. Nothing in
a bundle is random or of this machine: no addresses, no process numbers, no paths above the file name.
"""

from __future__ import annotations

import os
from html import escape
from typing import Any

from partkit.figures.markup import figure as figure
from partkit.figures.markup import table as table
from partkit.figures.path import outline, path_note
from partkit.figures.summary import MAX_LINES, RankSummary, first_events, fold, headline, plain_text, rank_summaries
from partkit.figures.svg import timeline_svg
from partkit.figures.units import clock_name, count, seconds
from partkit.figures.waits import idle_of, idle_table, idle_text
from partkit.tracing import Trace
from partkit.tracing.critical_path import CriticalPath
from partkit.tracing.idle import IdleTime

MAX_EVENTS = 40
"""Rows of the table of events."""
EVENT_HEAD = ("rank", "kind", "name", "peer", "bytes", "start", "duration", "in", "source")


class Static:
    """Something that shows itself from a finished bundle.

    Args:
        bundle: mime type to content.
    """

    def __init__(self, bundle: dict[str, str]) -> None:
        self.bundle = bundle

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return dict(self.bundle)

    def __repr__(self) -> str:
        return self.bundle["text/plain"]


def timeline(trace: Trace, title: str = "") -> Static:
    """A still picture of a trace, for where no widget can be: needs neither anywidget nor ipywidgets.

    Example:
        >>> from partkit.tracing import Event
        >>> timeline(Trace.from_events([Event(0, "compute", 0.0, 1.0)], clock="planned"))
        1 rank, 1 event, 0 messages, 0 bytes sent; planned time
        rank 0 |CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC|
                0 to 1 s; C compute
        rank  computations  collectives  messages sent  bytes sent  messages received  bytes received
           0             1            0              0           0                  0               0
    """
    return Static(timeline_bundle(trace, title))


def timeline_bundle(trace: Trace, title: str = "", path: CriticalPath | None = None, idle: IdleTime | None = None) -> dict[str, str]:
    """The mimebundle of a trace; under 60 kB.

    Args:
        trace: in any clock.
        title: shown above it.
        path: the critical path, to be outlined.
        idle: its waits, if they are at hand: finding them takes as long as the rest.
    """
    path = CriticalPath(()) if path is None else path
    idle = idle_of(trace) if idle is None else idle
    summaries, picture = rank_summaries(trace), timeline_svg(trace, outline(path))
    head = headline(trace, summaries)
    caption = "; ".join(part for part in (head, path_note(path), picture.note) if part)
    tables = [_rank_table(summaries), idle_table(trace, idle), _event_table(trace)] if len(trace) else []
    found = path_note(path) if trace.clock != "wall" else ""
    text = "\n".join([plain_text(trace, title, summaries), *idle_text(trace, idle), *([found] if found else [])])
    return {"text/html": figure(picture.svg, f"Timeline of {head}", caption, tables, title), "text/plain": text}


def numbers_bundle(trace: Trace, title: str = "") -> dict[str, str]:
    """What takes no time to make even for a very large trace: neither the picture nor the waits."""
    summaries = rank_summaries(trace)
    heading = f"<b>{escape(title)}</b> " if title else ""
    return {
        "text/html": f"<p>{heading}{escape(headline(trace, summaries))}</p>{_rank_table(summaries)}",
        "text/plain": plain_text(trace, title, summaries),
    }


def place_name(site: str) -> str:
    """A source line without the machine's folders: ``train.py:9``.

    Example:
        >>> place_name("/home/me/train.py:9")
        'train.py:9'
    """
    return os.path.basename(site.replace("\\", "/"))


def _rank_table(summaries: list[RankSummary]) -> str:
    rows = [(str(s.rank), s) for s in summaries] if len(summaries) <= MAX_LINES else fold(summaries)
    head = ("rank", "computations", "collectives", "messages sent", "bytes sent", "messages received", "bytes received")
    shown = [(name, *(f"{value:,}" for value in summary[1:])) for name, summary in rows[:64]]
    more = f" (first {len(shown)} of {len(rows)} rows)" if len(rows) > len(shown) else ""
    return table(head, shown, f"What each rank did{more}")


def _event_table(trace: Trace) -> str:
    events = first_events(trace, MAX_EVENTS)
    rows = [
        (e.rank, e.kind, e.tag, "" if e.peer is None else e.peer, e.nbytes or "", seconds(e.start), seconds(e.end - e.start), e.span, place_name(e.site))
        for e in events
    ]
    caption = count(len(trace), "event") if len(trace) <= MAX_EVENTS else f"First {len(rows)} of {count(len(trace), 'event')}"
    return table(EVENT_HEAD, rows, f"{caption}, {clock_name(trace)}")
