"""The order that most schedules share: on each stage, forwards run a fixed number ahead of backwards.

    ahead = 3          F0 F1 F2  B0 F3  B1 F4  B2 F5  B3  B4  B5         never more than 3 micro-batches alive
    ahead = 6 = m      F0 F1 F2 F3 F4 F5  B0  B1  B2  B3  B4  B5         GPipe

and, where the backward is split, gradients of the weights a fixed number behind:

    ahead = 3, behind = 2     F0 F1 F2  I0 F3  I1 F4  I2 W0 F5  I3 W1  I4 W2  I5 W3  W4 W5

A schedule is then two numbers for each stage; the files beside this one say which, and why.
"""

from __future__ import annotations

from collections.abc import Iterator

from partkit.pipeline_parallel.action import Action


def forwards_ahead(stage: int, num_microbatches: int, ahead: int) -> Iterator[Action]:
    """One stage with whole backwards: ``ahead`` forwards, then backward, forward, backward, ...

    Example:
        >>> list(forwards_ahead(0, 4, ahead=2))
        [0F0, 0F1, 0B0, 0F2, 0B1, 0F3, 0B2, 0B3]
    """
    yield from (Action(stage, "F", i) for i in range(min(ahead, num_microbatches)))
    for i in range(num_microbatches):
        yield Action(stage, "B", i)
        if i + ahead < num_microbatches:
            yield Action(stage, "F", i + ahead)


def weights_behind(stage: int, num_microbatches: int, ahead: int, behind: int) -> Iterator[Action]:
    """One stage with split backwards: forwards ``ahead`` of I, and W ``behind`` it.

    Example:
        >>> list(weights_behind(0, 3, ahead=2, behind=1))
        [0F0, 0F1, 0I0, 0F2, 0I1, 0W0, 0I2, 0W1, 0W2]
    """
    yield from (Action(stage, "F", i) for i in range(min(ahead, num_microbatches)))
    for i in range(num_microbatches):
        yield Action(stage, "I", i)
        if i >= behind:
            yield Action(stage, "W", i - behind)
        if i + ahead < num_microbatches:
            yield Action(stage, "F", i + ahead)
    yield from (Action(stage, "W", i) for i in range(max(0, num_microbatches - behind), num_microbatches))
