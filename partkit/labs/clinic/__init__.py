"""The clinic: ten programs for four ranks that hang or fail, to be diagnosed from what partkit says and shows of them.

    seen = clinic.examine(5, world)                                  the report, the program, the trace
    pk.Timeline(seen.trace)                                          a picture
    clinic.diagnose(case=5, rank=2, fault="wrong dtype")             right or wrong, and why

file            idea
symptoms        ten faults, and how each shows in a report
case            a patient: a program that is shown, data and truth that are sealed
examination     what is seen of it
patients/       one file a case
"""

from __future__ import annotations

from partkit.diagnosis import name_ranks
from partkit.labs.clinic.case import SIZE, Case
from partkit.labs.clinic.examination import Examination
from partkit.labs.clinic.symptoms import SYMPTOMS, check_fault
from partkit.labs.trial import AnyWorld
from partkit.labs.verdict import Finding, Verdict
from partkit.worlds.errors import RankError
from partkit.worlds.simulated import SimulatedWorld

FAULTS = tuple(SYMPTOMS)
"""What may be wrong with a patient; each occurs once."""


def examine(case: int, world: AnyWorld | None = None) -> Examination:
    """Run a patient, and see what partkit says of it.

    Args:
        case: its number, 1 to 10.
        world: four ranks, live or simulated, which stay usable; by default simulated ones.

    Raises:
        ValueError: there is no such case, or the world has not four ranks.

    Example:
        >>> from partkit.labs import clinic
        >>> print(clinic.examine(3).report)
        ranks 2-3: each waits for the next, a cycle:
          rank 2 waits in send float32[1] to rank 3 at patient_03.py:20
          rank 3 waits in send float32[1] to rank 2 at patient_03.py:20
    """
    patient = Case.load(case)
    if world is None:
        with SimulatedWorld(SIZE) as own:
            return examine(case, own)
    if world.size != SIZE:
        raise ValueError(f"examine(world={world!r}): a patient has {SIZE} ranks; give a world of {SIZE}")
    try:
        world.run(patient.program)
    except RankError as error:
        kind = "simulated ranks" if isinstance(world, SimulatedWorld) else "live ranks"
        return Examination(patient, kind, error, world.trace)
    raise RuntimeError(f"case {case} came to its end: this is a defect of the case")


def diagnose(case: int, rank: int, fault: str) -> Verdict:
    """Judge a diagnosis.

    Args:
        case: which patient.
        rank: where the fault is.
        fault: what it is, one of `FAULTS`.

    Returns:
        True if both are right; then also the patient's data, why it hangs, and what helps.

    Raises:
        ValueError: there is no such case, rank or fault.

    Example:
        >>> from partkit.labs import clinic
        >>> clinic.diagnose(case=3, rank=2, fault="wrong dtype")
        case 3: not yet
          ok    rank 2 is one to look at
          look  'wrong dtype' would look different: the same call of the same collective with another word before the brackets: int64[2] beside float32[2]
    """
    patient, named = Case.load(case), check_fault(fault)
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < SIZE:
        raise ValueError(f"rank={rank!r}: a patient has the ranks 0 to {SIZE - 1}")
    truth = patient.truth
    right_rank, right_fault = rank in truth.ranks, named == truth.fault
    if right_rank and right_fault:
        where = f"{name_ranks(truth.ranks)}, {named}, at {patient.filename}:{patient.line}"
        return Verdict(
            f"case {case}", [Finding(True, text) for text in (where, f"sealed until now:\n{patient.sealed()}", truth.why, f"what helps: {truth.cure}")]
        )
    ranks = "is one to look at" if right_rank else "is not where it begins; the report names first who parted from the others, and then who waits because of it"
    what = f"{named} it is" if right_fault else f"'{named}' would look different: {SYMPTOMS[named]}"
    return Verdict(f"case {case}", [Finding(right_rank, f"rank {rank} {ranks}"), Finding(right_fault, what)])
