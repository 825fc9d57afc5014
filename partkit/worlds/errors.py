"""What goes wrong on ranks, as one Python exception in the kernel: the guilty rank first, in words.

    RankError            a rank's function raised; its own traceback, notebook lines included
    RankDied             a rank's process ended: exit code or signal
    RanksStuck           nothing can move: mismatched collectives, a deadlock, a missing partner (`partkit.diagnosis`);
                         or a rank has waited longer than the world's time-out
    UnwaitedMessages     a warning: a run has ended well, but left messages behind

Ranks that failed in the same way are merged ("ranks 0-3"); ranks that only suffered from another's failure are counted.
"""

from __future__ import annotations

import re
import signal
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from partkit.diagnosis import Call, Diagnosis, Due, Operation, RankState, name_ranks
from partkit.worlds.output import in_notebook
from partkit.worlds.travel import pack, unpack

WORLDS = str(Path(__file__).parent)
MESSAGE_CHARS = 4_000
"""Longer messages of exceptions are cut in the middle."""
MOST_BYTES = 1_000_000
"""An exception that takes more does not travel itself."""
MOST_LINES = 8
"""So many different failures are listed."""


class Failure(NamedTuple):
    """An exception on a rank, ready to travel."""

    rank: int
    summary: str
    """``ValueError: boom``."""
    trace: traceback.TracebackException
    """Frames without source lines: the kernel has them, the rank may not."""
    pickled: bytes | None
    """The exception itself, if it can travel."""


class RankError(RuntimeError):
    """A function raised on one or more ranks.

    Attributes:
        ranks: the ranks that raised it.
        suffered: ranks that failed only because of it.
        killed: those of them that did not stop when told and lost their process.
        traceback_text: the rank's own traceback.
    """

    def __init__(self, message: str, ranks: Sequence[int], suffered: Sequence[int] = (), traceback_text: str = "", killed: Sequence[int] = ()) -> None:
        self.ranks = tuple(ranks)
        self.suffered = tuple(suffered)
        self.killed = tuple(killed)
        self.traceback_text = traceback_text
        super().__init__(message)

    def __reduce__(self) -> tuple[type[RankError], tuple[object, ...], dict[str, object]]:
        return type(self), (self.args[0], self.ranks, self.suffered, self.traceback_text, self.killed), {}

    def __str__(self) -> str:
        aftermath = f"({name_ranks(self.suffered)} stopped because of this)" if self.suffered else ""
        parts = [str(self.args[0]), self.traceback_text.rstrip(), aftermath, killed_text(self.killed)]
        return "\n".join(part for part in parts if part)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of the kernel's own stack, which tells nothing here."""
        return [f"{type(self).__name__}: {self}"]


class RankDied(RankError):
    """A rank's process ended before its function returned."""


class RanksStuck(RankError):
    """No rank can move any more, or one has waited for too long.

    In a notebook it is shown with its wait-for graph (`partkit.figures.wait_for.WaitFor`) above it.

    Attributes:
        diagnosis: code, ranks, reason, and what each rank was doing (`partkit.diagnosis.Diagnosis`).
    """

    diagnosis: Diagnosis | None = None
    _is_shown = False

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        """The graph, with what `str` says in place of its text; for a cell whose value is the error."""
        from partkit.figures.wait_for import WaitFor

        text = {"text/plain": f"{type(self).__name__}: {self}"}
        return {**WaitFor(self)._repr_mimebundle_(), **text} if self.diagnosis is not None and self.diagnosis.states else text

    def _render_traceback_(self) -> list[str]:
        """What a kernel shows of an error is letters, so the graph is put on display before them."""
        if in_notebook() and not self._is_shown and self.diagnosis is not None and self.diagnosis.states:
            from IPython import display

            from partkit.figures.wait_for import WaitFor, headline

            self._is_shown = True  # a kernel asks twice: for its output, and for its reply
            graph, show = WaitFor(self), display.display
            show({**graph._repr_mimebundle_(), "text/plain": headline(graph.graph)}, raw=True)  # type: ignore[no-untyped-call]
        return super()._render_traceback_()

    def __reduce__(self) -> tuple[type[RankError], tuple[object, ...], dict[str, object]]:
        return (*super().__reduce__()[:2], {"diagnosis": self.diagnosis})


