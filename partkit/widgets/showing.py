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


class Outputs:
    """The outputs in which one view is shown."""

    def __init__(self) -> None:
        self._handles: list[Any] = []

    def __len__(self) -> int:
        return len(self._handles)

    def show(self, bundle: Bundle, *, replaceable: bool) -> None:
        """Show ``bundle`` in the output of the cell that runs."""
        from IPython import display

        show: Any = display.display  # IPython has no annotations
        if replaceable:
            self._handles.append(show(bundle, raw=True, display_id=True))
        else:
            show(bundle, raw=True)

    def replace(self, make: Callable[[], Bundle]) -> None:
        """Put what ``make`` gives into every output, on the screen and in the stored notebook."""
        bundle = make() if self._handles else {}
        for handle in self._handles:
            handle.update(bundle, raw=True)

    def forget(self) -> None:
        """The outputs stay as they are."""
        self._handles.clear()
