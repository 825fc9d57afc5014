"""The clinic: of every patient, partkit's own report names the right rank and line first, on live and on simulated ranks."""

from __future__ import annotations

import re

import pytest

import partkit as pk
from partkit.labs import clinic
from partkit.labs.clinic.case import NUM_CASES, SIZE, Case
from partkit.labs.clinic.examination import Examination
from partkit.worlds.simulated import SimulatedWorld

CASES = range(1, NUM_CASES + 1)
AFTERMATH = re.compile(r"\n\(ranks? [^)]*\)")
"""Whom partkit stopped, or had to kill on a machine that is busy with other things."""


def first_rank(report: str) -> int:
    found = re.search(r"ranks? (\d+)", report)
    assert found is not None
    return int(found[1])


def assert_is_found(seen: Examination) -> None:
    truth = seen.case.truth
    assert first_rank(seen.report) == truth.ranks[0], seen.report
    assert seen.error.ranks == truth.ranks, seen.report
    assert seen.lines[0] == seen.case.line, seen.report


@pytest.mark.parametrize("number", CASES)
def test_the_right_rank_and_line_come_first_on_simulated_ranks(number: int) -> None:
    assert_is_found(clinic.examine(number))


@pytest.mark.live
@pytest.mark.parametrize("number", CASES)
def test_the_right_rank_and_line_come_first_on_live_ranks_in_the_same_words(world4: pk.World, number: int) -> None:
    seen = clinic.examine(number, world4)
    assert_is_found(seen)
    assert AFTERMATH.sub("", seen.report) == AFTERMATH.sub("", clinic.examine(number).report)
    assert list(world4.run(lambda comm: comm.rank)) == list(range(SIZE))


def test_every_fault_occurs_once() -> None:
    assert sorted(Case.load(number).truth.fault for number in CASES) == sorted(clinic.FAULTS)


@pytest.mark.parametrize("number", CASES)
def test_the_right_diagnosis_opens_the_seal(number: int) -> None:
    truth = Case.load(number).truth
    for rank in truth.ranks:
        verdict = clinic.diagnose(number, rank, truth.fault)
        assert verdict
        text = repr(verdict)
        assert truth.why in text and truth.cure in text and truth.fault in text and "=" in text.partition("sealed until now:")[2]


@pytest.mark.parametrize("number", CASES)
def test_a_wrong_diagnosis_opens_nothing_and_says_which_half_is_wrong(number: int) -> None:
    case = Case.load(number)
    other_rank = next(rank for rank in range(SIZE) if rank not in case.truth.ranks)
    other_fault = next(fault for fault in clinic.FAULTS if fault != case.truth.fault)
    for rank, fault in ((other_rank, case.truth.fault), (case.truth.ranks[0], other_fault), (other_rank, other_fault)):
        verdict = clinic.diagnose(number, rank, fault)
        assert not verdict
        assert [finding.ok for finding in verdict.findings] == [rank in case.truth.ranks, fault == case.truth.fault]
        assert case.truth.why not in repr(verdict) and "sealed" not in repr(verdict)


@pytest.mark.parametrize("number", CASES)
def test_what_is_seen_of_a_patient_keeps_the_seal(number: int) -> None:
    seen = clinic.examine(number)
    shown = seen._repr_mimebundle_()
    sealed = seen.case.sealed()
    for text in (repr(seen), shown["text/html"]):
        assert seen.case.truth.complaint in text.replace("&#x27;", "'") and seen.case.filename in text
        assert not any(line in text for line in sealed.splitlines())
        assert seen.case.truth.why not in text and "TRUTH" not in text
    marked = [line for line in repr(seen).splitlines() if line.startswith(">")]
    assert any(f" {seen.case.line}  " in line and seen.case.truth.line in line for line in marked)
    assert "def patient(comm: Communicator)" in repr(seen)


def test_the_program_does_not_give_away_which_rank_it_is() -> None:
    """What is wrong is in the data: the programs look at ``comm.rank``, but single out no rank in the middle."""
    for number in CASES:
        listing = Case.load(number).listing()
        assert not re.search(r"rank\s*[!=]=\s*\d|rank in \(", listing), listing


def test_a_traceback_shows_the_line_of_the_patient() -> None:
    assert "counts[label] += 1" in clinic.examine(8).report


def test_the_trace_of_a_patient_shows_what_was_done_until_then() -> None:
    trace = clinic.examine(4).trace
    assert {event.tag.partition("[")[0] for event in trace.events if event.kind == "collective"} >= {"all_gather"}


@pytest.mark.parametrize("case", [0, 11, True, "3"])
def test_an_unknown_case_is_refused(case: int) -> None:
    with pytest.raises(ValueError, match="cases are numbered from 1 to 10"):
        clinic.examine(case)


@pytest.mark.parametrize("rank", [-1, 4, True])
def test_an_unknown_rank_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="a patient has the ranks 0 to 3"):
        clinic.diagnose(1, rank, "send cycle")


def test_an_unknown_fault_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="it is one of 'skipped rank', 'swapped order'"):
        clinic.diagnose(1, 0, "bad luck")


def test_a_fault_may_be_spelt_in_other_ways() -> None:
    assert clinic.diagnose(9, 1, "Wrong subgroup")


def test_a_world_of_another_size_is_refused() -> None:
    with SimulatedWorld(3) as world, pytest.raises(ValueError, match="a patient has 4 ranks"):
        clinic.examine(1, world)
