"""A way round a ring, as data: what a rank sends and receives there, of blocks that lie side by side in one piece of memory.

    step       sends                         receives
     1         x                             block first
     2         block first                   block first - 1        counted round the end
     3         block first - 1               block first - 2
    ...
     p - 1     ...                           block first - p + 2    all blocks but one

A wire that is told this at once (`partkit.transport.simulated.leg`) can do many steps together: blocks that follow one another in time
are neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from partkit.transport.base import Combine


class Course(NamedTuple):
    """What one rank sends and receives.

    Example:
        >>> import torch
        >>> course = Course(torch.ones(1), torch.zeros(4), (0, 1, 2, 4), first=0)
        >>> [course.place(step) for step in (1, 2)]
        [0, 2]
        >>> list(course.stretches(step=1, count=2))
        [(1, 0, 1), (1, 2, 4)]
    """

    x: Tensor
    """Sent in the first step."""
    flat: Tensor
    """All blocks side by side."""
    starts: tuple[int, ...]
    """Where each block begins, and where the last one ends."""
    first: int
    """The block that is received in the first step."""
    combine: Combine | None = None
    own: Tensor | None = None
    """As ``flat``: what is combined into each block that arrives, ``combine(block, own block)``."""

    @property
    def steps(self) -> int:
        """One less than there are blocks."""
        return len(self.starts) - 2

    def place(self, step: int) -> int:
        """The block that is received in this step."""
        return (self.first - step + 1) % (len(self.starts) - 1)

    def block(self, step: int, memory: Tensor) -> Tensor:
        """The same as part of ``memory``, which is `flat` or `own`."""
        return memory[self.starts[self.place(step)] : self.starts[self.place(step) + 1]]

    def stretches(self, step: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Where the blocks of some steps lie: of each stretch of memory how many, from where to where. Downwards, and once round the end."""
        while count:
            highest = self.place(step)
            here = min(count, highest + 1)
            yield here, self.starts[highest - here + 1], self.starts[highest + 1]
            step, count = step + here, count - here
