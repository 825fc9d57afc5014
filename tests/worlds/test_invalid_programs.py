"""Random programs with one mistake in one rank: explained in the same words on live and on simulated ranks, and never a hang.

A valid program is a list of messages and collectives that all ranks go through in the same order. Then one operation of one rank
is spoilt. The other ranks' programs still fit together, so whatever stands still in the end, that rank has its part in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import partkit as pk
from partkit.communicator import Communicator
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

SIZE = 3
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
FEW = settings(QUICK, max_examples=12)
AFTERMATH = re.compile(r"\n\(ranks? [^)]*\)")
Mistake = Literal["skip", "size", "dtype", "tag", "peer", "swap", "twice", "raise"]


class Step(NamedTuple):
    """One operation of one rank."""

    kind: Literal["send", "recv", "reduce", "raise"]
    peer: int = 0
    numel: int = 1
    dtype: torch.dtype = torch.float32
    tag: str = ""
    overlapped: bool = False
    """Posted now, waited for at the end."""


class Spoilt(NamedTuple):
    """What each rank does, and who does it wrongly."""

    programs: list[list[Step]]
    culprit: int
    mistake: Mistake


def valid(draw: st.DrawFn) -> list[list[Step]]:
    """A list of steps for each rank that fit together."""
    programs: list[list[Step]] = [[] for _ in range(SIZE)]
    for _ in range(draw(st.integers(1, 6))):
        numel, tag, overlapped = draw(st.integers(1, 3)), draw(st.sampled_from("ab")), draw(st.booleans())
        src, shift = draw(st.integers(0, SIZE - 1)), draw(st.integers(0, SIZE - 1))
        if shift == 0:
            for program in programs:
                program.append(Step("reduce", numel=numel))
        else:
            dst = (src + shift) % SIZE
            programs[src].append(Step("send", dst, numel, tag=tag, overlapped=overlapped))
            programs[dst].append(Step("recv", src, numel, tag=tag, overlapped=overlapped))
    return programs


@st.composite
def spoilt_programs(draw: st.DrawFn) -> Spoilt:
    """A valid program, and one step of one rank spoilt."""
    programs = valid(draw)
    culprit = draw(st.sampled_from([rank for rank in range(SIZE) if programs[rank]]))
    own = programs[culprit]
    place, mistake = draw(st.integers(0, len(own) - 1)), draw(st.sampled_from(Mistake.__args__))  # type: ignore[attr-defined]
    step = own[place]
    other = next(rank for rank in range(SIZE) if rank not in (culprit, step.peer))
    instead = {
        "skip": [],
        "size": [step._replace(numel=step.numel + 1)],
        "dtype": [step._replace(dtype=torch.float64)],
        "tag": [step._replace(tag="c")],
        "peer": [step._replace(peer=other)],
        "swap": [],
        "twice": [step, step],
        "raise": [Step("raise")],
    }[mistake]
    own[place : place + 1] = instead
    if mistake == "swap":
        own.insert(place + 1, step)
    return Spoilt(programs, culprit, mistake)


def play(comm: Communicator, programs: list[list[Step]]) -> list[list[float]]:
    """Do this rank's steps; everything received, in the order of the steps."""
    pending: list[Any] = []
    results: list[torch.Tensor] = []
    for number, step in enumerate(programs[comm.rank]):
        x = torch.full((step.numel,), 100.0 * comm.rank + number, dtype=step.dtype)
        if step.kind == "raise":
            raise ValueError(f"step {number}")
        if step.kind == "reduce":
            results.append(pk.all_reduce(x, comm, algorithm="naive"))
            continue
        posted = comm.isend(x, step.peer, step.tag) if step.kind == "send" else comm.irecv(x, step.peer, step.tag)
        results += [x] if step.kind == "recv" else []
        if step.overlapped:
            pending.append(posted)
        else:
            posted.wait()
    for posted in pending:
        posted.wait()
    return [result.tolist() for result in results]


def outcome(world: World | SimulatedWorld, programs: list[list[Step]]) -> tuple[str, tuple[int, ...], object]:
    """What came out of it: results, or the words of the report."""
    try:
        return "", (), list(world.run(play, programs))
    except RankError as error:
        code = error.diagnosis.code if isinstance(error, RanksStuck) and error.diagnosis is not None else None
        return AFTERMATH.sub("", str(error)), error.ranks, code


def named(report: str) -> set[int]:
    """All ranks that a report names."""
    spans = re.findall(r"\branks? (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)", report)
    ends = [part.split("-") for span in spans for part in span.split(", ")]
    return {rank for first, *last in ends for rank in range(int(first), int(last[0] if last else first) + 1)}


@QUICK
@given(spoilt_programs())
def test_whoever_made_the_mistake_is_named(spoilt: Spoilt) -> None:
    report, ranks, _ = outcome(SimulatedWorld(SIZE), spoilt.programs)
    if report:
        assert spoilt.culprit in named(report), report
        assert ranks and set(ranks) <= named(report)
    if spoilt.mistake == "raise":
        assert ranks == (spoilt.culprit,)


@pytest.mark.live
@FEW
@given(spoilt_programs())
def test_live_ranks_come_to_the_same_end_in_the_same_words(live_world: Callable[[int], World], spoilt: Spoilt) -> None:
    assert outcome(live_world(SIZE), spoilt.programs) == outcome(SimulatedWorld(SIZE), spoilt.programs)


def test_most_mistakes_end_in_a_report() -> None:
    """Else the tests above would say little."""
    ends: list[bool] = []

    @QUICK
    @given(spoilt_programs())
    def count(spoilt: Spoilt) -> None:
        ends.append(bool(outcome(SimulatedWorld(SIZE), spoilt.programs)[0]))

    count()
    assert sum(ends) > len(ends) / 2


@pytest.mark.parametrize(("report", "ranks"), [("rank 2: x", {2}), ("ranks 0-1, 3: rank 5", {0, 1, 3, 5}), ("8 ranks", set())])
def test_ranks_are_read_from_a_report(report: str, ranks: set[int]) -> None:
    assert named(report) == ranks
