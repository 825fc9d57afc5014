"""What a run gives back: one entry a rank, equal ones shown once."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from partkit.diagnosis import name_ranks


class Results(list[Any]):
    """What the function returned, by rank.

    Example:
        >>> Results([1, 4, 4])
        [1, 4, 4]
        >>> print(Results([1, 4, 4]).folded())
        rank 0:     1
        ranks 1-2:  4
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(values)

    def groups(self) -> list[tuple[list[int], str]]:
        """Ranks with the same representation, and that representation, in order of the first rank."""
        merged: dict[str, list[int]] = {}
        for rank, value in enumerate(self):
            merged.setdefault(repr(value), []).append(rank)
        return [(ranks, text) for text, ranks in merged.items()]

    def folded(self) -> str:
        """A line for each different value, with the ranks that returned it."""
        lines = [(f"{name_ranks(ranks)}:", text) for ranks, text in self.groups()]
        width = max((len(label) for label, _ in lines), default=0)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align:left">{name_ranks(ranks)}</td><td style="text-align:left"><pre style="margin:0">{escape(text)}</pre></td></tr>'
            for ranks, text in self.groups()
        )
        return f'<table><thead><tr><th style="text-align:left">rank</th><th style="text-align:left">result</th></tr></thead><tbody>{rows}</tbody></table>'