class UnwaitedMessages(RuntimeWarning):
    """Messages were posted and never waited for: nobody knows whether they arrived."""


def rank_error(failures: Sequence[Failure], suffered: Sequence[int] = (), killed: Sequence[int] = ()) -> RankError:
    """One exception for what ranks raised: equal failures merged, the first rank's traceback shown, others listed."""
    merged: dict[str, list[Failure]] = {}
    for failure in sorted(failures, key=lambda f: f.rank):
        merged.setdefault(failure.summary, []).append(failure)
    lines = [f"{name_ranks([failure.rank for failure in same])}: {readable(summary)}" for summary, same in merged.items()]
    if len(lines) > MOST_LINES:
        others = [failure.rank for same in list(merged.values())[MOST_LINES:] for failure in same]
        lines[MOST_LINES:] = [f"{name_ranks(others)}: other errors"]
    first = next(iter(merged.values()))[0]
    text = readable("".join(first.trace.format()))
    return RankError("\n".join(lines), sorted(failure.rank for failure in failures), suffered, text, killed)


def rank_died(codes: dict[int, int | None], suffered: Sequence[int], killed: Sequence[int] = ()) -> RankDied:
    """The exception for ranks whose processes ended by themselves."""
    by_end: dict[str, list[int]] = {}
    for rank, code in codes.items():
        by_end.setdefault(describe_exit(code), []).append(rank)
    lines = [f"{name_ranks(ranks)} ended without a result ({end})" for end, ranks in by_end.items()]
    advice = f"{name_ranks(list(codes))} will be started again at the next run, without {'its' if len(codes) == 1 else 'their'} variables."
    memory = ["If nobody sent SIGKILL, memory ran out and the system chose this process: take fewer ranks or smaller tensors."]
    return RankDied("\n".join([*lines, advice, *(memory if -signal.SIGKILL in codes.values() else [])]), sorted(codes), suffered, killed=killed)


def ranks_stuck(diagnosis: Diagnosis, killed: Sequence[int] = ()) -> RanksStuck:
    """The exception for a run that can't go on."""
    error = RanksStuck(f"{name_ranks(diagnosis.ranks)}: {diagnosis.reason}", diagnosis.ranks, killed=killed)
    error.diagnosis = diagnosis
    return error


def warn_of_posted(posted: Mapping[int, Sequence[Operation]]) -> None:
    """Tell of messages, by rank, that a run has left behind."""
    lines = [f"  {name_ranks([rank])}: {operation}" for rank in sorted(posted) for operation in posted[rank]]
    if lines:
        shown = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"  and {len(lines) - MOST_LINES} more"]
        head = "posted and never waited for, so nobody knows whether they arrived; call wait() on what isend and irecv return:"
        warnings.warn("\n".join([head, *shown]), UnwaitedMessages, stacklevel=4)


def killed_text(ranks: Sequence[int]) -> str:
    """What is said of ranks that partkit had to kill."""
    if not ranks:
        return ""
    lost = "its process" if len(ranks) == 1 else "their processes"
    return f"({name_ranks(ranks)} did not stop when told and lost {lost}: started again at the next run, without variables)"


def describe_exit(code: int | None) -> str:
    """``exit code 3``, ``killed by SIGKILL``."""
    if code is None:
        return "exit code unknown"
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def capture(rank: int, error: BaseException) -> tuple[traceback.TracebackException, str]:
    """The traceback of an exception on a rank, without the frames of the machinery that called the user's function."""
    trace = traceback.TracebackException.from_exception(error, lookup_lines=False)
    frames = list(trace.stack)
    while frames and frames[0].filename.startswith(WORLDS):
        frames.pop(0)
    trace.stack = traceback.StackSummary.from_list(frames)
    for part in _parts(trace):
        _make_portable(part)
    summary = next(line for line in trace.format_exception_only() if not line.startswith("  ")).strip()  # no place of a SyntaxError, no notes
    if isinstance(error, SystemExit):
        summary = f"ended without a result (exit code {0 if error.code is None else error.code})"
    return trace, summary


