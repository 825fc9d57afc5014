"""What ranks print: whole lines, labelled, in an order that does not change from run to run, shown while the run goes on.

Ranks print at the same time, so that the order of arrival is chance. What is stored is grouped: stdout by rank, then stderr
by rank. While the run goes on there are two ways to show it:

    in a notebook    one display that is updated in place, grouped by rank at each moment
    elsewhere        a stream: the lines of the first unfinished rank at once, the others when it is their turn;
                     on a terminal, which nobody compares, lines in the order of arrival

A rank that prints without end is cut: the first and the last lines are kept, and the number left out is said.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from html import escape
from typing import Any, Literal, NamedTuple, Protocol

StreamName = Literal["stdout", "stderr"]
STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")
HEAD_LINES, TAIL_LINES = 100, 50


class Line(NamedTuple):
    """A line that a rank printed."""

    rank: int
    stream: StreamName
    text: str


class Tape:
    """One stream of one rank: the first `HEAD_LINES`, the last `TAIL_LINES`, and a count of what was cut between."""

    def __init__(self, rank: int, stream: StreamName) -> None:
        self.rank = rank
        self.stream: StreamName = stream
        self.head: list[Line] = []
        self.tail: deque[Line] = deque(maxlen=TAIL_LINES)
        self.num_lines = 0
        self._partial = b""

    def feed(self, data: bytes) -> list[Line]:
        """Take in raw bytes; returns the lines that they complete."""
        *whole, self._partial = (self._partial + data).split(b"\n")
        return [self._add(line) for line in whole]

    def finish(self) -> list[Line]:
        """The run is over: a line without its newline counts as one."""
        rest, self._partial = self._partial, b""
        return [self._add(rest)] if rest else []

    def _add(self, raw: bytes) -> Line:
        text = raw.decode("utf-8", errors="backslashreplace").rstrip("\r")
        line = Line(self.rank, self.stream, text.rsplit("\r", 1)[-1])  # a progress bar's last state
        self.num_lines += 1
        if len(self.head) < HEAD_LINES:
            self.head.append(line)
        else:
            self.tail.append(line)
        return line

    def shown(self) -> list[Line]:
        """What is kept, the cut marked by a line of its own."""
        num_cut = self.num_lines - len(self.head) - len(self.tail)
        cut = [Line(self.rank, self.stream, f"... {num_cut:,} lines not shown ...")] if num_cut else []
        return [*self.head, *cut, *self.tail]


class Output:
    """What all ranks print during a run: first what they wrote to stdout, by rank, then what they wrote to stderr.

    The two are not interleaved: they reach the kernel through different pipes, so that their order would be chance.
    """

    def __init__(self, size: int) -> None:
        self.tapes = {(rank, stream): Tape(rank, stream) for stream in STREAMS for rank in range(size)}
        self.going_on = False
        """Whether to say that more may come."""

    def __len__(self) -> int:
        return sum(tape.num_lines for tape in self.tapes.values())

    def feed(self, rank: int, stream: StreamName, data: bytes) -> list[Line]:
        """Take in what a rank wrote; returns the lines that it completes."""
        return self.tapes[rank, stream].feed(data)

    def finish(self, rank: int | None = None) -> list[Line]:
        """The run is over, for one rank or (None) for all; returns lines that had no newline."""
        return [line for tape in self.tapes.values() if rank in (None, tape.rank) for line in tape.finish()]

    def lines(self, stream: StreamName | None = None) -> list[Line]:
        """All kept lines in the stored order."""
        return [line for tape in self.tapes.values() if stream in (None, tape.stream) for line in tape.shown()]

    def text(self) -> str:
        """``[0] whole lines``, errors as ``[0!]``."""
        return "\n".join([label(line) for line in self.lines()] + ["(running)"] * self.going_on)

    def html(self) -> str:
        """The same, as a table-free block that survives a notebook's sanitiser."""
        rows = "".join(
            f'<div style="{"border-left:3px solid #D55E00;padding-left:4px" if line.stream == "stderr" else "padding-left:7px"}">'
            f'<span style="opacity:.6">[{line.rank}]</span> {escape(line.text)}</div>'
            for line in self.lines()
        )
        more = '<div style="opacity:.6">(running)</div>' if self.going_on else ""
        return f'<div style="font-family:monospace;white-space:pre-wrap;line-height:1.3;max-height:24em;overflow-y:auto">{rows}{more}</div>'

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}


