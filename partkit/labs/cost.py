"""Exercise: write the cost of an algorithm, ``seconds(numel, itemsize, size, link)``.

Every cost in the alpha-beta model is  a * latency + b / bandwidth:  a messages one after the other, b bytes one after the
other. So whatever a learner wrote can be taken apart, by asking it about two links that do not exist:

    latency 1 s, no time for bytes       the answer is a: how many messages
    no latency, 1 byte a second          the answer is b: how many bytes

and be told which half is wrong, by how much, and for how many ranks it begins to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isclose, isfinite
from typing import NamedTuple

from partkit.cluster import COSTS, Link
from partkit.labs.verdict import Finding, Verdict

Seconds = Callable[[int, int, int, Link], float]
ITEMSIZES = (4, 8)
ONLY_LATENCY = Link(latency=1.0, bandwidth=float("inf"))
ONLY_BYTES = Link(latency=0.0, bandwidth=1.0)
BOTH = Link(latency=50e-6, bandwidth=2e9)


def check_cost(
    learner: Seconds, operation: str = "all_reduce", algorithm: str = "halving_doubling", sizes: Sequence[int] = (1, 2, 4, 8, 16, 64), numel: int = 960 * 64
) -> Verdict:
    """Judge ``learner(numel, itemsize, size, link)``, the seconds of one call in the alpha-beta model.

    Args:
        learner: gives seconds for ``numel`` elements of ``itemsize`` bytes on ``size`` ranks, over links ``link``.
        operation: which collective.
        algorithm: how it is done.
        sizes: numbers of ranks to ask for; here powers of two, for which the formula is short.
        numel: elements to ask for; a multiple of all sizes, so that all chunks are equal.

    Raises:
        TypeError: ``learner`` can't be called.
        ValueError: there is no such operation or algorithm.

    Example:
        >>> from partkit.labs import check_cost
        >>> check_cost(lambda numel, itemsize, size, link: size * link.seconds(numel * itemsize), "all_reduce", "naive")
        cost of all_reduce, naive: not yet
          look  1 rank: your cost is 0.00017288 s on a real link; it must be nothing, since one rank sends no message
    """
    if not callable(learner):
        raise TypeError(f"learner={learner!r}: give the function itself, my_function, not what it returns")
    if algorithm not in COSTS.get(operation, {}):
        known = [f"{op}/{name}" for op, costs in COSTS.items() for name in costs]
        raise ValueError(f"check_cost(operation={operation!r}, algorithm={algorithm!r}): choose one of {', '.join(known)}")
    name, cost = f"cost of {operation}, {algorithm}", COSTS[operation][algorithm]

    def right(numel: int, itemsize: int, size: int, link: Link) -> float:
        return cost(numel, itemsize, size, link).seconds

    calls = [(numel, itemsize, size) for size in sizes for itemsize in ITEMSIZES]
    try:
        told = next(filter(None, (list(_wrong(_parts(learner, call), _parts(right, call), call)) for call in calls)), None)
    except Exception as error:
        told = [f"your function raised {type(error).__name__}: {error}"]
    if told:
        return Verdict(name, [Finding(False, text) for text in told])
    return Verdict(
        name,
        [
            Finding(True, f"messages one after the other: right for {', '.join(map(str, sizes))} ranks"),
            Finding(True, f"bytes one after the other: right for {', '.join(map(str, sizes))} ranks and elements of 4 and 8 bytes"),
            Finding(True, "the sum of both, in seconds, for a real link"),
        ],
    )


class Parts(NamedTuple):
    """A cost, taken apart."""

    messages: float
    nbytes: float
    seconds: float
    """On a link that has both."""


def _parts(seconds: Seconds, call: tuple[int, int, int]) -> Parts:
    """Ask about the three links."""
    return Parts(*(seconds(*call, link) for link in (ONLY_LATENCY, ONLY_BYTES, BOTH)))


def _wrong(mine: Parts, right: Parts, call: tuple[int, int, int]) -> Iterator[str]:
    """What is wrong for one tensor on one number of ranks."""
    _, itemsize, size = call
    ranks = f"{size} rank{'' if size == 1 else 's'}"
    odd = [value for value in mine if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value)]
    if odd:
        endless = isinstance(odd[0], float) and not isfinite(odd[0])  # one of the links that are asked about has no limit
        hint = "; divide bytes by link.bandwidth, multiply messages by link.latency" if endless else ""
        yield f"{ranks}: your function gives {odd[0]!r}; it must give a number of seconds{hint}"
    elif not any(right):
        if any(mine):
            yield f"{ranks}: your cost is {mine.seconds:g} s on a real link; it must be nothing, since one rank sends no message"
    elif _same(mine.messages, right.messages) and _same(mine.nbytes, right.nbytes):
        if not _same(mine.seconds, right.seconds):
            yield f"{ranks}: messages and bytes are right, but not their sum; add latency times messages, and bytes divided by bandwidth"
    else:
        if not _same(mine.messages, right.messages):
            count = f"{mine.messages:g} message" + ("" if mine.messages == 1 else "s")
            yield f"{ranks}: your cost has {count} one after the other (times link.latency); it must be {right.messages:g}"
        if not _same(mine.nbytes, right.nbytes):
            hint = _ratio(mine.nbytes, right.nbytes, itemsize)
            yield f"{ranks}: your cost has {mine.nbytes:.10g} bytes one after the other (over link.bandwidth); it must be {right.nbytes:.10g}{hint}"


def _same(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _ratio(given: float, right: float, itemsize: int) -> str:
    """A wrong number of bytes that is easily explained."""
    if _same(given * itemsize, right):
        return f"; elements have {itemsize} bytes: multiply by itemsize"
    return "; these are bits: do not multiply by 8" if _same(given, 8 * right) else ""
