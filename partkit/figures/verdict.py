"""A guess beside what came out, and the difference in words. Pure; `partkit.widgets.prediction` asks for the guess.

guess     actual    in words
12        12        right
6         12        too low by 6 messages: the answer is 2 times your guess
11        12        too low by 1 message
"naive"   "ring"    not this time
None      12        no guess was made
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from partkit.figures.bundle import table

Answer = float | str
FACTOR = 1.5
"""From this ratio on, a difference is told as a factor too."""


class Verdict(NamedTuple):
    """Your guess, the run, the difference."""

    question: str
    guess: Answer | None
    actual: Answer
    unit: str
    right: bool
    words: str
    """The difference."""

    def _rows(self) -> list[tuple[str, str]]:
        guess = "none" if self.guess is None else show(self.guess, self.unit)
        return [("your guess", guess), ("the run", show(self.actual, self.unit)), ("the difference", self.words)]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": table(("", ""), self._rows(), self.question), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return "\n".join([self.question, *(f"  {name + ':':<16}{value}" for name, value in self._rows())])


def judge(question: str, guess: Answer | None, actual: Answer, unit: str = "", tolerance: float = 0.0) -> Verdict:
    """Compare a guess with what came out.

    Args:
        question: what was asked.
        guess: a number or a choice; None if there was none.
        actual: the same kind of thing.
        unit: of the numbers, as a noun in the plural or a symbol: ``"messages"``, ``"ms"``.
        tolerance: a number within this fraction of ``actual`` is right.

    Example:
        >>> judge("Messages sent by each of 4 ranks?", 3, 6, "messages")
        Messages sent by each of 4 ranks?
          your guess:     3 messages
          the run:        6 messages
          the difference: too low by 3 messages: the answer is 2 times your guess
    """
    right, words = _compare(guess, actual, unit, tolerance)
    return Verdict(question, guess, actual, unit, right, words)


def show(answer: Answer, unit: str = "") -> str:
    """An answer with its unit: ``1 message``, ``1,024 messages``, ``2.5 ms``, ``ring``."""
    if isinstance(answer, str):
        return answer
    text = f"{int(answer):,}" if float(answer).is_integer() and abs(answer) < 1e15 else f"{answer:.4g}"
    noun = unit[:-1] if answer == 1 and len(unit) > 2 and unit.endswith("s") else unit
    return f"{text} {noun}".strip()


def _compare(guess: Answer | None, actual: Answer, unit: str, tolerance: float) -> tuple[bool, str]:
    if guess is None:
        return False, "no guess was made"
    if isinstance(guess, str) or isinstance(actual, str):
        return (True, "right") if guess == actual else (False, "not this time")
    if guess == actual:
        return True, "right"
    if abs(guess - actual) <= tolerance * abs(actual):
        return True, f"right, within {tolerance:.0%}"
    side = "low" if guess < actual else "high"
    words = f"too {side} by {show(abs(actual - guess), unit)}"
    low, high = sorted((abs(guess), abs(actual)))
    if guess * actual > 0 and high / low >= FACTOR and math.isfinite(high / low):
        larger, smaller = ("the answer", "your guess") if abs(actual) > abs(guess) else ("your guess", "the answer")
        words += f": {larger} is {high / low:.3g} times {smaller}"
    return False, words
