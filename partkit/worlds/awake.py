"""Whether a process that seems to wait has something to do: then what it waits for may be on its way, however slow the machine.

A rank that is blocked in a receive sleeps, and so does gloo's thread that reads its connections. A message that has arrived wakes
them; on a crowded machine they may then stand in line for a core for seconds. To be told from a deadlock by what the operating
system says of each thread (Linux, proc(5), /proc/[pid]/task/[tid]/stat): S sleeps, R runs or stands in line, D waits for a disk.

    thread                      counts
    main                        yes: it runs the rank's function
    started by C++              yes: gloo's loops, autograd's workers
    started by Python           no: the rank's watcher, and whatever goes on in the background
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

AWAKE = frozenset("RD")


def is_awake() -> bool:
    """Whether the main thread or a thread of C++ wants to run; False where the system does not tell.

    Example:
        >>> is_awake() or not os.path.isdir("/proc/self/task")  # this thread runs, it is the main one
        True
    """
    if not os.path.isdir("/proc/self/task"):
        return False
    background = {thread.native_id for thread in threading.enumerate() if thread is not threading.main_thread() and not _is_foreign(thread)}
    return any(_state(thread) in AWAKE for thread in os.listdir("/proc/self/task") if int(thread) not in background)


def _state(thread: str) -> str:
    with suppress(OSError), open(f"/proc/self/task/{thread}/stat", encoding="ascii", errors="replace") as file:  # it may have ended
        return file.read().rpartition(")")[2].split()[0]  # the name before it may hold anything
    return ""


def _is_foreign(thread: threading.Thread) -> bool:
    """Whether C++ has started it: Python knows such threads only from their calls."""
    return isinstance(thread, threading._DummyThread)
