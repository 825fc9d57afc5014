"""What ranks' tensors held over time, read from a trace: states by use, the peak, and what filled it. Pure.

    metrics of rank 0 (`partkit.tracing.memory`)             states
    memory: parameters      4000                             parameters  gradients  ...  activations  other
    memory: activations      600  --.
    memory: other            -600 --+-- one moment  ----->   4000        0               600          0
    memory: gradients       4000                             4000        4000            600          0

Numbers of one moment make one state, so that a tensor that goes from one use to another is never counted twice. Ranks with the same
states are one account (`partkit.figures.alike`): replicas in step are one picture. The peak is the first state with the largest total,
or the last one before anything was freed: then it is known best what the tensors are for.

`MemoryEncoder` turns what is new into blocks for a browser, 72 bytes a state of an account.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.diagnosis import name_ranks
from partkit.figures.alike import alike
from partkit.figures.encoding import pack
from partkit.figures.units import count
from partkit.tracing import KIND_CODE, Trace
from partkit.tracing.memory import CAP, PREFIX, USES, Share, metric_of, read_share

States = npt.NDArray[np.int64]
"""Bytes by use, and in a last column the cap, 0 for none. Shape (states, uses + 1)."""
_COLUMNS = {**{metric_of(use): k for k, use in enumerate(USES)}, CAP: len(USES)}
MAX_STATES = 150_000
"""What a browser gets at most, of all accounts together."""


class Account(NamedTuple):
    """What some ranks held."""

    ranks: tuple[int, ...]
    times: npt.NDArray[np.float64]
    """Seconds since the start of the run, on the lowest rank. Shape (states,)."""
    states: States
    spans: npt.NDArray[np.int32]
    """Of each state: which of the trace's strings is its span; and"""
    sites: npt.NDArray[np.int32]
    """its source line."""
    shares: tuple[Share, ...] = ()
    """The largest tensors at the peak, once the account is closed."""

    @property
    def label(self) -> str:
        """``rank 3``, ``ranks 0-2``."""
        return name_ranks(self.ranks)

    @property
    def totals(self) -> npt.NDArray[np.int64]:
        """Bytes of all uses. Shape (states,)."""
        total: npt.NDArray[np.int64] = self.states[:, : len(USES)].sum(axis=1)
        return total

    @property
    def peak(self) -> int:
        """The state with the largest total; the last of those that follow on the first."""
        totals = self.totals
        first = int(totals.argmax())
        below = np.flatnonzero(totals[first:] < totals[first])
        return first + int(below[0]) - 1 if len(below) else len(totals) - 1

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes by use at the peak."""
        return dict(zip(USES, self.states[self.peak].tolist(), strict=False))

    @property
    def cap(self) -> int:
        """Bytes of the device; 0 if it has no end."""
        return int(self.states[-1, -1])


class Ledger:
    """The accounts of a trace that may still grow.

    Args:
        trace: where ranks note what they hold.

    Attributes:
        num_states: so far, of all ranks.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.num_states = 0
        self._taken = 0
        self._by_rank: dict[int, _Book] = {}

    def update(self) -> int:
        """Look at what has come since the last call; gives the number of new states."""
        rows = self.trace.columns[self._taken :]
        self._taken += len(rows)
        rows = rows[rows["kind"] == KIND_CODE["metric"]]
        names = {int(tag): self.trace.strings[tag] for tag in np.unique(rows["tag"])}
        rows = rows[np.isin(rows["tag"], [tag for tag, name in names.items() if name.startswith(PREFIX)])]
        new = sum(self._by_rank.setdefault(rank, _Book()).add(rows[rows["rank"] == rank], names, self.trace) for rank in np.unique(rows["rank"]).tolist())
        self.num_states += new
        return new

    def accounts(self) -> list[Account]:
        """The accounts, by their lowest rank."""
        found = {rank: book.account(rank) for rank, book in self._by_rank.items() if book.num_states}
        same = alike({rank: account.states for rank, account in found.items()}, complete=self.trace.finished.is_set())
        return [found[ranks[0]]._replace(ranks=ranks) for ranks in same]


def accounts(trace: Trace) -> list[Account]:
    """What the ranks of a trace held.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "metric", t, t, tag="memory: other", value=v) for t, v in ((0, 0), (1, 800), (2, 400))])
        >>> [(account.label, account.totals.tolist(), account.peak) for account in accounts(trace)]
        [('rank 0', [0, 800, 400], 1)]
    """
    ledger = Ledger(trace)
    ledger.update()
    return ledger.accounts()


