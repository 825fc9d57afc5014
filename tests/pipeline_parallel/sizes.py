"""Every schedule of the literature in many sizes, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import settings

from partkit.pipeline_parallel import SCHEDULES, make
from partkit.pipeline_parallel.schedule import Schedule

quickly = settings(max_examples=20, deadline=None)
"""For properties over random sizes."""


def all_sizes(name: str, ranks: int = 6, microbatches: int = 13) -> Iterator[Schedule]:
    """Every size up to the given ones for which there is such a schedule."""
    for p in range(1, ranks + 1):
        for m in range(1, microbatches + 1):
            for more in ((2,), (3,)) if name in ("interleaved", "breadth_first") else ((),):
                try:
                    yield make(name, p, m, *more)
                except ValueError:
                    continue


def some_of_each() -> list[Schedule]:
    """One of moderate size of each kind."""
    return [make(name, 4, 8) for name in SCHEDULES]
