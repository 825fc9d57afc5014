"""The exercises of the notebooks: the skeleton runs and is "not yet", the solution in its fold-out is right."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
import torch

import partkit as pk
from partkit import labs
from partkit.tracing.critical_path import critical_path
from tests.source import ROOT

FOLDED = re.compile(r"<summary>A solution</summary>\s*```python\n(.*?)```", re.DOTALL)
NOTEBOOKS = ("02-collectives-from-scratch", "03-what-does-it-cost", "04-five-hundred-ranks", "05-fill-the-bubble", "06-zero-bubble-and-beyond")
CHECKS = {
    "my_broadcast": lambda learner, world: labs.check_broadcast(learner, world),
    "my_all_gather": lambda learner, world: labs.check_all_gather(learner, world),
    "my_reduce_scatter": lambda learner, world: labs.check_reduce_scatter(learner, world),
    "my_all_to_all": lambda learner, world: labs.check_all_to_all(learner, world),
    "my_all_reduce": lambda learner, world: labs.check_doubling(learner, world),
    "my_seconds": lambda learner, world: labs.check_cost(learner),
    "my_slow_ring": lambda learner, world: labs.check_slow_link(learner),
    "my_straggler": lambda learner, world: labs.check_straggler(learner),
    "my_ring": lambda learner, world: labs.check_placement(learner),
    "my_one_f_one_b": lambda learner, world: labs.check_one_f_one_b(learner),
    "my_zb_h1": lambda learner, world: labs.check_zb_h1(learner),
    "my_schedule": lambda learner, world: labs.check_bubble(learner, bubble=0.2, memory_cap=3),
}


def cells(kind: str) -> list[Any]:
    """All cells of the notebooks of one kind, with their source as one text."""
    found = []
    for name in NOTEBOOKS:
        notebook = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
        found += [cell | {"source": "".join(cell["source"])} for cell in notebook["cells"] if cell["cell_type"] == kind]
    return found


SOLUTIONS = [code for cell in cells("markdown") for code in FOLDED.findall(cell["source"])]


def function_of(code: str) -> tuple[str, Any]:
    """The function that a solution defines, and its name."""
    names: dict[str, Any] = {"torch": torch, "pk": pk, "pp": pk.pipeline_parallel, "Counter": Counter, "critical_path": critical_path}
    names["__name__"] = "__main__"
    exec(code, names)
    name = re.findall(r"^def (my_\w+)", code, re.MULTILINE)[0]
    return name, names[name]


def test_every_exercise_has_a_solution() -> None:
    assert [function_of(code)[0] for code in SOLUTIONS] == list(CHECKS)


@pytest.mark.live
@pytest.mark.parametrize("code", SOLUTIONS, ids=lambda code: code[4 : code.index("(")])
def test_the_solution_is_right(world4: pk.World, code: str) -> None:
    name, function = function_of(code)
    verdict = CHECKS[name](function, world4)
    assert verdict, verdict


def test_the_skeletons_run_and_are_not_yet_right() -> None:
    skeletons = [cell for cell in cells("code") if "labs.check_" in cell["source"]]
    shown = ["".join(output["data"]["text/plain"]) for cell in skeletons for output in cell["outputs"]]
    assert len(skeletons) == len(shown) == len(CHECKS)
    assert [text.splitlines()[0].rpartition(": ")[2] for text in shown] == ["not yet"] * len(shown)
