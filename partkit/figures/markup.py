"""HTML that shows without a kernel, without JavaScript and without trust: an image with its tables, and a table."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape


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
