"""An exercise as data, and the judge: what a learner's function must return, what it may send, and in which cases it is tried.

judge
  for each case    a number of ranks, a shape; live first, then simulated, where there may be more ranks
    attempt        run it (`partkit.labs.trial`)
    results        type, shape, dtype, whose data is in each element (`partkit.labs.marks`); the input as it was
    messages       counted in the trace, held to the exercise's own rule
  the first case that is wrong is told, with at most three findings; if none is, what has been shown
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from partkit.diagnosis import name_ranks
from partkit.labs.marks import explain
from partkit.labs.traffic import Traffic
from partkit.labs.trial import AnyWorld, Attempt, Case, Learner, attempt
from partkit.labs.verdict import Finding, Verdict
from partkit.partition import block_sizes
from partkit.worlds.simulated import SimulatedWorld

MOST_FINDINGS = 3
SIMULATED = (8, 7, 6, 5, 4, 3, 2, 1)
"""Numbers of simulated ranks that every exercise is tried on, beside the live ones."""
RIGHT_WITHOUT_MESSAGES = "the result is right, but none of its messages went through comm (was it torch.distributed?)"
Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Exercise:
    """What is asked of a function ``learner(x, comm)``.

    Args:
        name: for the verdict.
        right: what rank r must return: ``right(inputs of all ranks, r)``.
        messages: what the traffic of a case has against it, in words.
        solved: what is said of a function that passes, each line a fact that was checked.
        shapes: of the ranks' inputs on live ranks.
        simulated_shapes: the same on simulated ranks.
        sizes: whether a number of ranks is tried.
        hint: more about results that are wrong: ``hint(results, inputs)``; empty if nothing comes to mind.
    """

    name: str
    right: Callable[[Sequence[Tensor], int], Tensor]
    messages: Callable[[Case, Traffic], Iterator[str]]
    solved: tuple[str, ...]
    shapes: Shapes
    simulated_shapes: Shapes = ((24,), (5,))
    sizes: Callable[[int], bool] = lambda size: True
    hint: Callable[[Sequence[Tensor], Sequence[Tensor]], str] = lambda results, inputs: ""

    def cases(self, world: AnyWorld) -> Iterator[Case]:
        """Live ranks first, all that there are; then simulated ones."""
        if not isinstance(world, SimulatedWorld):
            yield from (Case(size, shape) for size in range(world.size, 0, -1) if self.sizes(size) for shape in self.shapes)
        yield from (Case(size, shape, simulated=True) for size in SIMULATED if self.sizes(size) for shape in self.simulated_shapes)


def judge(exercise: Exercise, learner: Learner, world: AnyWorld) -> Verdict:
    """Try all cases; the first that is wrong makes the verdict.

    Args:
        exercise: what is asked.
        learner: a function ``learner(x, comm)`` for one rank.
        world: live ranks to try it on. It stays usable, whatever the function does. Of a simulated world only its kind counts.

    Raises:
        TypeError: ``learner`` can't be called.
    """
    if not callable(learner):
        raise TypeError(f"learner={learner!r}: give the function itself, my_function, not what it returns")
    for case in exercise.cases(world):
        told = list(_judge(exercise, learner, case, world))
        if told:
            return Verdict(exercise.name, [Finding(False, f"{case}: {text}") for text in told[:MOST_FINDINGS]])
    return Verdict(exercise.name, [Finding(True, text) for text in exercise.solved])


def _judge(exercise: Exercise, learner: Learner, case: Case, world: AnyWorld) -> Iterator[str]:
    """What is wrong with one case."""
    outcome = attempt(learner, case, world)
    if outcome.problem or outcome.traffic is None:
        yield outcome.problem
        return
    told = list(_results(exercise, case, outcome.attempts))
    yield from told
    if told:
        return
    if case.size > 1 and not any((*outcome.traffic.messages, *outcome.traffic.ready_made)):
        yield f"{RIGHT_WITHOUT_MESSAGES}; send the messages yourself, with comm.send, comm.recv and comm.sendrecv"
        return
    if outcome.traffic.ready_made:
        used = ", ".join(outcome.traffic.ready_made)
        yield f"the result is right, but a ready-made collective made it ({used}); send the messages yourself, with comm.sendrecv"
        return
    yield from exercise.messages(case, outcome.traffic)


def _results(exercise: Exercise, case: Case, attempts: Sequence[Attempt]) -> Iterator[str]:
    """What is wrong with what came out; what helps most comes first."""
    inputs = case.inputs
    told = {rank: _result(made, exercise.right(inputs, rank), case.size) for rank, made in enumerate(attempts)}
    results = [made.result for made in attempts if made.result is not None]
    if any(told.values()) and len(results) == case.size:
        yield from filter(None, [exercise.hint(results, inputs)])
    yield from (f"rank {rank}{text}" for rank, text in told.items() if text)
    yield from (f"rank {rank}: the input was changed; work on a clone" for rank, made in enumerate(attempts) if made.modified)
    unfinished = [rank for rank, made in enumerate(attempts) if made.unfinished]
    if unfinished:
        yield f"{name_ranks(unfinished)}: a message was posted and not waited for; call wait() on what isend and irecv give"


def _result(made: Attempt, right: Tensor, size: int) -> str:
    """What is wrong with what one rank returned; begins with the mark that follows the rank's name."""
    if made.result is None:
        what = "nothing (None)" if made.kind == "NoneType" else f"a {made.kind}"
        return f" returned {what}; return the tensor"
    if made.result.shape != right.shape:
        return f" returned the shape {list(made.result.shape)}; it must be {list(right.shape)}"
    if made.result.dtype != right.dtype:
        return f" returned {str(made.result.dtype).removeprefix('torch.')}; it must be float64, like its input (torch.empty needs dtype=x.dtype)"
    told = explain(made.result, right, size)
    return f", {told}" if told else ""


def total(inputs: Sequence[Tensor]) -> Tensor:
    """The sum over ranks."""
    return torch.stack(list(inputs)).sum(0)


def blocks(x: Tensor, size: int) -> list[Tensor]:
    """``x`` cut along dim 0, one block for each rank, as everywhere in partkit."""
    return list(torch.split(x, list(block_sizes(len(x), size))))
