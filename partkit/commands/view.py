"""``partkit view FILE``: a saved trace as a page that needs nothing but a browser."""

from __future__ import annotations

import argparse
import html
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from partkit.commands import Refusal

if TYPE_CHECKING:
    from partkit.tracing import Trace

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<body style="font-family: system-ui, sans-serif; margin: 1.5rem">
<h1 style="font-size: 1.1rem">{title}</h1>
{body}
</body>
</html>
"""


def run(args: argparse.Namespace) -> int:
    """Write the page and open it."""
    from partkit.tracing import Trace

    source = Path(args.file)
    try:
        trace = Trace.load(source)
    except FileNotFoundError:
        raise Refusal(f"there is no file {source}") from None
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    output = Path(args.output) if args.output else source.with_suffix(".html")
    output.write_text(page(trace, source.name), encoding="utf-8")
    print(f"{trace!r}\n{output}")
    if not args.no_browser:
        webbrowser.open(output.resolve().as_uri())
    return 0


def page(trace: Trace, name: str) -> str:
    """The whole page."""
    from partkit.figures.bundle import timeline_bundle

    return PAGE.format(title=html.escape(name), body=timeline_bundle(trace)["text/html"])
