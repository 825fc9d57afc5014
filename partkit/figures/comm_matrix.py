"""Who sends how much to whom: a rank x rank matrix of the messages in a trace, for any phase of the run.

    every send event        a place: what is around it         cells of that place
    rank 0 -> 1,  8 kB      step / forward              --->   (0, 1): 1 message,  8 kB
    rank 0 -> 1, 24 kB      step / all_reduce           --->   (0, 1): 6 messages, 24 kB     (1, 2): ...
    rank 1 -> 2, 24 kB      step / all_reduce, "tp"     --->   ...

A place has labels: the names of the spans and collectives around it, and its group. A phase of the run is a label, and its matrix
the sum of the places that have it: "step" is all that was sent in steps, "all_reduce" all that all-reduces sent, wherever they
were called, "group tp" what went along the axis "tp", "no span" what was sent outside of any.

Only cells that are not zero are kept: p for a ring of p ranks, p (p - 1) if everyone sends to everyone. More than `MAX_RANKS` ranks
share rows. `MatrixEncoder` turns what is new into blocks for a browser, 24 bytes a cell that has changed.

What a collective of torch.distributed itself sends is inside that library: no trace has it, and the matrix says so.

Source: the communication matrix of Vampir; Nagel, Arnold, Weber, Hoppe and Solchenbach 1996, "VAMPIR: Visualization and analysis
of MPI resources".
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.figures.encoding import pack
from partkit.figures.units import count
from partkit.tracing import KIND_CODE, Columns, Trace

Unit = Literal["bytes", "messages"]
PhaseKind = Literal["everything", "span", "collective", "group"]
Integers = npt.NDArray[np.int64]
MAX_RANKS = 512
"""Rows of a matrix; with more ranks, neighbours share a row."""
EVERYTHING, NO_SPAN, GROUP = "", "no span", "group "


class Phase(NamedTuple):
    """A part of the run whose messages are looked at."""

    label: str
    kind: PhaseKind

    @property
    def name(self) -> str:
        """For a chooser and a caption."""
        return self.label or "everything"


class Cells(NamedTuple):
    """Cells that are not zero, each once, in columns of shape (cells,)."""

    place: Integers
    src: Integers
    """Row: rank, or number of the block of ranks."""
    dst: Integers
    messages: Integers
    nbytes: Integers


class Traffic:
    """The messages of a trace that may still grow, added up.

    Args:
        trace: where messages are noted.

    Attributes:
        places: labels of each place, in the order of appearance.
        collectives: labels that are the name of a collective.
        num_hidden: calls of collectives whose messages no trace has, on all ranks.
        num_outside: messages to ranks that this trace does not have.
        fold: neighbouring ranks that share a row.
        size: rows and columns.

    Example:
        >>> from partkit.tracing import Event
        >>> trace = Trace.from_events([Event(0, "send", 0, 1, peer=1, nbytes=8, span="step/all_reduce"), Event(1, "send", 0, 1, peer=0, nbytes=4)])
        >>> traffic = measure(trace)
        >>> traffic.matrix("step").tolist(), traffic.matrix().tolist(), traffic.matrix(unit="messages").tolist()
        ([[0, 8], [0, 0]], [[0, 8], [4, 0]], [[0, 1], [1, 0]])
        >>> [phase.name for phase in traffic.phases()]
        ['everything', 'step', 'all_reduce', 'no span']
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.fold = max(1, -(-trace.size // MAX_RANKS))
        self.size = max(1, -(-trace.size // self.fold))
        self.places: list[tuple[str, ...]] = []
        self.collectives: list[str] = []
        self.num_hidden = 0
        self.num_outside = 0
        self._taken = 0
        self._numbers: dict[tuple[int, int], int] = {}
        self._cells = _no_cells()

    def update(self) -> Cells:
        """Look at what has come since the last call; gives what was added."""
        rows = self.trace.columns[self._taken :]
        self._taken += len(rows)
        self._note_collectives(rows[rows["kind"] == KIND_CODE["collective"]])
        sends = rows[rows["kind"] == KIND_CODE["send"]]
        inside = (sends["peer"] >= 0) & (sends["peer"] < self.trace.size)
        self.num_outside += len(sends) - int(inside.sum())
        sends = sends[inside]
        one = np.ones(len(sends), dtype=np.int64)
        src, dst = (sends[side].astype(np.int64) // self.fold for side in ("rank", "peer"))
        new = _add_up(Cells(self._place(sends), src, dst, one, sends["nbytes"].astype(np.int64)), self.size)
        both = (np.concatenate(pair) for pair in zip(self._cells, new, strict=True))
        self._cells = _add_up(Cells(*both), self.size) if len(new.src) else self._cells
        return new

    def _place(self, sends: Columns) -> Integers:
        """The number of each message's place. Shape (messages,)."""
        pairs = sends["span"].astype(np.int64) << 32 | sends["group"].astype(np.int64)
        found, which = np.unique(pairs, return_inverse=True)
        numbers = [self._number(pair >> 32, pair & (1 << 32) - 1) for pair in found.tolist()]
        place: Integers = np.array(numbers, dtype=np.int64)[which.reshape(-1)]
        return place

    def _number(self, span: int, group: int) -> int:
        if (span, group) not in self._numbers:
            self._numbers[span, group] = len(self.places)
            path, name = self.trace.strings[span], self.trace.strings[group]
            self.places.append((*dict.fromkeys(path.split("/") if path else [NO_SPAN]), *([GROUP + name] if name else [])))
        return self._numbers[span, group]

    def _note_collectives(self, rows: Columns) -> None:
        tags, numbers = np.unique(rows["tag"], return_counts=True)
        for tag, number in zip((self.trace.strings[tag] for tag in tags), numbers.tolist(), strict=True):
            name = tag.partition("[")[0]
            self.num_hidden += number * (tag.endswith("native]") or name.startswith("dist."))
            if name not in self.collectives:
                self.collectives.append(name)

    def phases(self) -> list[Phase]:
        """Everything, then the spans, the collectives and the groups in which something was sent."""
        labels = list(dict.fromkeys(label for place in self.places for label in place))
        known = [Phase(label, self._kind(label)) for label in labels]
        order: tuple[PhaseKind, ...] = ("span", "collective", "group")
        return [Phase(EVERYTHING, "everything"), *sorted(known, key=lambda phase: (order.index(phase.kind), phase.label == NO_SPAN))]

    def _kind(self, label: str) -> PhaseKind:
        return "collective" if label in self.collectives else "group" if label.startswith(GROUP) else "span"

    def matrix(self, phase: str = EVERYTHING, unit: Unit = "bytes") -> Integers:
        """What each rank (row) sent to each other (column). Shape (size, size)."""
        chosen = np.array([phase == EVERYTHING or phase in labels for labels in self.places], dtype=bool)
        cells = self._cells
        inside = chosen[cells.place] if len(self.places) else np.zeros(0, dtype=bool)
        out = np.zeros((self.size, self.size), dtype=np.int64)
        np.add.at(out, (cells.src[inside], cells.dst[inside]), (cells.nbytes if unit == "bytes" else cells.messages)[inside])
        return out

    @property
    def hidden(self) -> str:
        """What is not in the matrix, in words; empty if nothing."""
        native = f"what {count(self.num_hidden, 'call')} of native collectives sent" if self.num_hidden else ""
        outside = f"{count(self.num_outside, 'message')} to other ranks" if self.num_outside else ""
        return f"not shown: {' and '.join(filter(None, (native, outside)))}" if native or outside else ""


def measure(trace: Trace) -> Traffic:
    """The messages of a trace as it is now."""
    traffic = Traffic(trace)
    traffic.update()
    return traffic


class MatrixEncoder:
    """Turns the messages of a growing trace into blocks of bytes (`partkit.figures.encoding.pack`).

    A block's header has the labels of places that are new, the names of collectives that are new, and the number of cells; its
    columns are what each cell has more than before: messages f8, bytes f8, place u4, sender u2, receiver u2.

    Args:
        trace: may grow between calls.

    Attributes:
        num_events: messages so far, and blocks without one.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.num_events = 0
        self._traffic = Traffic(trace)
        self._told = (0, 0)

    @property
    def note(self) -> str:
        """What the blocks leave out, in words; empty if nothing."""
        fold = self._traffic.fold
        return ", ".join(filter(None, (f"each row shows {fold} ranks" if fold > 1 else "", self._traffic.hidden)))

    def encode(self) -> bytes:
        """What is new since the last call, as one block; empty if nothing is."""
        traffic = self._traffic
        cells = traffic.update()
        places, collectives = traffic.places[self._told[0] :], traffic.collectives[self._told[1] :]
        if not (len(cells.src) or collectives):
            return b""
        self._told = (len(traffic.places), len(traffic.collectives))
        weight = max(int(cells.messages.sum()), 1)
        self.num_events += weight
        header = {"n": weight, "rows": traffic.size, "fold": traffic.fold, "cells": len(cells.src), "places": places, "collectives": collectives}
        kinds = {"messages": "<f8", "nbytes": "<f8", "place": "<u4", "src": "<u2", "dst": "<u2"}
        return pack(header, (getattr(cells, name).astype(kind) for name, kind in kinds.items()))


def _no_cells() -> Cells:
    return Cells(*(np.zeros(0, dtype=np.int64) for _ in Cells._fields))


def _add_up(cells: Cells, size: int) -> Cells:
    """The same with each cell once. Sums are exact below 2**53."""
    code, which = np.unique((cells.place * size + cells.src) * size + cells.dst, return_inverse=True)
    sums = (np.bincount(which.reshape(-1), weights, minlength=len(code)).astype(np.int64) for weights in (cells.messages, cells.nbytes))
    return Cells(code // size**2, code // size % size, code % size, *sums)