def label(line: Line) -> str:
    """A line with its rank: ``[2] text``; ``[2!] text`` for stderr."""
    return f"[{line.rank}{'!' if line.stream == 'stderr' else ''}] {line.text}"


class Screen(Protocol):
    """Where output is shown while a run goes on."""

    any_thread: bool
    """Whether the collector may call it too, while nobody waits for the run."""

    def open(self) -> None: ...
    def arrived(self, lines: list[Line]) -> None: ...
    def ended(self, ranks: set[int]) -> None: ...
    def close(self) -> None: ...


class StreamScreen:
    """Prints to stdout and stderr: the first unfinished rank's lines at once, the others' when their turn comes."""

    any_thread = False  # a print from another thread would land in whichever cell is running

    def __init__(self, output: Output) -> None:
        self._tapes = list(output.tapes.values())
        self._turn = 0
        self._printed = 0
        self._at_once = sys.stdout.isatty()
        self._ended: set[int] = set()

    def open(self) -> None:
        """A stream needs no place; what a background run prints is printed when somebody waits for it."""

    def arrived(self, lines: list[Line]) -> None:
        if self._at_once:
            for line in lines:
                self._print(line)
        else:
            self._advance()

    def ended(self, ranks: set[int]) -> None:
        self._ended = ranks
        self._advance()

    def close(self) -> None:
        self._ended = {tape.rank for tape in self._tapes}
        self._advance()

    def _advance(self) -> None:
        while not self._at_once and self._turn < len(self._tapes):
            tape = self._tapes[self._turn]
            over = tape.rank in self._ended
            lines = tape.shown() if over else list(tape.head)  # a copy: the collector may add to it meanwhile
            for line in lines[self._printed :]:
                self._print(line)
            self._printed = len(lines)
            if not over:
                return
            self._turn, self._printed = self._turn + 1, 0

    def _print(self, line: Line) -> None:
        print(label(line), file=sys.stdout if line.stream == "stdout" else sys.stderr, flush=True)


class NotebookScreen:
    """One display in the cell that launched the run, updated in place."""

    any_thread = True

    def __init__(self, output: Output) -> None:
        self._output = output
        self._handle: Any = None
        self._shown = 0
        self._by_cell = True  # whether a cell showed it last, not the collector's thread

    def open(self) -> None:
        """Claim a place in the running cell, for a run that goes on after the cell."""
        self._output.going_on = True
        self._display()

    def arrived(self, lines: list[Line]) -> None:
        if len(self._output) > self._shown:
            self._display()

    def _display(self) -> None:
        import IPython.display as frontend

        self._shown = len(self._output)
        self._by_cell = threading.current_thread() is threading.main_thread()
        if self._handle is None:
            show: Any = frontend.display
            self._handle = show(self._output, display_id=True)
        else:
            self._handle.update(self._output)

    def ended(self, ranks: set[int]) -> None:
        """Order by rank holds at every moment; nothing to do."""

    def close(self) -> None:
        """The last state; from a cell even if the collector has shown it: nbclient heeds the running cell's updates only."""
        waited_for = threading.current_thread() is threading.main_thread() and not self._by_cell
        if self._output.going_on or len(self._output) > self._shown or waited_for:
            self._output.going_on = False
            self._display()


def make_screen(output: Output) -> Screen:
    """The way to show output here: in place in a notebook, as a stream elsewhere or where PARTKIT_STATIC is set."""
    if in_notebook() and not os.environ.get("PARTKIT_STATIC"):
        return NotebookScreen(output)
    return StreamScreen(output)


def in_notebook() -> bool:
    """Whether this is an IPython kernel with a front end that can update displays."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")
