"""Outputs without a browser: whose cell ran again, and what is freed then."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.events import EventManager

from partkit.tracing import Event, Trace
from partkit.widgets import showing
from partkit.widgets.prediction import Prediction
from partkit.widgets.timeline import Timeline


class Kernel:
    """A kernel whose front end says which cell runs, as JupyterLab, Notebook and VS Code do."""

    def __init__(self) -> None:
        self.events = EventManager(None, {"pre_run_cell": lambda info: None})
        self.cell: str | None = None

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {} if self.cell is None else {"cellId": self.cell}}

    def run(self, cell: str | None, *views: Any) -> None:
        self.events.trigger("pre_run_cell", SimpleNamespace(cell_id=cell))
        self.cell = cell
        for view in views:
            view._ipython_display_()

    @property
    def num_listeners(self) -> int:
        return len(self.events.callbacks["pre_run_cell"])


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    monkeypatch.delenv("PARTKIT_STATIC", raising=False)
    monkeypatch.setattr(showing, "_kernel", lambda: found)
    monkeypatch.setattr("IPython.get_ipython", lambda: found)
    monkeypatch.setattr("IPython.display.display", lambda *a, **k: SimpleNamespace(update=lambda *a, **k: None))
    return found


@pytest.fixture
def open_widgets() -> Iterator[Any]:
    """How many widgets were opened since the test began and are not closed."""
    from ipywidgets.widgets.widget import _instances

    before = set(_instances)
    yield lambda: len(set(_instances) - before)
    for name in set(_instances) - before:
        _instances[name].close()


def timeline() -> Timeline:
    return Timeline(Trace.from_events([Event(0, "compute", 0.0, 1.0)], clock="planned"))


def test_a_cell_that_runs_again_frees_what_it_showed(kernel: Kernel, open_widgets: Any) -> None:
    for _ in range(3):
        kernel.run("a", timeline())
    assert open_widgets() == 2  # the view and its layout
    assert kernel.num_listeners == 1
    kernel.run("a")
    assert (open_widgets(), kernel.num_listeners) == (0, 0)


def test_other_cells_free_nothing(kernel: Kernel, open_widgets: Any) -> None:
    view = timeline()
    kernel.run("a", view)
    kernel.run("b", view)
    kernel.run("a")
    assert view.comm is not None, "it is still shown by cell b"
    kernel.run("b")
    assert open_widgets() == 0


def test_a_front_end_that_names_no_cell_frees_nothing(kernel: Kernel) -> None:
    view = timeline()
    kernel.run(None, view)
    kernel.run(None)
    assert view.comm is not None
    view.close()
    assert kernel.num_listeners == 0


def test_a_view_that_was_freed_can_be_shown_again(kernel: Kernel, open_widgets: Any) -> None:
    view = timeline()
    kernel.run("a", view)
    kernel.run("a")
    kernel.run("b", view)
    assert view.comm is not None and view.layout.comm is not None
    view.close()
    assert open_widgets() == 0


def test_the_form_of_a_prediction_is_freed_by_the_guess_and_by_its_cell(kernel: Kernel, open_widgets: Any) -> None:
    prediction = Prediction("How many?", unit="messages")
    kernel.run("a", prediction)
    assert open_widgets() > 4
    kernel.run("a", prediction)
    kernel.run("a")
    assert open_widgets() == 0
    kernel.run("a", prediction)
    prediction.commit(3)
    assert (open_widgets(), kernel.num_listeners) == (0, 0)
