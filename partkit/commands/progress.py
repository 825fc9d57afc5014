"""Commands that take a while, run quietly: one line each, the seconds counting, the output only if it went wrong.

partkit: installing torch 2.13.0, CPU build ... 21 s
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, TextIO

from partkit.commands import Refusal

SIGN_OF_LIFE = 30.0
"""Seconds after which a line that cannot be rewritten (a log file) gets one more dot."""
TAIL = 30
"""Lines of output shown when a command fails."""


def quietly(title: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run ``command`` with one line of progress on stderr.

    Args:
        title: what it does, for the line.
        command: program and arguments; gets no standard input.
        env: variables that are added to the environment.

    Returns:
        Exit status, and standard output and error as one text.
    """
    line = _Line(title, sys.stderr)
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
        except OSError as problem:
            line.end(failed=True)
            return 127, str(problem)
        status = _wait(process, line)
        line.end(failed=status != 0)
        return status, _text(output)


def surely(title: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Like `quietly`; gives the output.

    Raises:
        Refusal: the command failed; the message ends with the last lines of its output.
    """
    status, output = quietly(title, command, env)
    if status != 0:
        raise Refusal(f"{title} failed (exit status {status}):\n{tail(output)}\nThe command was: {' '.join(command)}")
    return output


def tail(output: str, lines: int = TAIL) -> str:
    """The last lines of a command's output, set in."""
    return "\n".join(f"    {line}" for line in output.strip().splitlines()[-lines:])


def _wait(process: subprocess.Popen[bytes], line: _Line) -> int:
    """Wait for the end, counting the seconds; an interrupt ends the command too."""
    while True:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            line.tick()
        except BaseException:
            process.terminate()
            process.wait()
            raise


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="replace")


class _Line:
    """One line of progress: rewritten each second on a terminal, written once in a log."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title, self._stream, self._start = title, stream, time.monotonic()
        self._alive = self._start
        self._write("")

    def tick(self) -> None:
        now = time.monotonic()
        if self._stream.isatty():
            self._write(f" {now - self._start:.0f} s")
        elif now - self._alive > SIGN_OF_LIFE:
            self._alive = now
            self._stream.write(".")
            self._stream.flush()

    def end(self, *, failed: bool) -> None:
        text = f" {'failed after ' if failed else ''}{time.monotonic() - self._start:.0f} s"
        if self._stream.isatty():
            self._write(text + "\n")
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write(f"{chr(13) if self._stream.isatty() else ''}partkit: {self._title} ...{text}")
        self._stream.flush()