class _Book:
    """One rank's states."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []  # times, states, spans, sites
        self._columns: dict[int, int] = {}  # by tag
        self._open: npt.NDArray[Any] | None = None  # rows of a moment whose last ones are still to come
        self._last = np.zeros(len(USES) + 1, dtype=np.int64)
        self._shares: list[tuple[int, Share]] = []  # after how many states, and what
        self.num_states = 0

    def add(self, rows: npt.NDArray[Any], names: dict[int, str], trace: Trace) -> int:
        """More rows, in order; gives the number of states that they complete."""
        columns = self._columns = {**self._columns, **{tag: _COLUMNS[name] for tag, name in names.items() if name in _COLUMNS}}
        told = np.isin(rows["tag"], list(columns))
        before = self.num_states + np.cumsum(told & (rows["seq"] == 0))
        for row, num_before in zip(rows[~told], before[~told].tolist(), strict=True):
            share = read_share(names[int(row["tag"])], float(row["value"]), trace.strings[row["site"]])
            self._shares += [(num_before, share)] if share is not None else []
        return self._add_states(rows[told] if self._open is None else np.concatenate((self._open, rows[told])), columns)

    def _add_states(self, rows: npt.NDArray[Any], columns: dict[int, int]) -> int:
        ends = np.flatnonzero(rows["seq"] == 0)
        complete = int(ends[-1]) + 1 if len(ends) else 0
        self._open = rows[complete:] if complete < len(rows) else None
        if not complete:
            return 0
        rows, place = rows[:complete], np.arange(complete)
        column = np.array([columns[tag] for tag in rows["tag"].tolist()])
        states = np.empty((complete, len(self._last)), dtype=np.int64)
        for k in range(len(self._last)):  # each value holds until the next of its column
            newest = np.maximum.accumulate(np.where(column == k, place, -1))
            states[:, k] = np.where(newest >= 0, rows["value"][newest].astype(np.int64), self._last[k])
        self._last = states[-1]
        self._parts.append((rows["start"][ends], states[ends], rows["span"][ends], rows["site"][ends]))
        self.num_states += len(ends)
        return len(ends)

    def account(self, rank: int) -> Account:
        """All of it, with the shares that were told after its peak."""
        if len(self._parts) > 1:
            self._parts = [tuple(np.concatenate(columns) for columns in zip(*self._parts, strict=True))]
        times, states, spans, sites = self._parts[0]
        account = Account((rank,), times, states, spans, sites)
        told = min((place for place, _ in self._shares if place > account.peak), default=None)
        return account._replace(shares=tuple(share for place, share in self._shares if place == told))


class MemoryEncoder:
    """Turns the accounts of a growing trace into blocks of bytes (`partkit.figures.encoding.pack`).

    A block's header holds new strings, and all accounts as ``[lowest rank, label, first, number, shares]``; its columns hold, for the
    states of each account from ``first`` on, times f8, bytes by use and the cap f8 (number, 7), span i4 and source line i4, which are
    numbers of strings. An account that is not in it is no more: its ranks have joined another.

    Args:
        trace: may grow between calls.

    Attributes:
        num_events: states so far, and changes of accounts without one.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.num_events = 0
        self._ledger = Ledger(trace)
        self._sent: dict[int, int] = {}
        self._strings: dict[int, int] = {}
        self._seen: object = None
        self._left_out = 0

    @property
    def note(self) -> str:
        """What the picture leaves out, in words; empty if nothing."""
        return f"{count(self._left_out, 'change')} not drawn" if self._left_out else ""

    def encode(self) -> bytes:
        """What is new since the last call, as one block; empty if nothing is."""
        new, found = self._ledger.update(), self._ledger.accounts()
        heads = [(account.label, account.shares) for account in found]
        if not new and heads == self._seen:
            return b""
        self._seen, room, self._left_out = heads, MAX_STATES, 0
        sent: dict[int, int] = {}
        strings: list[str] = []
        columns: list[npt.NDArray[Any]] = []
        head: list[tuple[object, ...]] = []
        for account in found:
            number = min(len(account.times), room)
            room -= number
            self._left_out += len(account.times) - number
            first = min(self._sent.get(account.ranks[0], 0), number)
            sent[account.ranks[0]] = number
            head.append((account.ranks[0], account.label, first, number - first, account.shares))
            names = [self._number(column[first:number], strings) for column in (account.spans, account.sites)]
            columns += [account.times[first:number], account.states[first:number].astype(np.float64), *names]
        self._sent, weight = sent, max(new, 1)
        self.num_events += weight
        return pack({"n": weight, "strings": strings, "accounts": head}, columns)

    def _number(self, column: npt.NDArray[np.int32], new: list[str]) -> npt.NDArray[np.int32]:
        """The trace's strings as the browser numbers them; appends those that it has not got."""
        for text in np.unique(column).tolist():
            if text not in self._strings:
                self._strings[text] = len(self._strings)
                new.append(self.trace.strings[text])
        known = np.zeros(1 + max(self._strings, default=0), dtype=np.int32)
        known[list(self._strings)] = list(self._strings.values())
        numbered: npt.NDArray[np.int32] = known[column]
        return numbered
