"""A session: history, sizes, costs; what is refused changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from partkit.cluster import Link
from partkit.figures.studio import Refused
from partkit.figures.studio_controls import CONTROLS, change, slide
from partkit.figures.studio_session import Session
from partkit.pipeline_parallel import Costs, InvalidSchedule, Schedule, make


def test_undo_and_redo_go_through_every_state() -> None:
    session, seen = Session(None, 2, 2), []
    acts: list[Callable[[], None]] = [lambda: session.place("0F0"), lambda: session.place("1F0 1B0"), lambda: session.choose("gpipe"), session.clear]
    for act in acts:
        seen.append(session.schedule)
        act()
    last = session.schedule
    for expected in reversed(seen):
        assert session.undo() and session.schedule == expected
    assert not session.undo() and not session.can_undo
    for expected in [*seen[1:], last]:
        assert session.redo() and session.schedule == expected
    assert not session.redo()


def test_a_new_move_ends_what_could_be_redone() -> None:
    session = Session(None, 2, 2)
    session.place("0F0")
    session.undo()
    session.place("0F1")
    assert not session.can_redo


def test_of_several_moves_all_or_none_are_made() -> None:
    session = Session(None, 2, 2)
    with pytest.raises(Refused, match="1B1 needs 1F1"):
        session.place("0F0 1F0 1B1")
    assert session.board.num_left == 8 and not session.can_undo


@pytest.mark.parametrize(
    ("schedule", "words"), [("zb_h1", r"backwards are in two parts here, I and W; Split backward \(p\)"), ("forward_only", "the schedule has forwards only")]
)
def test_a_kind_that_the_board_does_not_have(schedule: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"there is no B here: {words}"):
        Session(schedule).place_next(0, "B")


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda session: session.choose("pipe"), ValueError, "there is no schedule 'pipe'; there are gpipe, "),
        (lambda session: session.resize(17, 4), ValueError, "ranks=17: a studio has 1 to 16 ranks"),
        (lambda session: session.resize(2, 0), ValueError, "microbatches=0: a studio has 1 to 64 micro-batches"),
        (lambda session: session.ask(memory_cap=3.0), Refused, "rank 0 keeps 4, and may keep 3"),
        (lambda session: change(session, speed=1.0), ValueError, r"change\(speed=1.0\): a studio has ranks, microbatches, forward"),
        (lambda session: change(session, ranks=None), ValueError, r"change\(ranks=None\): give a number"),
        (lambda session: session.place_next(0, "F"), ValueError, "no F is left to place on rank 0"),
        (lambda session: session.place_next(0, "W"), ValueError, r"there is no W here: backwards are whole here, B; Split backward \(p\) changes that"),
        (lambda session: Session("chimera", 3, 8), ValueError, "it needs an even number of ranks"),
        (lambda session: Session(Schedule.parse("rank 0: 0B0 0F0")), InvalidSchedule, "0B0 needs 0F0"),
    ],
)
def test_refusals_change_nothing(act: Callable[[Session], None], kind: type[Exception], words: str) -> None:
    session = Session("gpipe")
    with pytest.raises(kind, match=words):
        act(session)
    assert session.schedule == make("gpipe", 4, 8) and not session.can_undo


def test_a_known_schedule_follows_the_size_and_one_by_hand_keeps_its_stages() -> None:
    session = Session("zb_v", 4, 8)
    session.resize(6, 12)
    assert session.schedule == make("zb_v", 6, 12)
    session.clear()
    session.resize(3, 6)
    assert session.schedule.placement == (0, 1, 2, 2, 1, 0) and session.board.num_left == 6 * 6 * 3
    session.undo()
    session.undo()
    assert session.schedule == make("zb_v", 6, 12)


def test_of_a_dragged_slider_one_step_is_kept() -> None:
    session = Session("gpipe")
    for stop in (0, 3, 5):
        slide(session, "latency", stop)
    assert session.board.link.latency == 0.5
    session.undo()
    assert session.board.link.latency == 0.0 and not session.can_undo


def test_every_slider_sets_what_it_shows() -> None:
    for control in CONTROLS:
        session = Session("gpipe", 4, 8)
        for stop in range(0, len(control.stops), 3):
            slide(session, control.key, stop) if control.key != "memory_cap" or (control.stops[stop] or 99) >= 8 else None
            if session.can_undo:
                assert control.place(session) == stop and control.text(session) == control.say(control.stops[stop])


def test_values_of_no_stop_are_shown_as_they_are() -> None:
    session = Session("gpipe", costs=Costs(forward=[1, 2, 3, 4]), link=Link(0.33, 3.3e6))
    shown = {control.key: (control.place(session), control.text(session)) for control in CONTROLS}
    assert shown["forward"] == (-1, "by stage") and shown["latency"] == (4, "0.33") and shown["bandwidth"] == (3, "3.3 MB a unit")


def test_splitting_and_merging_keep_the_order() -> None:
    session = Session("one_f_one_b", 2, 2)
    session.split(True)
    assert str(session.schedule) == "rank 0: 0F0 0F1 0I0 0W0 0I1 0W1\nrank 1: 1F0 1I0 1W0 1F1 1I1 1W1" and session.name == "1F1B"
    session.split(False)
    assert session.schedule == make("one_f_one_b", 2, 2)


def test_merging_leaves_what_stands_apart() -> None:
    session = Session("zb_h1", 4, 8)
    session.split(False)
    assert session.name == "ZB-H1" and session.board.num_left == 0


def test_the_next_of_a_kind_is_one_that_can_be_placed() -> None:
    session = Session(None, 2, 2)
    session.place("0F1")
    session.place_next(1, "F")
    assert str(session.schedule.ranks[1]) == "(1F1,)"
    with pytest.raises(Refused, match="1F0 needs 0F0"):
        session.place_next(1, "F")


def test_rivals_are_worked_out_once_for_a_question() -> None:
    session = Session(None, 4, 8)
    first = session.rivals
    session.place("0F0")
    assert session.rivals is first
    change(session, forward=2.0)
    assert session.rivals is not first and session.rivals[0].measures.makespan == 44.0
