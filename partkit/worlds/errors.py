"""What goes wrong on ranks, as one Python exception in the kernel: the guilty rank first, in words.

    RankError            a rank's function raised; its own traceback, notebook lines included
    RankDied             a rank's process ended: exit code or signal
    RanksStuck           nothing can move: mismatched collectives, a deadlock, a missing partner (`partkit.diagnosis`)

Ranks that failed in the same way are merged ("ranks 0-3"); ranks that only suffered from another's failure are counted.
"""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from partkit.diagnosis import Diagnosis, Operation, RankState, name_ranks

WORLDS = str(Path(__file__).parent)


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
        traceback_text: the rank's own traceback.
    """

    def __init__(self, message: str, ranks: Sequence[int], suffered: Sequence[int] = (), traceback_text: str = "") -> None:
        self.ranks = tuple(ranks)
        self.suffered = tuple(suffered)
        self.traceback_text = traceback_text
        super().__init__(message)

    def __reduce__(self) -> tuple[type[RankError], tuple[object, ...]]:
        return type(self), (self.args[0], self.ranks, self.suffered, self.traceback_text)

    def __str__(self) -> str:
        parts = [str(self.args[0]), self.traceback_text.rstrip(), self._aftermath()]
        return "\n".join(part for part in parts if part)

    def _aftermath(self) -> str:
        if not self.suffered:
            return ""
        return f"({name_ranks(self.suffered)} stopped because of this)"

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of the kernel's own stack, which tells nothing here."""
        return [f"{type(self).__name__}: {self}"]


class RankDied(RankError):
    """A rank's process ended before its function returned."""


class RanksStuck(RankError):
    """No rank can move any more.

    Attributes:
        diagnosis: code, ranks and reason (`partkit.diagnosis.Diagnosis`).
    """

    def __init__(self, message: str, ranks: Sequence[int], suffered: Sequence[int] = (), traceback_text: str = "", diagnosis: Diagnosis | None = None) -> None:
        super().__init__(message, ranks, suffered, traceback_text)
        self.diagnosis = diagnosis


def rank_error(failures: Sequence[Failure], suffered: Sequence[int]) -> RankError:
    """One exception for what ranks raised: identical failures merged, the first rank's traceback shown, others listed."""
    merged: dict[tuple[str, str], list[Failure]] = {}
    for failure in sorted(failures, key=lambda f: f.rank):
        text = "".join(failure.trace.format())
        merged.setdefault((failure.summary, text), []).append(failure)
    groups = list(merged.items())
    (summary, text), first = groups[0]
    ranks = [failure.rank for failure in first]
    lines = [f"{name_ranks(ranks)}: {summary}"]
    for (other, _), same in groups[1:]:
        lines.append(f"{name_ranks([f.rank for f in same])}: {other}")
    return RankError("\n".join(lines), [f.rank for f in failures], suffered, readable(text))


def rank_died(codes: dict[int, int | None], suffered: Sequence[int]) -> RankDied:
    """The exception for ranks whose processes ended."""
    by_end: dict[str, list[int]] = {}
    for rank, code in codes.items():
        by_end.setdefault(describe_exit(code), []).append(rank)
    lines = [f"{name_ranks(ranks)} ended without a result ({end})" for end, ranks in by_end.items()]
    advice = f"{name_ranks(list(codes))} will be started again at the next run, without {'its' if len(codes) == 1 else 'their'} variables."
    return RankDied("\n".join([*lines, advice]), list(codes), suffered)


def ranks_stuck(diagnosis: Diagnosis) -> RanksStuck:
    """The exception for a run that can't go on."""
    return RanksStuck(f"{name_ranks(diagnosis.ranks)}: {diagnosis.reason}", diagnosis.ranks, diagnosis=diagnosis)


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
    summary = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SystemExit):
        summary = f"ended without a result (exit code {0 if error.code is None else error.code})"
    return trace, summary


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


def name_sites(state: RankState) -> RankState:
    """A rank's state with its source lines named by `site_name`."""

    def named(operation: Operation) -> Operation:
        return operation._replace(site=site_name(operation.site))

    return state._replace(
        blocked_on=None if state.blocked_on is None else named(state.blocked_on),
        posted=tuple(named(operation) for operation in state.posted),
        call=None if state.call is None else state.call._replace(site=site_name(state.call.site)),
    )


def _cell_number(filename: str) -> int | None:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    numbers: dict[str, int] = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return numbers.get(filename)
