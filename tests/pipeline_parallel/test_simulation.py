"""Exact times: closed forms with messages, rounds against the engine of virtual time, lowered against unlowered schedules."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partkit.cluster import Cluster, Link
from partkit.cluster.conditions import Death, SlowLink
from partkit.pipeline_parallel import SCHEDULES, Costs, add_communication, chimera, clockwork, forward_only, gpipe, make, one_f_one_b, simulate, waves
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.lockstep import rounds
from partkit.pipeline_parallel.messages import messages
from partkit.pipeline_parallel.rules import needs
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.simulation import message_bytes, seconds
from partkit.pipeline_parallel.table import columns, table
from partkit.tracing import KIND_CODE, Trace
from tests.pipeline_parallel.sizes import all_sizes, quickly, some_of_each

FREE = Link(0.0, inf)


def spans(trace: Trace) -> dict[str, tuple[float, float]]:
    """Start and end of each action, by its name."""
    return {event.tag: (event.start, event.end) for event in trace.events if event.kind == "compute"}


def test_two_stages_by_hand() -> None:
    """A message takes 1 + 10 / 10; rank 0: 0F0 0F1 0B0 0B1, rank 1: 1F0 1B0 1F1 1B1."""
    found = spans(simulate(one_f_one_b(2, 2), Costs(activation_bytes=10), Link(1.0, 10.0)))
    assert found == {
        "0F0": (0, 1),
        "0F1": (1, 2),
        "1F0": (3, 4),
        "1B0": (4, 6),
        "1F1": (6, 7),
        "1B1": (7, 9),
        "0B0": (8, 10),
        "0B1": (11, 13),
    }


def test_messages_start_when_both_sides_have_posted_and_end_when_they_are_there() -> None:
    trace = simulate(one_f_one_b(2, 1), Costs(activation_bytes=10, gradient_bytes=30), Link(1.0, 10.0))
    [there, back] = trace.messages()
    assert (there.send.start, there.recv.start, there.recv.end, there.recv.nbytes, there.recv.tag) == (1, 0, 3, 10, "0F0")
    assert (back.send.start, back.recv.start, back.recv.end, back.recv.nbytes, back.recv.tag) == (6, 0, 10, 30, "1B0")
    came = trace.columns["waited"][trace.columns["kind"] == KIND_CODE["recv"]]
    assert sorted(came.tolist()) == [0, 1]  # rank 1 has nothing else to do; rank 0 has done 0F0
    assert trace.clock == "planned" and trace.finished.is_set()


@given(p=st.integers(1, 6), m=st.integers(1, 8), f=st.integers(1, 4), c=st.integers(0, 3))
@quickly
def test_a_message_a_stage_on_the_way_down(p: int, m: int, f: int, c: int) -> None:
    """Forwards alone, messages no longer than a forward: (m + p - 1) F + (p - 1) c."""
    c = min(c, f)
    trace = simulate(forward_only(p, m), Costs(forward=f), Link(float(c), inf))
    assert trace.makespan == (m + p - 1) * f + (p - 1) * c
    assert trace.num_messages() == (p - 1) * m


def test_messages_longer_than_a_forward_queue_at_the_port() -> None:
    """The wire is the bottleneck: m messages of 5 one after the other, then the last forward."""
    assert simulate(forward_only(2, 4), Costs(forward=1), Link(5.0, inf)).makespan == 1 + 4 * 5 + 1


@given(p=st.integers(1, 5), m=st.integers(1, 8), nbytes=st.integers(0, 100))
@quickly
def test_bytes_are_counted(p: int, m: int, nbytes: int) -> None:
    trace = simulate(gpipe(p, m), Costs(activation_bytes=nbytes))
    assert trace.bytes_sent() == 2 * (p - 1) * m * nbytes


def test_no_message_between_stages_of_one_rank() -> None:
    schedule = make("zb_v", 3, 5)  # 6 stages: 5 borders, of which the one at the turn is inside rank 2
    assert simulate(schedule).num_messages() == 2 * 4 * 5


def each_way(schedule: Schedule, costs: Costs, link: Link) -> tuple[clockwork.Times | None, clockwork.Times]:
    every = columns(schedule)
    t = table(schedule, every)
    when = rounds(t)
    x = messages(schedule, t, every, when)
    nbytes, busy = message_bytes(t, x, costs, schedule.num_stages), seconds(t, costs, schedule.num_stages)
    slow = clockwork.run(t, x, busy, nbytes, Cluster(link=link).network(schedule.num_ranks))
    return waves.run(t, x, when, busy, link.latency + nbytes / link.bandwidth), slow


FOUR_STAGES = [name for name in SCHEDULES if name not in ("interleaved", "breadth_first", "zb_v", "dual_pipe_v")]


@given(name=st.sampled_from(FOUR_STAGES), seed=st.integers(0, 10**6), latency=st.sampled_from([0.0, 0.05, 0.7]))
@quickly
def test_rounds_and_the_engine_agree_to_the_last_bit(name: str, seed: int, latency: float) -> None:
    draw = random.Random(seed)
    each = [[draw.uniform(0.1, 3) for _ in range(4)] for _ in range(3)]
    costs = Costs(forward=each[0], backward_input=each[1], backward_weight=each[2], activation_bytes=3)
    for schedule in (make(name, 4, 8), add_communication(make(name, 4, 8))):
        fast, exact = each_way(schedule, costs, Link(latency, 1e3))
        if fast is not None:
            for one, other in zip(fast, exact, strict=True):
                np.testing.assert_array_equal(one, other)


def test_rounds_are_enough_for_1f1b_and_give_up_where_messages_wait_for_a_port() -> None:
    assert each_way(one_f_one_b(8, 32), Costs(activation_bytes=1), Link(0.1, 10.0))[0] is not None
    fast, exact = each_way(forward_only(2, 4), Costs(forward=1), Link(5.0, inf))
    assert fast is None and exact.arrived.tolist() == [6, 11, 16, 21]


def test_rounds_give_up_where_a_send_is_held_back() -> None:
    late = Schedule.parse("rank 0: 0RECV_B0 0F0 0F1 0SEND_F0 0SEND_F1 0B0 0RECV_B1 0B1\nrank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1")
    fast, _ = each_way(late, Costs(), FREE)
    assert fast is None
    assert spans(simulate(late))["1F0"] == (2, 3)


@pytest.mark.parametrize("name", SCHEDULES)
def test_writing_messages_out_changes_no_time(name: str) -> None:
    for schedule in all_sizes(name, ranks=4, microbatches=4):
        costs, link = Costs(activation_bytes=7), Link(0.25, 20.0)
        plain, lowered = simulate(schedule, costs, link), simulate(add_communication(schedule), costs, link)
        assert np.array_equal(plain.columns, lowered.columns), schedule


@pytest.mark.parametrize("schedule", some_of_each(), ids=lambda schedule: schedule.name)
def test_nothing_starts_before_what_it_needs(schedule: Schedule) -> None:
    found = spans(simulate(schedule, Costs(activation_bytes=1), Link(0.3, 10.0)))
    end = {name: moments[1] for name, moments in found.items()} | {name.replace("B", made): moments[1] for name, moments in found.items() for made in "IW"}
    for name, (start, _) in found.items():
        assert all(end[str(need)] <= start for need in needs(Action.parse(name), schedule.num_stages)), name


def test_costs_of_each_stage_count_on_every_replica() -> None:
    found = spans(simulate(chimera(2, 2), Costs(forward=[1, 2], backward=[3, 4])))
    assert [found[name][1] - found[name][0] for name in ("0F0", "1F0", "2F1", "3F1", "0B0", "3B1")] == [1, 2, 1, 2, 3, 4]


def test_a_wrong_number_of_costs_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Costs\(forward=\[1, 2, 3\]\): 3 numbers for 2 stages"):
        simulate(gpipe(2, 2), Costs(forward=[1, 2, 3]))
    with pytest.raises(ValueError, match="a cost is at least 0"):
        Costs(backward_weight=-1)


def test_a_wide_pipeline() -> None:
    """Wide enough that a quadratic step would be felt; exact."""
    assert simulate(one_f_one_b(128, 256), Costs(activation_bytes=10), Link(0.0, inf)).makespan == (256 + 128 - 1) * 3


def test_a_cluster_with_a_slow_link() -> None:
    """0 -> 1 takes three times as long as the others."""
    cluster = Cluster(link=Link(1.0, inf), conditions=(SlowLink(0, 1, factor=3.0),))
    assert spans(simulate(forward_only(3, 1), link=cluster)) == {"0F0": (0, 1), "1F0": (4, 5), "2F0": (6, 7)}


def test_a_rank_that_dies_leaves_out_what_never_happens() -> None:
    cluster = Cluster(link=Link(1.0, inf), conditions=(Death(1, at=3.5),))
    found = spans(simulate(one_f_one_b(2, 2), link=cluster))
    assert "0F1" in found and "0B0" not in found
