"""Ranks that do the same share a line, a panel, a bar: a picture of 512 replicas in step is as simple as that of one.

    rank 0   2.30  1.90  1.20  --.
    rank 1   2.30  1.90  1.20  ---+-->  (0, 1, 2)
    rank 2   2.30  1.90        --'      still on its way to the same number
    rank 3   2.30  1.90  1.25  ------>  (3,)

Same means bit for bit. While a run goes on some ranks are a little ahead of others; a rank belongs to a group as long as it agrees
with the group's lowest rank in all that both have. When the run is over it must have as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

_SLACK = 64
"""Rows by which ranks in a run that goes on may differ and still be one group; a quarter of the longest if that is more."""


def alike(rows: Mapping[int, npt.NDArray[Any]], *, complete: bool) -> list[tuple[int, ...]]:
    """Ranks with the same rows, each group ascending, the groups by their lowest rank.

    Args:
        rows: by rank. Shape (rows, ...), the same on all ranks but for the first.
        complete: whether no more will come.

    Example:
        >>> import numpy as np
        >>> rows = {0: np.array([2.3, 1.9, 1.2]), 1: np.array([2.3, 1.9]), 2: np.array([2.3, 1.9, 1.25])}
        >>> alike(rows, complete=False), alike(rows, complete=True)
        ([(0, 1), (2,)], [(0,), (1,), (2,)])
    """
    lengths = [len(own) for own in rows.values()]
    common, slack = min(lengths, default=0), 0 if complete else max(_SLACK, max(lengths, default=0) // 4)
    groups: list[list[int]] = []
    candidates: dict[bytes, list[list[int]]] = {}  # by what all ranks have: few are left to compare
    for rank in sorted(rows):
        own = rows[rank]
        same = candidates.setdefault(own[:common].tobytes(), [])
        for group in same:
            other = rows[group[0]]
            both = min(len(own), len(other))
            if max(len(own), len(other)) - both <= slack and own[common:both].tobytes() == other[common:both].tobytes():
                group.append(rank)
                break
        else:
            groups.append([rank])
            same.append(groups[-1])
    return [tuple(group) for group in groups]
