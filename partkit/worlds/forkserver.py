"""How live ranks start: one process that has imported torch is forked again and again.

    kernel  --- socket --->  fork server: python + torch, one thread, no CUDA     started once, 1.5 s
                                 |-- fork -->  rank 0      0.01 s each, memory shared until written to
                                 |-- fork -->  rank 1
    kernel  <== control, stdout, stderr, exit status ==>  each rank, over descriptors handed through the socket

Why not `multiprocessing`'s fork server? It runs the user's main module again in each child (a script would need the
``if __name__ == "__main__"`` guard), keeps the environment of the moment when it started, and there is one a process, which
the user's own code may have set up differently. Here a rank gets the kernel's present environment, its own process session
(a stop button sends SIGINT to the kernel's whole group; ranks must not get it), and functions by cloudpickle.

The kernel's end is closed when the kernel dies, however it dies: the server then kills its ranks, clears their worlds' folders away
and leaves. Where forking
a process with torch is unsafe (macOS, Windows), ranks start with `multiprocessing`'s "spawn" instead: slower, same behaviour.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

PRELOAD = ("torch", "torch.distributed", "numpy", "cloudpickle", "partkit.worlds.rank", "partkit.collectives.all_reduce")
PRELOAD_WHEN_IDLE: tuple[str, ...] = ("torch._dynamo",)
"""What the first optimizer of a process imports: 2 s and 70 MB for each rank, unless it is here before the rank is forked."""
IDLE_SECONDS = 2.0
"""Without a request for so long the server imports the rest, and looks whether the kernel is still there."""


class ForkServer:
    """The kernel's handle on its fork server; started on first use, gone with the kernel.

    Attributes:
        pid: process id of the running server, or None.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        atexit.register(self.stop)  # before any world registers its own end, and so after it: no rank loses its server

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self, *, complete: bool = False) -> None:
        """Start the server unless it runs already; returns at once, while it is still importing.

        Args:
            complete: import everything before the first fork, not only what a first rank needs.
        """
        with self._lock:
            if self.pid is not None:
                return
            self._drop()
            ours, theirs = socket.socketpair()
            code = f"import sys; sys.path[:] = {sys.path!r}; from partkit.worlds.forkserver import serve; serve({theirs.fileno()}, {complete})"
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            command = [sys.executable, "-c", code]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
            theirs.close()
            self._socket = ours

    def fork(self, config: dict[str, Any], descriptors: list[int]) -> int:
        """Start one rank; returns its process id.

        Args:
            config: what the rank must know, as JSON.
            descriptors: its ends of control channel, stdout, stderr and exit status. Still open here afterwards.

        Raises:
            RuntimeError: the server died (out of memory, say).
        """
        self.start()
        with self._lock:
            assert self._socket is not None
            try:
                payload = json.dumps(config).encode()
                socket.send_fds(self._socket, [len(payload).to_bytes(4, "big")], descriptors)
                self._socket.sendall(payload)
                return int.from_bytes(_read_exactly(self._socket, 4), "big")
            except (OSError, EOFError) as problem:
                code = self._process.poll() if self._process is not None else None
                self._drop()
                raise RuntimeError(f"the process from which ranks are forked ended (exit code {code}); the next start makes a new one") from problem

    def stop(self) -> None:
        """End the server and every rank forked from it."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._socket = None


FORK_SERVER = ForkServer()
"""The one of this process. It holds no ranks' state, only torch in memory, so that every world after the first starts at once."""


def serve(descriptor: int, complete: bool) -> None:
    """The server's life: import, then fork on request and report the exit of each rank. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel = socket.socket(fileno=descriptor)
    _preload(PRELOAD)
    rest = PRELOAD_WHEN_IDLE
    if complete:
        rest = _preload(rest)
    import torch

    torch.set_num_threads(1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    status_of: dict[int, int] = {}  # pid -> descriptor on which to report its exit status
    folders: set[str] = set()
    parent, patience = os.getppid(), 0.0
    while True:
        readable, _, _ = select.select([kernel.fileno(), wake_read], [], [], patience)
        patience = IDLE_SECONDS
        if not readable and rest:
            rest = _preload(rest)
        orphan = os.getppid() != parent  # a process forked from the kernel may hold the kernel's end of the socket open
        if wake_read in readable:
            os.read(wake_read, 4096)
            _reap(status_of)
        if orphan or (kernel.fileno() in readable and not _fork_one(kernel, [wake_read, wake_write], status_of, folders)):
            _leave(status_of, folders)


def _preload(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Import; gives what is left to import, which is nothing."""
    for module in modules:
        __import__(module)
    gc.collect()
    gc.freeze()  # the ranks' garbage collectors leave these objects alone, so that their memory stays shared
    return ()


def _leave(ranks: Iterable[int], folders: Iterable[str]) -> None:
    """The kernel is gone: so are its ranks, then what they had on disk, then this process."""
    for pid in ranks:
        os.kill(pid, signal.SIGKILL)
    for pid in ranks:
        os.waitpid(pid, 0)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _fork_one(kernel: socket.socket, ours: list[int], status_of: dict[int, int], folders: set[str]) -> bool:
    """Answer one request; False if the kernel is gone."""
    header, descriptors, _, _ = socket.recv_fds(kernel, 4, 4)
    if not header:
        return False
    config = json.loads(_read_exactly(kernel, int.from_bytes(header, "big")))
    control, stdout, stderr, status = descriptors
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        for descriptor in [kernel.detach(), status, *ours, *status_of.values()]:
            os.close(descriptor)
        _become_rank(config, control, stdout, stderr)
    for descriptor in (control, stdout, stderr):
        os.close(descriptor)
    status_of[pid] = status
    folders.add(config["folder"])
    kernel.sendall(pid.to_bytes(4, "big"))
    return True


def _reap(status_of: dict[int, int]) -> None:
    """Collect ended ranks and report how each ended, as `subprocess` counts: negative for a signal."""
    while status_of:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        descriptor = status_of.pop(pid)
        with suppress(OSError):  # the kernel may no longer listen
            os.write(descriptor, os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        os.close(descriptor)


def _become_rank(config: dict[str, Any], control: int, stdout: int, stderr: int) -> None:
    code = 1
    try:
        os.setsid()
        for signum in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL if signum == signal.SIGCHLD else signal.default_int_handler)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.close(stdout)
        os.close(stderr)
        from partkit.worlds.rank import rank_main

        rank_main(control, config)
        code = 0
    finally:
        os._exit(code)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        more = connection.recv(count - len(parts))
        if not more:
            raise EOFError
        parts += more
    return parts


def spawn(config: dict[str, Any], descriptors: list[int]) -> tuple[int, Callable[[], int | None]]:
    """Start one rank as a fresh interpreter: 1.5 s and 150 MB each, but safe on macOS too.

    Returns:
        Its process id, and a function that waits for its end and gives its exit code.
    """
    control, stdout, stderr, status = descriptors
    code = f"import sys; sys.path[:] = {sys.path!r}; from partkit.worlds.rank import rank_main; import json; rank_main({control}, json.loads(sys.argv[1]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(config)],
        pass_fds=[control, status],  # the end of the status pipe is closed when the process ends
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    return process.pid, process.wait
