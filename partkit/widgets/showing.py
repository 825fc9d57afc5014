"""How a view gets into a notebook, and what is stored of it.

A stored output must not hold a widget: opened without a kernel, JupyterLab would show an error in its place. So every view has a
still twin, and the output ends as that twin:

    PARTKIT_STATIC=1, or no kernel     the still twin, once
    a notebook                         the widget with its twin beside it, replaced by the twin alone when the view is finished

``update_display_data`` replaces the right output from any thread, and what it leaves there is what is saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

WIDGET = "application/vnd.jupyter.widget-view+json"
Bundle = dict[str, Any]


def is_static() -> bool:
    """Whether only still pictures can or shall be shown: nobody is there to run a widget."""
    return os.environ.get("PARTKIT_STATIC") == "1" or _kernel() is None


def _kernel() -> Any:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return getattr(get_ipython(), "kernel", None)


def widget_bundle(model_id: str, still: Bundle) -> Bundle:
    """A widget's view with its still twin."""
    return {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": model_id}, **still}


def _running_cell() -> str | None:
    """Which cell of the notebook is running; None if the front end does not say."""
    parent: dict[str, Any] = getattr(_kernel(), "get_parent", dict)()
    cell: str | None = parent.get("metadata", {}).get("cellId")
    return cell


class Outputs:
    """The outputs in which one view is shown.

    Args:
        when_gone: called when the cell of the last of them runs again, which clears its outputs.
    """

    def __init__(self, when_gone: Callable[[], None]) -> None:
        self._handles: list[tuple[str | None, Any]] = []
        """The cell, and what replaces the output."""
        self._when_gone = when_gone

    def __len__(self) -> int:
        return len(self._handles)

    def show(self, bundle: Bundle, *, replaceable: bool) -> None:
        """Show ``bundle`` in the output of the cell that runs."""
        from IPython import display

        show: Any = display.display  # IPython has no annotations
        if not replaceable:
            show(bundle, raw=True)
            return
        if not self._handles:
            self._listen("register")
        self._handles.append((_running_cell(), show(bundle, raw=True, display_id=True)))

    def replace(self, make: Callable[[], Bundle]) -> None:
        """Put what ``make`` gives into every output, on the screen and in the stored notebook."""
        bundle = make() if self._handles else {}
        for _, handle in self._handles:
            handle.update(bundle, raw=True)

    def forget(self) -> None:
        """The outputs stay as they are."""
        if self._handles:
            self._listen("unregister")
        self._handles.clear()

    def _listen(self, register: str) -> None:
        from IPython import get_ipython

        if (shell := get_ipython()) is not None:
            getattr(shell.events, register)("pre_run_cell", self._cell_runs)

    def _cell_runs(self, info: Any) -> None:
        """A cell is about to run: what it showed is gone."""
        kept = [(cell, handle) for cell, handle in self._handles if cell is None or cell != info.cell_id]
        if len(kept) == len(self._handles):
            return
        if not kept:
            self.forget()
            self._when_gone()
        self._handles = kept
