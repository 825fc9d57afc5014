"""What a test may leave behind: nothing. Snapshots of this process before and after, and their difference in words."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

SERVERS = ("partkit.worlds.forkserver", "multiprocessing.resource_tracker")
"""Helper processes that are started once and stay, with one descriptor each: the fork server and the standard library's tracker."""
SETTLE = 5.0
"""Seconds that threads and processes get to finish after a test."""


FOREIGN = {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"}
"""Environment variables that others set: pytest for each test, torch when the first optimizer of a process is made."""


@dataclass(frozen=True)
class Snapshot:
    """What this process holds at one moment."""

    processes: dict[int, str] = field(default_factory=dict)
    """Children, and children of the fork server (the ranks): process id -> command line."""
    servers: frozenset[int] = frozenset()
    threads: Counter[str] = field(default_factory=Counter)
    descriptors: Counter[str] = field(default_factory=Counter)
    folders: frozenset[str] = frozenset()
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = ""
    handlers: dict[str, str] = field(default_factory=dict)


def snapshot() -> Snapshot:
    """Look at this process now."""
    children = {child.pid: _command(child) for child in psutil.Process().children()}
    servers = frozenset(pid for pid, command in children.items() if any(name in command for name in SERVERS))
    for server in servers:
        children.pop(server)
        children.update({rank.pid: "a rank" for rank in _children_of(server)})
    return Snapshot(
        processes=children,
        servers=servers,
        threads=Counter(re.sub(r"\d+", "N", thread.name) for thread in threading.enumerate()),
        descriptors=Counter(_descriptors()),
        folders=frozenset(path.name for path in Path(tempfile.gettempdir()).glob("partkit-*")),
        environment={name: value for name, value in os.environ.items() if name not in FOREIGN},
        directory=os.getcwd(),
        handlers={s.name: str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)},
    )


def leaks(before: Snapshot, after: Snapshot, pool: Snapshot, pool_pids: set[int]) -> list[str]:
    """What is there after a test and was not before, a line each.

    Args:
        before: taken before the test.
        after: taken after it.
        pool: what the session's pool of ranks took meanwhile: threads, descriptors and folders that may stay.
        pool_pids: processes of the pool, as they are now.
    """
    found = [f"process {pid}: {command}" for pid, command in after.processes.items() if pid not in before.processes and pid not in pool_pids]
    found += [f"thread {name!r} ({n}x)" for name, n in (after.threads - before.threads - pool.threads).items()]
    new_servers = len(after.servers - before.servers)
    descriptors = after.descriptors - before.descriptors - pool.descriptors
    if descriptors.total() > new_servers:
        found += [f"descriptor of {target} ({n}x)" for target, n in descriptors.items()]
    found += [f"temporary folder {name}" for name in after.folders - before.folders - pool.folders]
    for name in before.environment.keys() | after.environment.keys():
        old, new = before.environment.get(name), after.environment.get(name)
        if old != new:
            found.append(f"environment variable {name}: was {old!r}, is {new!r}")
    if before.directory != after.directory:
        found.append(f"working directory: was {before.directory}, is {after.directory}")
    found += [f"handler of {name}: was {old}, is {after.handlers[name]}" for name, old in before.handlers.items() if after.handlers[name] != old]
    return found


def difference(before: Snapshot, after: Snapshot) -> Snapshot:
    """The countable part of what came between two snapshots."""
    return Snapshot(threads=after.threads - before.threads, descriptors=after.descriptors - before.descriptors, folders=after.folders - before.folders)


def settled(before: Snapshot, pool: Snapshot, pool_pids: set[int]) -> list[str]:
    """The leaks that are still there after a fair while."""
    if not (found := leaks(before, snapshot(), pool, pool_pids)):
        return []
    gc.collect()
    deadline = time.monotonic() + SETTLE
    while (found := leaks(before, snapshot(), pool, pool_pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def marked_processes(name: str, value: str) -> list[psutil.Process]:
    """All processes of this machine, other than this one, that inherited the environment variable; orphans too."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        return "?"


def _children_of(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.Error:
        return []


def _descriptors() -> list[str]:
    """What each open descriptor refers to, without the numbers that differ from one to the next."""
    folder, found = "/proc/self/fd", []
    for fd in os.listdir(folder) if os.path.isdir(folder) else []:
        try:
            target = os.readlink(f"{folder}/{fd}")
        except OSError:  # the descriptor of this very listing
            continue
        if not target.startswith("/proc/"):
            found.append(re.sub(r"\[\d+\]", "", target))
    return found
