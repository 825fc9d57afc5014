"""A case of the clinic: a short program for four ranks that does not come to its end, and, sealed, why.

All that a report says of a program is lines: ``patient_05.py:27``. So the programs live in files of their own, one a case, which
are compiled under such a name; what is shown of them is the function ``patient``. The data it works on are above it in the file,
and what is wrong is in the data: whoever reads the function alone can't see it.

    file      patients/case_05.py       shown as patient_05.py
    program   def patient(comm): ...    shown, with its line numbers
    data      NAMES = ..., functions    sealed until the diagnosis is right
    truth     TRUTH = Truth(...)        sealed: the fault, the ranks, the line, why, the cure
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

PATIENTS = Path(__file__).parent / "patients"
NUM_CASES = 10
SIZE = 4
"""Ranks of every case."""


class Truth(NamedTuple):
    """What is wrong with a patient."""

    complaint: str
    """What those say who sent it."""
    fault: str
    """One of `partkit.labs.clinic.symptoms.SYMPTOMS`."""
    ranks: tuple[int, ...]
    """Where it begins; several if nobody can say who of them is at fault."""
    line: str
    """A part of the line at which these ranks stand in the report."""
    why: str
    cure: str


class Case(NamedTuple):
    """A patient.

    Example:
        >>> case = Case.load(2)
        >>> case.filename, case.truth.complaint
        ('patient_02.py', 'has added up the sensors of four ranks for weeks, and hangs today')
    """

    number: int
    program: Callable[..., Any]
    """``program(comm)``, for one of four ranks."""
    truth: Truth
    source: str
    """The whole file, data and truth included."""

    @staticmethod
    def load(number: int) -> Case:
        """The case by its number, from 1.

        Raises:
            ValueError: there is no such case.
        """
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= NUM_CASES:
            raise ValueError(f"case={number!r}: cases are numbered from 1 to {NUM_CASES}")
        source = (PATIENTS / f"case_{number:02}.py").read_text(encoding="utf-8")
        name = _filename(number)
        names: dict[str, Any] = {"__name__": name.removesuffix(".py")}  # no importable module, so that it travels to ranks as a whole
        exec(compile(source, name, "exec", dont_inherit=True), names)
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for tracebacks
        return Case(number, names["patient"], names["TRUTH"], source)

    @property
    def filename(self) -> str:
        """The name under which reports know it."""
        return _filename(self.number)

    @property
    def line(self) -> int:
        """Number of the line at which the ranks that are at fault stand."""
        first, last = self._span
        return next(n for n, text in enumerate(self.source.splitlines(), 1) if first <= n <= last and self.truth.line in text)

    def listing(self, marked: Collection[int] = ()) -> str:
        """The function ``patient`` with line numbers; some lines marked."""
        first, last = self._span
        lines = self.source.splitlines()[first - 1 : last]
        return "\n".join(f"{'>' if n in marked else ' '} {n:3}  {text}".rstrip() for n, text in enumerate(lines, first))

    def sealed(self) -> str:
        """The data and functions above the program."""
        tree = ast.parse(self.source)
        parts = [node for node in tree.body if isinstance(node, ast.Assign | ast.FunctionDef)]
        return "\n".join(ast.get_source_segment(self.source, node) or "" for node in parts[: [getattr(node, "name", "") for node in parts].index("patient")])

    @property
    def _span(self) -> tuple[int, int]:
        """First and last line of the program."""
        node = next(node for node in ast.parse(self.source).body if isinstance(node, ast.FunctionDef) and node.name == "patient")
        return node.lineno, node.end_lineno or node.lineno


def _filename(number: int) -> str:
    return f"patient_{number:02}.py"
