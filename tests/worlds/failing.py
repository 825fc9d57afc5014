"""What the tests of failures share: run something that fails, look at the exception, see that the next run works."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.world import World

E = TypeVar("E", bound=BaseException)


def total(comm: Communicator) -> float:
    """One all-reduce: works only if every rank is there and every connection is clean."""
    return all_reduce(torch.ones(1), comm).item()


def works(world: World) -> bool:
    """Whether the world does what it should."""
    return list(world.run(total)) == [float(world.size)] * world.size


def failure(world: World, fn: Callable[..., Any], *args: Any, kind: type[E] = RankError) -> E:  # type: ignore[assignment]
    """The exception of a run that fails; the next run works."""
    with pytest.raises(kind) as caught:
        world.run(fn, *args)
    assert works(world)
    return caught.value


def stuck(world: World, fn: Callable[..., Any], *args: Any) -> tuple[str, tuple[int, ...], str]:
    """Code, ranks and reason of a run in which nothing can move; source lines without their numbers."""
    error = failure(world, fn, *args, kind=RanksStuck)
    assert error.diagnosis is not None
    return error.diagnosis.code, error.ranks, re.sub(r"(test_\w+\.py|failing\.py):\d+", r"\1", str(error))
