"""The files that a widget sends to the browser, read once, when the module that needs them is imported.

A widget's script travels with each widget, so its comments and spacing stay here: `compact` takes them out, and `shorten` gives
one letter to what is declared at the top; nothing else changes.
(As a path instead of a text, the script would be watched for changes, and no widget would ever be freed.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import ascii_letters

_STATIC = Path(__file__).parent / "static"
_TOKEN = re.compile(r"""`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|//[^\n]*|\s+|\.\.\.|[\w$]+|.""", re.DOTALL)


def read(name: str) -> str:
    """The text of one file in ``static/``."""
    return (_STATIC / name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """JavaScript files joined into one module, without comments and spacing, top names of one letter."""
    return shorten(compact("\n".join(read(name) for name in names)))


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


# -- short names -----------------------------------------------------------------------------------------------------


def shorten(source: str) -> str:
    """JavaScript, as `compact` leaves it, with names of one letter for the constants, functions and classes of its top level.

    A name that is also a key, a method, or taken out of an object somewhere keeps its length: there it means something else.

    Example:
        >>> shorten("let width=3;function twice(a){return a*width}f(twice,{width:twice(width)});")
        'let A=3;function B(a){return a*A}f(B,{width:B(A)});'
    """
    tokens = _TOKEN.findall(source)
    names = _top_names(tokens) - _ambiguous(tokens)
    uses = Counter(word for token in tokens for word in re.findall(r"[\w$]+", token))
    gains = sorted(names, key=lambda name: (-uses[name] * (len(name) - 1), name))
    free = (letter for letter in sorted(ascii_letters) if letter not in uses)
    return "".join(_rename(tokens, dict(zip(gains, free, strict=False))))


def _top_names(tokens: list[str]) -> set[str]:
    """What is declared outside of all brackets."""
    names, depth, declaring = set(), 0, False
    for token, following, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        depth += (token in tuple("([{")) - (token in tuple(")]}"))
        if depth == 0 and token in ("let", "function", "class"):
            names.add(name)
            declaring = token == "let"
        elif depth == 0 and token == "," and declaring:
            names.add(following)
        elif depth == 0 and (token == ";" or "\n" in token):
            declaring = False
    return {name for name in names if len(name) > 1 and _is_word(name[0])}


def _ambiguous(tokens: list[str]) -> set[str]:
    """Names that are a shorthand in an object, or a method: ``{name}``, ``{name=1}``, ``name(){...}``."""
    found, inside = set(), [("", "")]
    for k, token in enumerate(tokens):
        before, following = (tokens[k - 1] if k else ""), (tokens[k + 1] if k + 1 < len(tokens) else "")
        if token in tuple("([{"):
            inside.append((token, "" if "function" in tokens[max(0, k - 3) : k] else before))
        elif token in tuple(")]}"):
            _, name = inside.pop()
            found |= {name} if token == ")" and following == "{" else set()
        elif inside[-1][0] == "{" and before in ("{", ",") and following in (",", "}", "="):
            found.add(token)
    return found


def _rename(tokens: list[str], letters: dict[str, str]) -> Iterator[str]:
    """Each token, names replaced unless they are a property or a key; templates from the inside."""
    for k, token in enumerate(tokens):
        before, following = (tokens[k - 1] if k else ""), (tokens[k + 1] if k + 1 < len(tokens) else "")
        if token.startswith("`"):
            yield re.sub(r"\$\{[^}]*\}", lambda part: "".join(_rename(_TOKEN.findall(part[0]), letters)), token)
        elif before == "." or (following == ":" and before in ("{", ",")):
            yield token
        else:
            yield letters.get(token, token)
