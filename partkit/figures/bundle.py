"""A trace as a mimebundle that shows without a kernel, without JavaScript and without trust.

    text/html     a figure: the picture as an <img> with an alternative text, a caption, and the numbers as a table
    text/plain    the same in letters

Notebooks sanitise the HTML of files that they do not trust: scripts, style sheets and inline SVG go, and a bare image/svg+xml is
not shown at all. An <img> whose source is the SVG in base64 stays, in JupyterLab, nbconvert and on web pages alike. Nothing in
a bundle is random or of this machine: no addresses, no process numbers, no paths above the file name.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from html import escape
from typing import Any

from partkit.figures.summary import MAX_LINES, first_events, fold, headline, plain_text, rank_summaries
from partkit.figures.svg import timeline_svg
from partkit.figures.units import CLOCK_NAMES, count, seconds
from partkit.tracing import Trace

MAX_EVENTS = 40
"""Rows of the table of events."""


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


def timeline_bundle(trace: Trace, title: str = "") -> dict[str, str]:
    """The mimebundle of a trace; under 60 kB."""
    picture = timeline_svg(trace)
    caption = "; ".join(part for part in (headline(trace), picture.note) if part)
    tables = [_rank_table(trace), _event_table(trace)] if len(trace) else []
    return {"text/html": figure(picture.svg, f"Timeline of {headline(trace)}", caption, tables, title), "text/plain": plain_text(trace, title)}


def numbers_bundle(trace: Trace, title: str = "") -> dict[str, str]:
    """The same without the picture, which takes longest to make for a very large trace."""
    heading = f"<b>{escape(title)}</b> " if title else ""
    return {"text/html": f"<p>{heading}{escape(headline(trace))}</p>{_rank_table(trace)}", "text/plain": plain_text(trace, title)}


def figure(svg: str, alt: str, caption: str, tables: Iterable[str], title: str = "") -> str:
    """HTML that survives every sanitiser: image, caption, tables that open on a click."""
    data = base64.b64encode(svg.encode()).decode()
    heading = f"<b>{escape(title)}</b> " if title else ""
    details = "".join(f"<details><summary>Table</summary>{''.join(tables)}</details>" for tables in [list(tables)] if tables)
    return (
        f'<figure class="partkit-figure"><img style="max-width:100%" alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}"/>'
        f"<figcaption>{heading}{escape(caption)}</figcaption>{details}</figure>"
    )


def table(head: Iterable[object], rows: Iterable[Iterable[object]], caption: str) -> str:
    """A plain HTML table."""
    cells = "".join(f'<th scope="col">{escape(str(cell))}</th>' for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def place_name(site: str) -> str:
    """A source line without the machine's folders: ``train.py:9``.

    Example:
        >>> place_name("/home/me/train.py:9")
        'train.py:9'
    """
    return os.path.basename(site.replace("\\", "/"))


def _rank_table(trace: Trace) -> str:
    summaries = rank_summaries(trace)
    rows = [(str(s.rank), s) for s in summaries] if trace.size <= MAX_LINES else fold(summaries)
    head = ("rank", "computations", "collectives", "messages sent", "bytes sent", "messages received", "bytes received")
    shown = [(name, *(f"{value:,}" for value in summary[1:])) for name, summary in rows[:64]]
    more = f" (first {len(shown)} of {len(rows)} rows)" if len(rows) > len(shown) else ""
    return table(head, shown, f"What each rank did{more}")


def _event_table(trace: Trace) -> str:
    events = first_events(trace, MAX_EVENTS)
    head = ("rank", "kind", "name", "peer", "bytes", "start", "duration", "in", "source")
    rows = [
        (e.rank, e.kind, e.tag, "" if e.peer is None else e.peer, e.nbytes or "", seconds(e.start), seconds(e.end - e.start), e.span, place_name(e.site))
        for e in events
    ]
    caption = count(len(trace), "event") if len(trace) <= MAX_EVENTS else f"First {len(rows)} of {count(len(trace), 'event')}"
    return table(head, rows, f"{caption}, {CLOCK_NAMES[trace.clock]}")
