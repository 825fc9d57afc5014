"""Stands in for IPython's display."""

from __future__ import annotations

from typing import Any


class Display:
    """Keeps the bundles that are shown or put in the place of others, and hands out handles.

    Attributes:
        shown: every bundle, in order.
        replaced: those that took the place of another.
    """

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []
        self.replaced: list[dict[str, Any]] = []

    def __call__(self, bundle: dict[str, Any], *, raw: bool, display_id: bool = False) -> Display | None:
        assert raw
        self.shown.append(bundle)
        return self if display_id else None

    def update(self, bundle: dict[str, Any], *, raw: bool) -> None:
        assert raw
        self.shown.append(bundle)
        self.replaced.append(bundle)
