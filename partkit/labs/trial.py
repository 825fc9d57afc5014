"""One attempt: a learner's function runs on some ranks, live or simulated, and what it gave and sent is noted. It always ends.

live         on the first ranks of a world, for at most `MOST_SECONDS`; whoever is stuck then is stopped, the world stays
simulated    first rehearsed on rank 0 of the live world, in the same time: a loop without end is stopped there and not
             in the reader's kernel. What came to an end there runs here, where source lines have their names.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from contextvars import Context
from typing import Any, NamedTuple

import torch
from torch import Tensor

from partkit.communicator import Communicator
from partkit.labs.marks import marked
from partkit.labs.traffic import ONE_SECOND_A_MESSAGE, Traffic
from partkit.worlds.errors import RankDied, RankError, RanksStuck, UnwaitedMessages
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

Learner = Callable[[Tensor, Communicator], Any]
AnyWorld = World | SimulatedWorld
MOST_SECONDS = 10.0
"""For one attempt; a right one takes milliseconds."""
OWN_FRAME = re.compile(r'  File "[^"]*[\\/]labs[\\/]trial\.py".*\n(    .*\n)*')
"""This file's lines in a traceback."""


class Case(NamedTuple):
    """What the function is tried on.

    Example:
        >>> str(Case(4, (3, 5))), str(Case(8, (12,), simulated=True))
        ('4 ranks, shape [3, 5]', '8 simulated ranks, shape [12]')
    """

    size: int
    """Number of ranks."""
    shape: tuple[int, ...]
    """Of each rank's input."""
    simulated: bool = False

    @property
    def inputs(self) -> list[Tensor]:
        """Each rank's input: elements that say whose they are."""
        return [marked(rank, self.shape) for rank in range(self.size)]

    @property
    def numel(self) -> int:
        """Elements of each rank's input."""
        return torch.Size(self.shape).numel()

    @property
    def nbytes(self) -> int:
        """Bytes of each rank's input."""
        return self.numel * torch.float64.itemsize

    def __str__(self) -> str:
        kind = "simulated rank" if self.simulated else "rank"
        return f"{self.size} {kind}{'' if self.size == 1 else 's'}, shape {list(self.shape)}"


class Attempt(NamedTuple):
    """What the learner's function did on one rank."""

    result: Tensor | None
    kind: str
    """Type of what was returned, if it is no tensor."""
    modified: bool
    """Whether the input was changed."""
    unfinished: int
    """Messages that it posted and did not wait for."""


class Outcome(NamedTuple):
    """What came of a case."""

    attempts: Sequence[Attempt] = ()
    """By rank."""
    traffic: Traffic | None = None
    problem: str = ""
    """Why there is no result, in words."""


def attempt(learner: Learner, case: Case, world: AnyWorld) -> Outcome:
    """Try one case; a simulated one is rehearsed on a live world, if that is what there is."""
    if isinstance(world, SimulatedWorld):
        return _simulated(learner, case._replace(simulated=True))
    if not case.simulated:
        return _live(learner, case, world)
    rehearsed = _within(world, _rehearse, learner, case)
    return Outcome(problem=rehearsed) if isinstance(rehearsed, str) else _simulated(learner, case)


def _live(learner: Learner, case: Case, world: World) -> Outcome:
    ran = _within(world, _on_rank, learner, case)
    if isinstance(ran, str):
        return Outcome(problem=ran)
    attempts, trace = ran
    return Outcome(attempts[: case.size], Traffic.of(trace, case.size))


def _within(world: World, fn: Callable[..., Any], *args: Any) -> Any:
    """Results and trace of a run, or what it ended with; one that takes too long is stopped."""
    run = world._launch(fn, args, {})  # not `start`, which would claim a place in the cell's output for each of many attempts
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnwaitedMessages)  # the judge tells of them
            return run.wait(MOST_SECONDS), run.trace
    except TimeoutError:
        run.stop()
        return f"it does not come to an end: still running after {MOST_SECONDS:g} s, it was stopped; is there a loop without end?"
    except RankError as error:
        return _in_words(error)


def _simulated(learner: Learner, case: Case) -> Outcome:
    """On as many simulated ranks, where a message takes a second; what they print is not shown, since nobody sees them."""
    with SimulatedWorld(case.size, ONE_SECOND_A_MESSAGE) as world, redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnwaitedMessages)  # the judge tells of them
        try:
            attempts = world.run(_on_rank, learner, case)
        except RankError as error:
            return Outcome(problem=_in_words(error))
        return Outcome(list(attempts), Traffic.of(world.trace, case.size, steps=True))


def _in_words(error: RankError) -> str:
    """What went wrong, with the learner's own lines of the traceback."""
    kind = "it does not come to an end" if isinstance(error, RanksStuck) else "a rank ends" if isinstance(error, RankDied) else "it raises an error"
    return f"{kind}.\n{OWN_FRAME.sub('', str(error))}"


def _rehearse(comm: Communicator, learner: Learner, case: Case) -> None:
    if comm.rank == 0:
        Context().run(_simulated, learner, case)  # in a context of its own: the simulated ranks are not this rank's


def _on_rank(comm: Communicator, learner: Learner, case: Case) -> Attempt | None:
    """The learner's function on one of the first ranks; the others have nothing to do."""
    if comm.rank >= case.size:
        return None
    group = comm.subgroup(range(case.size), name="exercise")
    x = case.inputs[group.rank]
    before = x.clone()
    result: Any = learner(x, group)
    is_tensor = isinstance(result, Tensor)
    unfinished = len(comm._context.pending)
    return Attempt(result.detach().clone() if is_tensor else None, type(result).__name__, not torch.equal(x, before), unfinished)
