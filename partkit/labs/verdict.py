"""What a checker gives back: a verdict that is true or false, with its reasons in words. Pure."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """One thing that was checked."""

    ok: bool
    text: str
    """What holds, or what is wrong and where to look."""


class Verdict:
    """The outcome of an exercise.

    Args:
        exercise: its name.
        findings: everything that was checked, in the order in which to mend it.

    Example:
        >>> verdict = Verdict("ring all-reduce", [Finding(True, "sums are right"), Finding(False, "12 messages instead of 6")])
        >>> bool(verdict)
        False
        >>> verdict
        ring all-reduce: not yet
          ok    sums are right
          look  12 messages instead of 6
    """

    def __init__(self, exercise: str, findings: list[Finding]) -> None:
        self.exercise = exercise
        self.findings = findings

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return all(finding.ok for finding in self.findings)

    @property
    def headline(self) -> str:
        return f"{self.exercise}: {'solved' if self.ok else 'not yet'}"

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        lines = [f"  {'ok  ' if f.ok else 'look'}  " + f.text.replace("\n", "\n        ") for f in self.findings]
        return "\n".join([self.headline, *lines])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        rows = "".join(
            f'<div style="margin:2px 0"><span style="color:{"#009E73" if f.ok else "#D55E00"};font-weight:bold">{"✓" if f.ok else "✗"}</span>'
            f' <span style="white-space:pre-wrap">{escape(f.text)}</span></div>'
            for f in self.findings
        )
        colour = "#009E73" if self.ok else "#D55E00"
        html = f'<div style="border-left:4px solid {colour};padding:4px 10px"><strong>{escape(self.headline)}</strong>{rows}</div>'
        return {"text/plain": repr(self), "text/html": html}
