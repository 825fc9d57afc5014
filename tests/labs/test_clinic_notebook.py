"""Notebook 04b: every patient is there once; what stands in its cells is "not yet", what is folded away is right."""

from __future__ import annotations

import json
import re
from typing import Any

from partkit.labs import clinic
from partkit.labs.clinic.case import NUM_CASES
from tests.source import ROOT

CALL = re.compile(r'clinic\.diagnose\(case=(\d+), rank=(\d), fault="([^"]+)"\)')


def cells(kind: str) -> list[Any]:
    notebook = json.loads((ROOT / "notebooks" / "04b-the-clinic.ipynb").read_text(encoding="utf-8"))
    return [cell | {"source": "".join(cell["source"])} for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_every_patient_is_examined_once() -> None:
    numbers = [int(number) for cell in cells("code") for number in re.findall(r"clinic\.examine\((\d+), world\)", cell["source"])]
    assert sorted(numbers) == list(range(1, NUM_CASES + 1))


def test_the_first_guesses_are_wrong_and_the_folded_answers_right() -> None:
    guesses = [found for cell in cells("code") if cell["source"].endswith("# your diagnosis") for found in CALL.findall(cell["source"])]
    answers = [found for cell in cells("markdown") for found in CALL.findall(cell["source"])]
    assert [guess[0] for guess in guesses] == [answer[0] for answer in answers] and len(answers) == NUM_CASES - 1
    assert not any(clinic.diagnose(int(case), int(rank), fault) for case, rank, fault in guesses)
    assert all(clinic.diagnose(int(case), int(rank), fault) for case, rank, fault in answers)


def test_no_answer_stands_outside_of_a_fold() -> None:
    for cell in cells("markdown"):
        outside = re.sub(r"<details>.*?</details>", "", cell["source"], flags=re.DOTALL)
        assert not CALL.search(outside)
