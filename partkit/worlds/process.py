"""The kernel's handle on one rank's process: its descriptors, its exit code, whether it is connected to the others."""

from __future__ import annotations

import os
import pickle
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from partkit.worlds.forkserver import FORK_SERVER, spawn


class RankProcess:
    """One live rank, seen from the kernel.

    Args:
        rank: its rank.
        config: what it must know (JSON): rank, size, mesh, environment, directory, path.
        start_method: "forkserver" or "spawn".
    """

    def __init__(self, rank: int, config: dict[str, Any], start_method: str) -> None:
        self.rank = rank
        self.alive = True
        self.connected = False
        self.exit_code: int | None = None
        ours, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(3)]
        self._reads = {name: read for name, (read, _) in zip(("stdout", "stderr", "status"), pipes, strict=True)}
        for read in self._reads.values():
            os.set_blocking(read, False)  # what looked ready may have been read meanwhile
        writes = [write for _, write in pipes]
        self.control = Connection(ours.detach())
        given = [theirs.fileno(), *writes]
        self._poll: Callable[[], int | None] | None = None
        try:
            if start_method == "forkserver":
                self.pid = FORK_SERVER.fork(config, given)
            else:
                self.pid, self._poll = spawn(config, given)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
            for write in writes:
                os.close(write)

    def readable(self) -> dict[str, int]:
        """Descriptors to listen to, by what comes from them."""
        return {} if self.control.closed else {"control": self.control.fileno(), **self._reads}

    def send(self, message: object) -> None:
        """Tell the rank something; a rank that is gone is left to the exit status."""
        self.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def send_bytes(self, message: bytes) -> None:
        """The same, pickled already."""
        with suppress(OSError):
            self.control.send_bytes(message)

    def ended(self, code: int | None) -> None:
        """Note that the process is gone; ``code`` None if nobody could tell how."""
        self.alive = False
        self.exit_code = self._poll() if code is None and self._poll is not None else code

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close this end of every descriptor. A rank that still lives sees it and leaves; a spawned one is also reaped."""
        if not self.control.closed:
            self.control.close()
            for descriptor in self._reads.values():
                os.close(descriptor)
            if self._poll is not None and self.alive:
                self.kill()
                self.ended(None)
