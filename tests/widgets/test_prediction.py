"""A prediction without a browser: what is committed, what is shown, what is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from partkit.widgets.prediction import Prediction
from partkit.widgets.showing import WIDGET
from tests.widgets.fake_display import Display

QUESTION = "How many messages does each of 4 ranks send?"


def test_without_a_reader_the_default_guess_counts(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    prediction = Prediction(QUESTION, unit="messages", guess=3)
    prediction._ipython_display_()
    assert display.shown == [
        {
            "text/html": f"<p><b>{QUESTION}</b><br/>your guess: 3 messages</p>",
            "text/plain": f"{QUESTION}\n  your guess: 3 messages",
        }
    ]
    assert prediction.reveal(6).words == "too low by 3 messages: the answer is 2 times your guess"


def test_without_a_reader_and_a_default_nothing_blocks(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_STATIC", "1")
    prediction = Prediction(QUESTION)
    prediction._ipython_display_()
    assert "no guess yet" in display.shown[0]["text/plain"]
    assert prediction.reveal(6).words == "no guess was made"


def test_a_reader_is_not_given_the_default(notebook: None) -> None:
    assert Prediction(QUESTION, guess=3).reveal(6).guess is None


def test_the_form_is_replaced_by_the_guess(notebook: None, display: Display) -> None:
    prediction = Prediction(QUESTION, unit="messages")
    form = prediction.form()
    prediction.form = lambda: form  # type: ignore[method-assign]
    prediction._ipython_display_()
    assert WIDGET in display.shown[0] and "no guess yet" in display.shown[0]["text/plain"]
    box, button = form.children[1].children[0], form.children[1].children[2]
    box.value = "5"
    button.click()
    assert prediction.guess == 5 and box.disabled and button.disabled
    assert WIDGET not in display.shown[1] and "your guess: 5 messages" in display.shown[1]["text/html"]
    button.click()
    assert prediction.guess == 5
    form.close()


@pytest.mark.parametrize("typed", ["", "  ", "many", "3,5", "1,00", "nan", "inf"])
def test_a_box_without_a_number_commits_nothing_and_says_so(notebook: None, typed: str) -> None:
    prediction = Prediction(QUESTION)
    form = prediction.form()
    box, _, button, hint = form.children[1].children
    assert not box.continuous_update  # typed fast, "20" would arrive as "2", then the click, then "20"
    box.value = typed
    button.click()
    assert prediction.guess is None and hint.value == "type a number first"
    box.value = "0"
    button.click()
    assert prediction.guess == 0
    form.close()


@pytest.mark.parametrize(("typed", "guess"), [(" 32 ", 32), ("1e3", 1000), ("1,000", 1000), ("-1_000.5", -1000.5), ("12,345,678.25", 12345678.25), (".5", 0.5)])
def test_numbers_are_read_as_people_type_them(notebook: None, typed: str, guess: float) -> None:
    prediction = Prediction(QUESTION)
    form = prediction.form()
    form.children[1].children[0].value = typed
    form.children[1].children[2].click()
    assert prediction.guess == guess
    form.close()


def test_choices_are_radio_buttons(notebook: None) -> None:
    prediction = Prediction("Which?", choices=["naive", "ring"])
    form = prediction.form()
    assert form.children[1].children[0].options == ("naive", "ring")
    answer, button, hint = form.children[1].children
    assert answer.value is None  # nothing is chosen for the reader
    button.click()
    assert prediction.guess is None and hint.value == "choose one first" and not button.disabled
    answer.value = "ring"
    button.click()
    assert prediction.reveal("naive").words == "not this time"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Prediction("q", choices=["a"]), "at least two"),
        (lambda: Prediction("q", choices=["a", "a"]), "all different"),
        (lambda: Prediction("q", choices=["a", "b"], guess="c"), "'c' is none of the choices: 'a', 'b'"),
        (lambda: Prediction("q", unit="ms").commit("fast"), "'fast' is no number; this prediction asks for one, in ms"),
        (lambda: Prediction("q").commit(float("nan")), "nan is no number"),
        (lambda: Prediction("q").commit(None), "None is no number"),  # type: ignore[arg-type]
        (lambda: Prediction("q").commit(10**400), "is no number"),
        (lambda: [p := Prediction("q", unit="messages"), p.commit(1), p.commit(2)], "your guess is 1 message already"),
    ],
)
def test_refusals(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_case_W03_asking_needs_ipywidgets_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r"partkit\[notebook\]"):
        Prediction("q").form()


def test_case_W12_its_text_is_the_same_in_every_run() -> None:
    assert repr(Prediction(QUESTION)) == f"{QUESTION}\n  no guess yet"
