"""The files that a widget sends to the browser, read once, when the module that needs them is imported.

A widget's script travels with each widget, so its comments and spacing stay here: `compact` takes them out, and nothing else.
(As a path instead of a text, the script would be watched for changes, and no widget would ever be freed.)
"""

from __future__ import annotations

import re
from pathlib import Path

_STATIC = Path(__file__).parent / "static"
_TOKEN = re.compile(r"""`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|//[^\n]*|\s+|[\w$]+|.""", re.DOTALL)


def read(name: str) -> str:
    """The text of one file in ``static/``."""
    return (_STATIC / name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """JavaScript files joined into one module, without comments and spacing."""
    return compact("\n".join(read(name) for name in names))


def compact(source: str) -> str:
    """JavaScript without comments, spaces, brackets and zeros that say nothing; ``const`` as ``let``.

    Knows strings in double quotes and templates without templates inside. Slashes start a comment, or a regular expression
    without quotes. Every statement ends in a semicolon or a block, and line ends stay where they are not after one.

    Example:
        >>> compact('const a = (x) => { return x + "  //  "; }; // adds')
        'let a=x=>{return x+"  //  "};'
    """
    out = [""]
    tokens = [token for token in _TOKEN.findall(source.strip()) if not token.startswith("//")]
    for token, following in zip(tokens, [*tokens[1:], " "], strict=True):
        if token.isspace():
            token = _space(out[-1][-1:], token, following[0])
        out.append("let" if token == "const" else token)
    joined = re.sub(r"\((\w+)\)=>", r"\1=>", "".join(out).replace(";}", "}"))
    return re.sub(r"(?<![\w.])0(?=\.\d)", "", joined).strip()


def _space(before: str, token: str, after: str) -> str:
    """What is left of the white space between two characters."""
    if before in tuple("{;,(\n") or not before or after == "}":
        return ""
    if "\n" in token:
        return "" if before == "}" else "\n"
    return " " if (_is_word(before) and _is_word(after)) or (before in "+-" and after in "+-") else ""


def _is_word(character: str) -> bool:
    return character.isalnum() or character in "_$"
