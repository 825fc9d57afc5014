"""How many cores the ranks of a world share: `partkit.choose` reckons with it.

A machine may have more than a process may use: it can be bound to some of them (affinity), or a container can be granted the time of
a few only, as on Binder (the quota of its control group: cpu.max, "200000 100000" for two cores, "max 100000" for all).
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import ceil
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")


def shared_cores(quota: Path = QUOTA) -> int:
    """Cores that this process and its children may use, at least 1.

    Args:
        quota: the file with the quota of the control group, if there is one.

    Example:
        >>> shared_cores() >= 1
        True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file: not Linux, or another kind of control group; "max": no quota
        granted, period = quota.read_text().split()
        cores = min(cores, ceil(int(granted) / int(period)))
    return max(cores, 1)
