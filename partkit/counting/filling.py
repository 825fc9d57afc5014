"""What fills a device, in words: by use, and the largest tensors with the lines that made them.

    out of memory: addmm makes float32[500, 1000] of 2 MB, but of the 11 MB of the device (H100 SXM) only 996 kB are left
    held are 10 MB: parameters 4 MB, activations 6 MB; the largest, and where they were made:
           4 MB  parameters   float32[1000, 1000]      File "train.py", line 4
           4 MB  activations  2 x float32[500, 1000]   File "train.py", line 7

Lines are named as tracebacks name them, since then a notebook shows them as its cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from partkit.tracing.memory import USES, Share, Use


class Holding(NamedTuple):
    """One storage that is alive."""

    nbytes: int
    use: Use
    what: str
    """dtype and shape of the tensor that it was made for."""
    site: str
    """Source line that made it."""


def shares(holdings: Iterable[Holding], most: int = 5) -> list[Share]:
    """What takes most: tensors of one use, dtype, shape and source line together, the largest first.

    Example:
        >>> row = Holding(100, "activations", "float32[5, 5]", "train.py:3")
        >>> shares([row, Holding(150, "other", "uint8[150]", ""), row])[0]
        Share(use='activations', what='float32[5, 5]', number=2, nbytes=200, site='train.py:3')
    """
    found: dict[tuple[Use, str, str], list[int]] = {}
    for holding in holdings:
        found.setdefault((holding.use, holding.what, holding.site), []).append(holding.nbytes)
    every = [Share(use, what, len(sizes), sum(sizes), site) for (use, what, site), sizes in found.items()]
    return sorted(every, key=lambda share: -share.nbytes)[:most]


def refusal(operation: str, new: Sequence[Holding], held: Sequence[Holding], cap: float, whose: str) -> str:
    """Why the result of an operation does not fit.

    Args:
        operation: its name.
        new: what it has made.
        held: what was there before.
        cap: bytes in all.
        whose: what has this end: ``the device (H100 SXM)``.

    Example:
        >>> row = Holding(600, "activations", "uint8[600]", "train.py:3")
        >>> print(refusal("add", [row], [row], 1000, "the cap"))
        out of memory: add makes uint8[600] of 600 B, but of the 1 kB of the cap only 400 B are left
        held are 600 B: activations 600 B; the largest, and where they were made:
              600 B  activations  uint8[600]  File "train.py", line 3
    """
    wanted, taken = (sum(holding.nbytes for holding in some) for some in (new, held))
    made = " and ".join(dict.fromkeys(holding.what for holding in new))
    head = f"out of memory: {operation} makes {made} of {size(wanted)}, but of the {size(cap)} of {whose} only {size(max(0, cap - taken))} are left"
    uses = [(use, sum(holding.nbytes for holding in held if holding.use == use)) for use in USES]
    filled = ", ".join(f"{use} {size(nbytes)}" for use, nbytes in uses if nbytes)
    if not filled:
        return f"{head}; nothing else is held"
    rows = [(size(share.nbytes), share.use, words(share), _place(share.site)) for share in shares(held)]
    wide = [max(len(row[k]) for row in rows) for k in (1, 2)]
    lines = [f"  {row[0]:>9}  {row[1]:<{wide[0]}}  {row[2]:<{wide[1]}}  {row[3]}".rstrip() for row in rows]
    return "\n".join([head, f"held are {size(taken)}: {filled}; the largest, and where they were made:", *lines])


def words(share: Share) -> str:
    """``float32[8, 100]``, or ``3 x float32[8, 100]``."""
    return share.what if share.number == 1 else f"{share.number} x {share.what}"


def size(nbytes: float) -> str:
    """``4 MB``, to three digits.

    Example:
        >>> size(950), size(4_004_000), size(8e10)
        ('950 B', '4 MB', '80 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= factor:
            return f"{float(f'{nbytes / factor:.3g}'):g} {unit}"
    return f"{nbytes:.0f} B"


def _place(site: str) -> str:
    filename, _, line = site.rpartition(":")
    return f'File "{filename}", line {line}' if filename else ""
