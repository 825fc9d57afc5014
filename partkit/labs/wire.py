"""What a rank's connections have really received, as the operating system counts it: also for code that partkit does not know.

gloo sends over TCP, one connection for each pair of ranks, and Linux keeps a count of bytes with each connection. So what a
collective of torch.distributed moves can be told without looking into it:

    before = bytes_received(); dist.reduce_scatter_tensor(...); bytes_received() - before

Source: Linux, include/uapi/linux/tcp.h, ``struct tcp_info``: ``tcpi_bytes_received``, the 64-bit number at byte 128.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

PLACE, LENGTH = 128, 136
"""Of the number in ``struct tcp_info``, and how much of that to ask for."""


def bytes_received() -> int | None:
    """Bytes that have come in on all TCP connections of this process, headers of TCP not counted; None if the system does not tell.

    Example:
        >>> with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        ...     other, _ = server.accept()
        ...     before = bytes_received()
        ...     with other:
        ...         one.sendall(b"12345")
        ...         received = other.recv(5, socket.MSG_WAITALL)
        ...         after = bytes_received()
        >>> None in (before, after) or after - before == 5
        True
    """
    if not hasattr(socket, "TCP_INFO") or not os.path.isdir("/proc/self/fd"):
        return None
    counts = list(_counts())
    return None if None in counts else sum(count for count in counts if count is not None)


def _counts() -> Iterator[int | None]:
    """Of each TCP connection: bytes received, or None if they are not told."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LENGTH)
                    yield struct.unpack_from("<Q", told, PLACE)[0] if len(told) == LENGTH else None
