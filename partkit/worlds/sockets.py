"""How a rank that is stuck inside gloo gets out: another of its threads shuts down its connections to the other ranks.

No exception reaches a thread that waits in gloo's C++ code, and ``abort()`` on a gloo group does not wake it (torch 2.13).
A connection that is shut down does: the wait raises at once, in this rank and in its peers, and the groups are built anew.

Which of the process's sockets are gloo's? Those whose other end belongs to one of the other ranks. Linux tells, in
``/proc/<pid>/fd`` (socket numbers of a process) and ``/proc/net/tcp`` (addresses of a socket number).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def shut_down_connections(peers: Sequence[int]) -> int:
    """Shut down every TCP connection of this process whose other end belongs to one of the processes ``peers``.

    Returns:
        How many there were; 0 where ``/proc`` does not tell (not Linux).
    """
    try:
        addresses = _addresses()
        mine = _socket_numbers(os.getpid())
        theirs = {addresses[n][0] for pid in peers if pid != os.getpid() for n in _socket_numbers(pid) if n in addresses}
    except OSError:
        return 0
    count = 0
    for number, descriptor in mine.items():
        if number in addresses and addresses[number][1] in theirs:
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:  # the peer, or gloo, may be faster
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def _socket_numbers(pid: int) -> dict[str, int]:
    """Socket number -> descriptor, for one process; empty if it is gone."""
    found: dict[str, int] = {}
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(entry.path)
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                found[target[8:-1]] = int(entry.name)
    except FileNotFoundError:
        pass
    return found


def _addresses() -> dict[str, tuple[str, str]]:
    """Socket number -> (own address, other end's address), for every TCP socket."""
    found: dict[str, tuple[str, str]] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if Path(table).exists():
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                found[fields[9]] = (fields[1], fields[2])
    return found
