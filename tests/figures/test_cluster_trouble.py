"""What is done to a cluster becomes conditions, in a history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from partkit.cluster import Cluster, Death, SlowDevice, SlowLink, clusters
from partkit.figures.cluster_map import layout
from partkit.figures.cluster_trouble import Session

H100 = clusters.H100_NODES


@pytest.fixture
def session() -> Session:
    return Session(H100, 16, layout(H100, 16))


def test_each_target_becomes_its_conditions(session: Session) -> None:
    left, right = tuple(range(8)), tuple(range(8, 16))
    for target, conditions in [
        ("rank 3", (SlowDevice(3, 4.0),)),
        ("links 3", (SlowLink(3, None, 4.0), SlowLink(None, 3, 4.0))),
        ("pair 3 9", (SlowLink(3, 9, 4.0), SlowLink(9, 3, 4.0))),
        ("wire 0", (SlowLink(left, left, 4.0),)),
        ("wire 2", (SlowLink(left, right, 4.0), SlowLink(right, left, 4.0))),
    ]:
        session.slow(target, 4)
        assert session.cluster.conditions == conditions
        session.heal(target)
        assert session.cluster == H100
    session.kill("rank 3", 0.5)
    assert session.cluster.conditions == (Death(3, 0.5),)


def test_the_cluster_s_own_conditions_stay(session: Session) -> None:
    own = Cluster(conditions=(SlowDevice(0, 2.0),))
    other = Session(own, 4, layout(own, 4))
    other.slow("rank 0", 3)
    assert other.cluster.conditions == (SlowDevice(0, 2.0), SlowDevice(0, 3.0))
    other.reset()
    assert other.cluster == own


def test_doing_it_again_replaces_it_and_a_factor_of_1_ends_it(session: Session) -> None:
    session.slow("rank 3", 4)
    session.slow("rank 3", 2)
    session.kill("rank 3", 1.0)
    session.kill("rank 3", 2.0)
    assert session.told == ["rank 3: 2 times as slow", "rank 3: dies at 2 s"]
    session.slow("rank 3", 1)
    assert session.told == ["rank 3: dies at 2 s"]


def test_every_step_can_be_undone_also_a_reset(session: Session) -> None:
    session.slow("rank 3", 4)
    session.slow("wire 1", 2)
    session.reset()
    session.heal("rank 9")  # changes nothing, so it is no step
    assert session.told == []
    steps = []
    while session.can_undo:
        session.undo()
        steps.append(len(session.told))
    assert steps == [2, 1, 0]
    session.undo()
    assert session.told == []


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda s: s.slow("rank 16", 2), r"target 'rank 16': there are 'rank 0' to 'rank 15', .* 'wire 0' to 'wire 3'"),
        (lambda s: s.slow("wire 4", 2), "target 'wire 4'"),
        (lambda s: s.slow("pair 1 1", 2), "target 'pair 1 1'"),
        (lambda s: s.slow("rank", 2), "target 'rank'"),
        (lambda s: s.slow("rank -1", 2), "target 'rank -1'"),
        (lambda s: s.slow("cable 1", 2), "target 'cable 1'"),
        (lambda s: s.slow("rank 1", 0), "factor is how many times as long"),
        (lambda s: s.slow("rank 1", float("nan")), "factor is how many times as long"),
        (lambda s: s.kill("wire 1", 0.5), "only a rank can die; choose one, or slow the link down"),
        (lambda s: s.kill("rank 1", -0.5), "at is in seconds since the start of the run"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(session: Session, act: Callable[[Session], None], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        act(session)
    assert session.troubles == () and not session.can_undo


def test_facts_of_every_kind_of_target(session: Session) -> None:
    assert [session.facts(target) for target in ("rank 3", "links 3", "pair 3 9", "wire 0")] == [
        "rank 3, H100 SXM: 67 TFLOP/s in float32, 80 GB",
        "all links of rank 3",
        "rank 3 to rank 9: 50 GB/s, 5 us",
        "inside ranks 0-7: 450 GB/s, 2 us",
    ]