def pack_failure(rank: int, error: BaseException) -> bytes:
    """An exception on a rank as a pickled `Failure`: itself if it can travel, its traceback and text in any case."""
    try:
        original: bytes | None = pack(error)
        unpack(original or b"")
        original = original if len(original or b"") <= MOST_BYTES else None
    except Exception:
        original = None
    try:
        trace, summary = capture(rank, error)
        packed = pack(Failure(rank, summary, trace, original))
        unpack(packed)
        return packed
    except Exception:  # of an exception that breaks whoever looks at it, its name is left
        name = type(error).__name__
        trace, _ = capture(rank, RuntimeError(f"{name}, which can't be shown"))
        return pack(Failure(rank, f"{name}, which can't be shown", trace, None))


def _parts(trace: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception, those from which it was raised, and those in its group."""
    yield trace
    for other in (trace.__cause__, trace.__context__, *(getattr(trace, "exceptions", None) or ())):
        if other is not None:
            yield from _parts(other)


def _make_portable(part: traceback.TracebackException) -> None:
    """Whatever class the exception has, only its name and text travel; a very long text is cut."""
    kind = part.exc_type
    text: str = part._str  # type: ignore[attr-defined]
    if len(text) > MESSAGE_CHARS:
        half = MESSAGE_CHARS // 2
        part._str = f"{text[:half]} ... {len(text) - 2 * half:,} characters not shown ... {text[-half:]}"  # type: ignore[attr-defined]
    notes = getattr(part, "__notes__", None)
    if notes is not None:
        part.__notes__ = [note if isinstance(note, str) else repr(note) for note in notes]
    if hasattr(part, "_exc_type"):  # Python 3.13 keeps the name beside the class
        part._exc_type = None
    elif kind is not None and kind.__module__ != "builtins":
        part.exc_type = type(kind.__name__, (Exception,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


CELL_FILE = re.compile(r'File "([^"]*ipykernel_[^"]*|<ipython-input-[^"]*|<ranks [^"]*)", line (\d+)')


def readable(text: str) -> str:
    """A traceback with cells named as IPython names them: ``Cell In[3], line 4``."""
    return CELL_FILE.sub(lambda m: f"{cell_name(m[1])}, line {m[2]}", text)


def cell_name(filename: str) -> str:
    """``Cell In[3]`` for the file under which IPython compiled a cell; other names stay."""
    number = _cell_number(filename)
    return f'File "{filename}"' if number is None else f"Cell In[{number}]"


def site_name(site: str) -> str:
    """``In [3]:4`` or ``train.py:12`` for the ``file:line`` under which a rank recorded an event: no path, nothing random."""
    filename, _, line = site.rpartition(":")
    if not filename:
        return site
    number = _cell_number(filename)
    return f"{Path(filename).name}:{line}" if number is None else f"In [{number}]:{line}"


def name_site(operation: Operation) -> Operation:
    """An operation with its source line named by `site_name`."""
    return operation._replace(site=site_name(operation.site))


def name_sites(state: RankState) -> RankState:
    """A rank's state with its source lines named by `site_name`."""

    def due(movement: Due) -> Due:
        return movement._replace(site=site_name(movement.site))

    def call(made: Call) -> Call:
        return made._replace(site=site_name(made.site))

    return state._replace(
        calls=tuple(map(call, state.calls)),
        backward_of=None if state.backward_of is None else due(state.backward_of),
        due=tuple(map(due, state.due)),
        blocked_on=None if state.blocked_on is None else name_site(state.blocked_on),
        posted=tuple(name_site(operation) for operation in state.posted),
        call=None if state.call is None else call(state.call),
    )


def _cell_number(filename: str) -> int | None:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    numbers: dict[str, int] = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return numbers.get(filename)
