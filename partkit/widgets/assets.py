"""The files that a widget sends to the browser, read once, when the module that needs them is imported.

A script travels as it is written here, comments included, so that whoever opens the browser's own tools finds what is in this folder:
about 30 kB, which is less than the data of a small run and loads at once. (As a path instead of a text, the script would be watched
for changes, and no widget would ever be freed.)
"""

from __future__ import annotations

from pathlib import Path

_STATIC = Path(__file__).parent / "static"


def read(name: str) -> str:
    """The text of one file in ``static/``."""
    return (_STATIC / name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """JavaScript files joined into one module: a name at the top of one of them is known in those after it."""
    return "\n".join(read(name) for name in names)


def elements(name: str) -> str:
    """The elements of a view: a file in ``static/``, with the picture, what is pointed at and the status where it says ``<!-- panel -->``."""
    return read(name).replace("<!-- panel -->\n", read("panel.html"))
