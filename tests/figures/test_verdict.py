"""A guess and its answer in words."""

from __future__ import annotations

import pytest

from partkit.figures.verdict import Answer, judge, show


@pytest.mark.parametrize(
    ("guess", "actual", "right", "words"),
    [
        (12, 12, True, "right"),
        (12.0, 12, True, "right"),
        (6, 12, False, "too low by 6 messages: the answer is 2 times your guess"),
        (36, 12, False, "too high by 24 messages: your guess is 3 times the answer"),
        (11, 12, False, "too low by 1 message"),
        (0, 12, False, "too low by 12 messages"),
        (-6, 12, False, "too low by 18 messages"),
        (5, 0, False, "too high by 5 messages"),
        ("ring", "ring", True, "right"),
        ("naive", "ring", False, "not this time"),
        (None, 12, False, "no guess was made"),
    ],
)
def test_the_difference_in_words(guess: Answer | None, actual: Answer, right: bool, words: str) -> None:
    verdict = judge("How many?", guess, actual, "messages")
    assert (verdict.right, verdict.words) == (right, words)


def test_near_enough_is_right() -> None:
    assert judge("q", 95, 100, tolerance=0.05).words == "right, within 5%"
    assert not judge("q", 94, 100, tolerance=0.05).right


def test_units() -> None:
    assert [show(1, "messages"), show(2, "messages"), show(1, "ms"), show(1234567, "bytes"), show(0.12345, "s"), show("ring", "x")] == [
        "1 message",
        "2 messages",
        "1 ms",
        "1,234,567 bytes",
        "0.1235 s",
        "ring",
    ]


def test_shown_as_a_table_that_needs_no_trust() -> None:
    bundle = judge("a < b?", 3, 6, "messages")._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "<caption>a &lt; b?</caption>" in bundle["text/html"]
    assert "<td>3 messages</td>" in bundle["text/html"]
    assert "your guess:     3 messages" in bundle["text/plain"]
