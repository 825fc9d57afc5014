"""Your guess, then the run, then the difference. Committing to a guess first is what makes the answer stick.

    prediction = pk.Prediction("How many messages does each of 4 ranks send?", unit="messages")
    prediction                                              a box and a button
    ...                                                     the run
    prediction.reveal(world.trace.num_messages(rank=0))     guess, answer, difference

It never blocks: a notebook that runs from top to bottom without a reader takes the default guess, if it was given one. Once a
guess is committed, the form in the output is replaced by the guess as plain text, which is what a saved notebook keeps.

Source: prediction before observation, Crouch, Fagen, Callan and Mazur 2004, "Classroom demonstrations: Learning tools or
entertainment?".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from partkit.figures.verdict import Answer, Verdict, judge, show
from partkit.widgets.showing import Bundle, Outputs, is_static, widget_bundle


class Prediction:
    """A question that wants a guess before its answer.

    Args:
        question: in words.
        unit: of a number, in the plural: ``"messages"``, ``"ms"``.
        choices: for a guess that is one of several; a number if left out.
        guess: taken where nobody can answer (`PARTKIT_STATIC=1`, no notebook).
        tolerance: a number within this fraction of the answer is right.

    Attributes:
        guess: the guess that was committed, or None.

    Raises:
        ValueError: ``choices`` has fewer than two different ones, or ``guess`` is none that could be committed.

    Example:
        >>> prediction = Prediction("Which moves fewer bytes?", choices=["naive", "ring"])
        >>> prediction.commit("ring")
        >>> prediction.reveal("ring").right
        True
    """

    def __init__(self, question: str, *, unit: str = "", choices: Sequence[str] | None = None, guess: Answer | None = None, tolerance: float = 0.0) -> None:
        self.question, self.unit, self.tolerance = question, unit, tolerance
        self.choices = None if choices is None else tuple(choices)
        if self.choices is not None and len(set(self.choices)) < max(2, len(self.choices)):
            raise ValueError(f"Prediction(choices={list(self.choices)!r}): give at least two, all different")
        self.guess: Answer | None = None
        self._default = None if guess is None else self._checked(guess)
        self._outputs = Outputs(self._close_form)
        self._form: Any = None

    def commit(self, guess: Answer) -> None:
        """Fix the guess.

        Raises:
            ValueError: it is no number, none of the choices, or the second guess.
        """
        if self.guess is not None:
            raise ValueError(f"commit({guess!r}): your guess is {show(self.guess, self.unit)} already; make a new Prediction to guess again")
        self.guess = self._checked(guess)
        self._outputs.replace(self._still)
        self._outputs.forget()
        self._close_form()

    def reveal(self, actual: Answer) -> Verdict:
        """Lay the answer beside the guess; shows itself as a table.

        Raises:
            ValueError: ``actual`` is no number, or none of the choices.
        """
        if self.guess is None and self._default is not None and is_static():
            self.commit(self._default)
        return judge(self.question, self.guess, self._checked(actual), self.unit, self.tolerance)

    def _checked(self, answer: Answer) -> Answer:
        if self.choices is not None:
            if answer not in self.choices:
                raise ValueError(f"{answer!r} is none of the choices: {', '.join(map(repr, self.choices))}")
            return answer
        if not _is_number(answer):
            raise ValueError(f"{answer!r} is no number; this prediction asks for one" + (f", in {self.unit}" if self.unit else ""))
        return answer

    # -- showing -------------------------------------------------------------------------------------------------

    def _ipython_display_(self, **options: Any) -> None:
        if is_static():
            if self.guess is None and self._default is not None:
                self.commit(self._default)
            self._outputs.show(self._still(), replaceable=False)
        elif self.guess is not None:
            self._outputs.show(self._still(), replaceable=False)
        else:
            self._form = self._form or self.form()
            self._outputs.show(widget_bundle(self._form.model_id, self._still()), replaceable=True)

    def _close_form(self) -> None:
        if self._form is not None:
            _close(self._form)
            self._form = None

    def form(self) -> Any:
        """The box and the button, as an ipywidgets widget.

        Raises:
            ImportError: ipywidgets is not installed.
        """
        try:
            import ipywidgets
        except ImportError as missing:
            raise ImportError("asking for a guess needs ipywidgets: pip install 'partkit[notebook]' (or call commit(guess))") from missing
        wide = ipywidgets.Layout(width="auto")
        number = self.choices is None
        if number:  # sent when the box is left, not letter by letter: while the kernel is busy a click would overtake the last digits
            answer = ipywidgets.Text(placeholder="a number", continuous_update=False, layout=ipywidgets.Layout(width="10em"))
        else:
            answer = ipywidgets.RadioButtons(options=self.choices, value=None, layout=wide)
        button = ipywidgets.Button(description="This is my guess", button_style="primary", layout=wide)
        line = [answer, ipywidgets.Label(self.unit)] if number else [answer]
        hint = ipywidgets.Label("")
        form = ipywidgets.VBox([ipywidgets.HTML(f"<b>{escape(self.question)}</b>"), ipywidgets.HBox([*line, button, hint])])

        def clicked(_: Any) -> None:
            guess = _number_in(answer.value) if number else answer.value
            if guess is None:  # nobody guesses 0 by not touching the box
                hint.value = "type a number first" if number else "choose one first"
                return
            if self.guess is None:
                self.commit(guess)
            answer.disabled = button.disabled = True

        button.on_click(clicked)
        return form

    def _still(self) -> Bundle:
        guess = "no guess yet" if self.guess is None else f"your guess: {show(self.guess, self.unit)}"
        return {"text/html": f"<p><b>{escape(self.question)}</b><br/>{escape(guess)}</p>", "text/plain": f"{self.question}\n  {guess}"}

    def __repr__(self) -> str:
        return str(self._still()["text/plain"])


def _is_number(answer: Any) -> bool:
    """Whether it is finite and no bool; whatever else somebody commits is none."""
    try:
        return not isinstance(answer, bool | str) and math.isfinite(answer)
    except (TypeError, ValueError, OverflowError):
        return False


def _number_in(text: str) -> float | None:
    """The number that somebody has typed: ``1e3``, ``1,000`` and ``1_000`` are the same; None if it is none."""
    plain = text.replace("_", "")
    try:
        number = float(plain.replace(",", "") if re.fullmatch(r"\s*[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*", plain) else plain)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _close(widget: Any) -> None:
    """Free an ipywidgets widget and all that it is made of, which its own ``close`` leaves."""
    for part in (*getattr(widget, "children", ()), getattr(widget, "style", None), widget.layout):
        if hasattr(part, "layout"):
            _close(part)
        elif part is not None:
            part.close()
    widget.close()
