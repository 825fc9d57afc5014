"""Memory over time as a still picture, a table and a text.

The picture: `partkit.figures.memory_panels`. The text holds no times: it is the same in every run that computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from partkit.figures.bundle import figure, place_name, table
from partkit.figures.memory import Account, accounts
from partkit.figures.memory_panels import NOTHING, XAxis, highest, svg
from partkit.figures.units import count, nbytes
from partkit.tracing import Trace
from partkit.tracing.memory import USES, Share, Use

MAX_ROWS = 40


def bundle(trace: Trace, *, x: XAxis = "seconds", title: str = "") -> dict[str, str]:
    """The mimebundle of what a trace's ranks held: picture, table, text.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "metric", t, t, tag="memory: other", value=v) for t, v in ((0, 0), (1, 800), (2, 400))])
        >>> print(bundle(trace)["text/plain"])
        memory of 1 rank: peak 800 bytes on rank 0
         ranks       peak      other
        rank 0  800 bytes  800 bytes
    """
    found = accounts(trace)
    head = headline(trace, found)
    tables = [*_tables(found)] if found else []
    return {"text/html": figure(svg(trace, found, x=x), f"Memory over time. {head}", head, tables, title), "text/plain": plain_text(head, found, title)}


def headline(trace: Trace, found: Sequence[Account]) -> str:
    """``memory of 4 ranks: peak 61 kB on ranks 0-3, 76% of the device's 80 kB``; the same in every run."""
    if not found:
        return NOTHING
    top = highest(found)
    running = "" if trace.finished.is_set() else "; still running"
    return f"memory of {count(sum(len(a.ranks) for a in found), 'rank')}: peak {nbytes(int(top.totals[top.peak]))} on {top.label}{_of_cap(top)}{running}"


def _of_cap(account: Account) -> str:
    return f", {100 * account.totals[account.peak] / account.cap:.2g}% of the device's {nbytes(account.cap)}" if account.cap else ""


def _used(found: Sequence[Account]) -> list[Use]:
    """Uses that any account has at its peak."""
    return [use for use in USES if any(account.at_peak[use] for account in found)]


def _rows(found: Sequence[Account]) -> list[tuple[str, ...]]:
    uses = _used(found)
    body = [(a.label, nbytes(int(a.totals[a.peak])), *(nbytes(a.at_peak[use]) if a.at_peak[use] else "" for use in uses)) for a in found]
    return [("ranks", "peak", *uses), *body]


def plain_text(head: str, found: Sequence[Account], title: str = "") -> str:
    """The headline, the peak of each account by use, and the largest tensors in the highest."""
    head = f"{title}: {head}" if title else head
    if not found:
        return head
    rows = _rows(found[:MAX_ROWS])
    wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, wide, strict=True)) for row in rows]
    more = [f"... and {count(len(found) - MAX_ROWS, 'account')} more"] if len(found) > MAX_ROWS else []
    top = highest(found)
    tensors = [f"  {nbytes(share.nbytes):>9}  {share.use}: {tensor(share)}" for share in top.shares]
    return "\n".join([head, *lines, *more, *([f"largest at the peak of {top.label}:", *tensors] if tensors else [])])


def tensor(share: Share) -> str:
    """``3 x float32[8, 100], train.py:4``.

    Example:
        >>> tensor(Share("activations", "float32[8, 100]", 3, 9600, "/home/me/train.py:4"))
        '3 x float32[8, 100], train.py:4'
    """
    return f"{f'{share.number} x ' if share.number > 1 else ''}{share.what}" + (f", {place_name(share.site)}" if share.site else "")


def _tables(found: Sequence[Account]) -> Iterator[str]:
    head, *rows = _rows(found[:MAX_ROWS])
    yield table(head, rows, f"Peak of {count(len(found), 'account')}" + (f", {MAX_ROWS} shown" if len(found) > MAX_ROWS else ""))
    top = highest(found)
    if top.shares:
        rows = [(share.use, tensor(share), nbytes(share.nbytes)) for share in top.shares]
        yield table(("use", "tensors", "bytes"), rows, f"Largest at the peak of {top.label}")
    steps = np.unique(np.append(np.linspace(0, len(top.times) - 1, min(len(top.times), MAX_ROWS)).round().astype(int), top.peak)).tolist()
    uses = [use for k, use in enumerate(USES) if top.states[:, k].any()]
    rows = [(str(i), *(f"{top.states[i, USES.index(use)]:,}" for use in uses), f"{top.totals[i]:,}") for i in steps]
    some = "" if len(steps) == len(top.times) else f" at {len(steps)} of {len(top.times):,} changes"
    yield table(("change", *uses, "all"), rows, f"Bytes on {top.label}{some}")
