"""What is seen of a patient: its complaint, its program, the report of the run. Text and HTML; pictures are made of its trace."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from partkit.labs.clinic.case import SIZE, Case
from partkit.tracing import Trace
from partkit.worlds.errors import RankError


class Examination:
    """A case that has been run once.

    Args:
        case: the patient.
        ranks: on which kind of ranks it was run: "live ranks", "simulated ranks".
        error: what the run ended with.
        trace: what the ranks had done by then.

    Attributes:
        error: what the run ended with; its text is the report.
        trace: for `partkit.Timeline` and `partkit.CommMatrix`.
    """

    def __init__(self, case: Case, ranks: str, error: RankError, trace: Trace) -> None:
        self.case, self.ranks, self.error, self.trace = case, ranks, error, trace

    @property
    def report(self) -> str:
        """What partkit says of it."""
        return str(self.error)

    @property
    def lines(self) -> tuple[int, ...]:
        """Lines of the program that the report names, in the order of their first mention."""
        name = re.escape(self.case.filename)
        found = re.findall(rf'{name}(?::|", line )(\d+)', self.report)
        return tuple(dict.fromkeys(map(int, found)))

    @property
    def headline(self) -> str:
        """Which case it is, and its complaint."""
        return f"case {self.case.number}, on {SIZE} {self.ranks}: {self.case.truth.complaint}"

    def __repr__(self) -> str:
        return "\n\n".join([self.headline, f"{self.case.filename}\n{self.case.listing(self.lines)}", f"the report\n{_indent(self.report)}"])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        listing = "\n".join(_row(row) for row in self.case.listing(self.lines).splitlines())
        return {
            "text/plain": repr(self),
            "text/html": f'<div style="border-left:4px solid #0072B2;padding:4px 10px"><strong>{escape(self.headline)}</strong>'
            f"{_block(self.case.filename, listing)}{_block('the report', escape(self.report))}</div>",
        }


def _row(text: str) -> str:
    """A line of the listing; one that the report names stands out in any theme."""
    marked = text.startswith(">")
    return f'<b style="box-shadow:inset 3px 0 #D55E00;background:#D55E0022">{escape(text)}</b>' if marked else escape(text)


def _block(title: str, html: str) -> str:
    pre = "margin:2px 0;white-space:pre-wrap;font-family:var(--jp-code-font-family,monospace)"
    return f'<div style="margin:6px 0 0;opacity:.75">{escape(title)}</div><pre style="{pre}">{html}</pre>'


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
