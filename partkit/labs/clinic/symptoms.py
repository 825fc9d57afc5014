"""Ten faults of programs on several ranks, and how each shows in a report: what to look for, and what to rule out."""

from __future__ import annotations

SYMPTOMS = {
    "skipped rank": "whoever has left out a collective is at a later one already, or has finished, while all others are in the one that it has left out",
    "swapped order": "everybody calls the same collectives, but one rank is in that which the others call next",
    "wrong shape": "the same call of the same collective with other numbers in the brackets: float32[3] beside float32[4]",
    "wrong dtype": "the same call of the same collective with another word before the brackets: int64[2] beside float32[2]",
    "wrong root": "the same call of a rooted collective, from rank 0 on some ranks, from another one elsewhere",
    "wrong sub-group": "calls at one line among ranks that overlap without being the same: among ranks 0-1, and among ranks 1, 3",
    "send cycle": "the report says cycle: each rank waits in a message for the next, and the last for the first",
    "one rank raises": "the report is no report of a hang at all, but an error with its traceback; the others stopped because of it",
    "uneven batch counts": "one rank has finished after fewer calls than the others make, and all of these calls are at the same line of a loop",
    "missing message": "a rank waits in recv for a message, outside of any collective, and the one that should send it has finished or gone on",
}
"""By fault: how it shows."""


def check_fault(fault: object) -> str:
    """The fault by its name; capitals and hyphens don't matter.

    Raises:
        ValueError: there is no such fault.

    Example:
        >>> check_fault("Wrong subgroup")
        'wrong sub-group'
    """
    plain = {_plain(name): name for name in SYMPTOMS}
    if _plain(str(fault)) not in plain:
        raise ValueError(f"fault={fault!r}: it is one of {', '.join(map(repr, SYMPTOMS))}")
    return plain[_plain(str(fault))]


def _plain(fault: str) -> str:
    return "".join(letter for letter in fault.casefold() if letter.isalpha())
