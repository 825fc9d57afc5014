"""What benchmarks share: options, a line of progress, a clock in a fresh process, and claims that a number meets or misses."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeVar

import psutil

Way = TypeVar("Way")


class Claim(NamedTuple):
    """Something that partkit promises, and what was measured."""

    claim: str
    measured: float
    limit: float
    unit: str

    def row(self) -> dict[str, Any]:
        """For the table."""
        return {"claim": self.claim, "measured": self.measured, "limit": self.limit, "unit": self.unit, "holds": "yes" if self.measured <= self.limit else "NO"}


def options(name: str, argv: Sequence[str], *more: tuple[str, dict[str, Any]]) -> argparse.Namespace:
    """The options of a benchmark: ``--quick``, and its own."""
    parser = argparse.ArgumentParser(prog=f"partkit bench {name}")
    parser.add_argument("--quick", action="store_true", help="few repetitions and small sizes: whether it works, not what it gives")
    for flag, settings in more:
        parser.add_argument(flag, **settings)
    return parser.parse_args(list(argv))


def progress(text: str) -> None:
    """Say on stderr what is being measured: one line, rewritten, on a terminal; a line each in a log."""
    again = sys.stderr.isatty()
    print(f"\r\033[Kpartkit bench: {text} ..." if again else f"partkit bench: {text}", end="" if again else "\n", file=sys.stderr, flush=True)


def bar(part: float, width: int = 20) -> str:
    """How much has been done, as a bar.

    Example:
        >>> bar(0.5, width=4)
        '[##..]  50%'
    """
    full = round(part * width)
    return f"[{'#' * full}{'.' * (width - full)}] {part:4.0%}"


def rotated(ways: list[Way], turn: int) -> list[Way]:
    """The order of a turn: each way is the first one in its turn, since whoever follows a relative finds the caches warm.

    Example:
        >>> rotated(["partkit", "torch", "ring"], turn=4)
        ['torch', 'ring', 'partkit']
    """
    first = turn % len(ways)
    return ways[first:] + ways[:first]


def done() -> None:
    """Clear the line of progress."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def fresh(source: str) -> Any:
    """Run ``source`` in a new interpreter; it prints one line of JSON, which is returned.

    Raises:
        RuntimeError: it failed; the message ends with what it said.
    """
    finished = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(f"a measurement in a fresh interpreter failed:\n{finished.stderr}")
    return json.loads(finished.stdout.strip().splitlines()[-1])


def by_turns(repetitions: int, *measurements: Callable[[], float]) -> list[float]:
    """The median of each measurement, taken by turns, so that whatever slows the machine slows all alike."""
    taken = [[measure() for measure in measurements] for _ in range(repetitions)]
    return [median(column) for column in zip(*taken, strict=True)]


def megabytes(pids: Sequence[int]) -> float:
    """Memory of processes, shared pages counted once among those who share them (PSS), in 10^6 bytes."""
    total = 0
    for pid in pids:
        info = psutil.Process(pid).memory_full_info()
        total += getattr(info, "pss", info.rss)
    return total / 1e6
