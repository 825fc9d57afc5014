"""A mesh: named axes over the ranks, and who is whose neighbour. Arithmetic only.

A model that is trained with two-fold data parallelism and three-fold tensor parallelism has six ranks on a 2 x 3 mesh.
The last axis varies fastest, as in a C array:

                 tp=0   tp=1   tp=2
        dp=0       0      1      2        group along tp of rank 1: (0, 1, 2)
        dp=1       3      4      5        group along dp of rank 1: (1, 4)

Each strategy then communicates along one axis only: tensor parallelism inside a row, data parallelism inside a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod


class Mesh:
    """Named axes over ``prod(sizes)`` ranks.

    Args:
        **axes: size of each axis, slowest first; each at least 1.

    Raises:
        ValueError: an axis is smaller than 1, or no axis is given.

    Example:
        >>> mesh = Mesh(dp=2, tp=3)
        >>> mesh.size, mesh.coordinates(4), mesh.rank(dp=1, tp=1)
        (6, {'dp': 1, 'tp': 1}, 4)
        >>> mesh.group("dp", rank=1), mesh.groups("tp")
        ((1, 4), ((0, 1, 2), (3, 4, 5)))
    """

    def __init__(self, **axes: int) -> None:
        if not axes:
            raise ValueError("Mesh() needs at least one axis, for example Mesh(dp=4)")
        for name, size in axes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"Mesh({name}={size!r}): the size of an axis is a whole number of ranks, at least 1")
        self.axes: Mapping[str, int] = dict(axes)
        self.size: int = prod(axes.values())

    def coordinates(self, rank: int) -> dict[str, int]:
        """Position of ``rank`` along each axis."""
        self._check_rank(rank)
        found: dict[str, int] = {}
        for name, size in reversed(list(self.axes.items())):
            rank, found[name] = divmod(rank, size)
        return {name: found[name] for name in self.axes}

    def rank(self, **coordinates: int) -> int:
        """The rank at ``coordinates``, one for each axis."""
        if set(coordinates) != set(self.axes):
            raise ValueError(f"a rank of {self!r} needs one coordinate for each of {', '.join(self.axes)}, got {coordinates}")
        rank = 0
        for name, size in self.axes.items():
            if not 0 <= coordinates[name] < size:
                raise ValueError(f"{name}={coordinates[name]} is outside {self!r}: it must be from 0 to {size - 1}")
            rank = rank * size + coordinates[name]
        return rank

    def group(self, axis: str, rank: int) -> tuple[int, ...]:
        """The ranks that differ from ``rank`` only along ``axis``, in order along it."""
        self._check_axis(axis)
        here = self.coordinates(rank)
        return tuple(self.rank(**{**here, axis: i}) for i in range(self.axes[axis]))

    def groups(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """All groups along ``axis``; together they hold each rank once."""
        return tuple(dict.fromkeys(self.group(axis, rank) for rank in range(self.size)))

    def neighbours(self, axis: str, rank: int) -> tuple[int, int]:
        """The ranks before and after ``rank`` along ``axis``, round the corner at the ends.

        Example:
            >>> Mesh(dp=4).neighbours("dp", rank=0)
            (3, 1)
        """
        group = self.group(axis, rank)
        place = group.index(rank)
        return group[place - 1], group[(place + 1) % len(group)]

    def _check_axis(self, axis: str) -> None:
        if axis not in self.axes:
            raise ValueError(f"{axis!r} is no axis of {self!r}; its axes are {', '.join(self.axes)}")

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.size:
            raise ValueError(f"rank {rank} is outside {self!r}, whose ranks are 0 to {self.size - 1}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and list(self.axes.items()) == list(other.axes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.axes.items())})"
