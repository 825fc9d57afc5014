"""A real notebook kernel, as a front end drives it: for the tests that are about cells, stop buttons and restarts."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from jupyter_client.manager import KernelManager

PATIENCE = 60.0
"""Seconds that a cell may take on a busy machine; what it should take is another matter."""


class Cell:
    """A cell that runs or has run."""

    def __init__(self, client: Any, source: str) -> None:
        self._client = client
        self.stdout = ""
        self.stderr = ""
        self.error: str | None = None
        """Name and text of the exception."""
        self._id = client.execute(source)

    def until(self, condition: Callable[[Cell], bool]) -> Cell:
        """Take in what the kernel says until ``condition`` holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition(self):
            assert time.monotonic() < deadline, f"waited in vain; so far: {self.stdout}{self.stderr}{self.error}"
            try:
                message = self._client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") == self._id:
                self._take(message["msg_type"], message["content"])
        return self

    def _take(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "stream":
            setattr(self, content["name"], getattr(self, content["name"]) + content["text"])
        elif kind == "error":
            self.error = f"{content['ename']}: {content['evalue']}"
        elif kind == "status":
            self._idle = content["execution_state"] == "idle"

    _idle = False

    def over(self) -> Cell:
        """Wait for its end."""
        return self.until(lambda cell: cell._idle)


class Kernel:
    """A running kernel."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def start(self, source: str) -> Cell:
        """Begin a cell."""
        return Cell(self.client, source)

    def run(self, source: str) -> str:
        """Run a cell that must not fail; gives what it printed."""
        cell = self.start(source).over()
        assert cell.error is None, cell.error
        return cell.stdout

    def pids(self) -> list[int]:
        """The ranks of its world ``w``."""
        return [int(pid) for pid in self.run("print(*w.pids)").split()]


@contextmanager
def kernel(folder: str, **environment: str) -> Iterator[Kernel]:
    """Start a kernel and end it; temporary folders of a kernel that is killed stay in ``folder``."""
    import os

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, "TMPDIR": folder, "PYTHONWARNINGS": "default", **environment})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def gone(pids: list[int], within: float) -> bool:
    """Whether these processes end within so many seconds; a zombie counts as there."""
    deadline = time.monotonic() + within
    while any(psutil.pid_exists(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
