"""One schedule by several clocks: units that make equal work equally long, what is drawn where, refusals."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
import torch

import partkit as pk
from partkit.figures.schedule_overlay import cells, overlay, picture
from partkit.pipeline_parallel import Costs, add_communication, gpipe, one_f_one_b, simulate, zb_v
from partkit.pipeline_parallel.rehearse import rehearse
from partkit.tracing import Event, Trace

PLAN = simulate(one_f_one_b(4, 8))


def test_equal_work_is_equally_long_and_what_sticks_out_is_waiting() -> None:
    slow = simulate(one_f_one_b(4, 8), Costs(0.02, 0.02, 0.02, activation_bytes=1), pk.Link(latency=0.02, bandwidth=1e9))
    plan, run = overlay({"plan": PLAN, "run": slow})
    assert (plan.unit, plan.makespan, run.unit) == (1.0, 33.0, pytest.approx(0.02))
    assert plan.bubble == pytest.approx(3 / 11) and run.bubble > plan.bubble
    assert sum(bar.end - bar.start for bar in run.bars) == pytest.approx(sum(bar.end - bar.start for bar in plan.bars))
    assert run.makespan > 33


def test_a_simulated_run_lies_exactly_on_its_plan() -> None:
    with pk.SimulatedWorld(4, pk.Cluster(link=pk.Link(0.0, float("inf")))) as world:
        world.run(rehearse, add_communication(one_f_one_b(4, 8)), unit=0.5)
        plan, run = overlay({"plan": PLAN, "virtual": world.trace})
    assert run.clock == "virtual time (simulated)" and run.unit == pytest.approx(0.5)
    assert {(b.rank, b.name, round(b.start, 9), round(b.end, 9)) for b in run.bars} == {(b.rank, b.name, b.start, b.end) for b in plan.bars}
    assert cells((plan, run))[1] == ("virtual", "virtual time (simulated)", "500 ms", "33", "27 %")


def test_spans_of_a_real_step_are_its_computations() -> None:
    def step(comm: pk.Communicator) -> None:
        net = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(2)])
        pk.PipelineParallel(net, comm, loss=torch.nn.functional.mse_loss, num_microbatches=2).step(torch.ones(4, 8), target=torch.ones(4, 8))

    with pk.SimulatedWorld(2, pk.Cluster(device=pk.Device(flops=1e9, memory=1e9, memory_bandwidth=1e9)), compute="counted") as world:
        world.run(step)
        _, run = overlay({"plan": simulate(one_f_one_b(2, 2)), "virtual": world.trace})
    assert [(bar.rank, bar.name) for bar in sorted(run.bars, key=lambda bar: (bar.rank, bar.start))] == [
        (rank, str(action)) for rank, line in enumerate(one_f_one_b(2, 2).ranks) for action in line
    ]


def test_units_can_be_given() -> None:
    plan, run = overlay({"plan": PLAN, "run": PLAN}, {"plan": 2.0, "run": 4.0})
    assert (plan.makespan, run.makespan) == (16.5, 8.25)


def test_other_events_are_left_out_and_the_first_computation_is_at_0() -> None:
    trace = Trace.from_events(
        [Event(0, "compute", 0.0, 5.0, tag="warm up"), Event(0, "compute", 5.0, 6.0, tag="0F0"), Event(0, "compute", 6.0, 8.0, tag="0B0")]
    )
    (row,) = overlay({"run": trace})
    assert [(bar.name, bar.start, bar.end) for bar in row.bars] == [("0F0", 0.0, 1.0), ("0B0", 1.0, 3.0)]


@pytest.mark.parametrize(
    ("traces", "units", "words"),
    [
        ({}, None, "ScheduleOverlay.no trace.: give at least one trace"),
        ({"plan": PLAN}, {"other": 1.0}, "units only for traces; units={'other': 1.0}"),
        ({"plan": PLAN}, {"plan": 0.0}, "units are above 0"),
        ({"plan": PLAN, "two": simulate(gpipe(2, 2))}, None, "the traces differ in ranks: {'plan': 4, 'two': 2}"),
        ({"idle": Trace.from_events([Event(0, "compute", 0.0, 1.0, tag="work")])}, None, "the trace 'idle' has no computation named like an action"),
    ],
)
def test_refusals(traces: dict[str, Trace], units: dict[str, float] | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pk.ScheduleOverlay(traces, units=units)


@pytest.mark.parametrize("schedule", [one_f_one_b(4, 8), zb_v(4, 8), gpipe(16, 64)])
def test_the_picture_holds_every_trace_of_every_rank(schedule: pk.pipeline_parallel.Schedule) -> None:
    trace = simulate(schedule)
    svg = picture(overlay({"plan & <all>": trace, "again": trace}))
    texts = [node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("plan & <all>") == texts.count("again") == schedule.num_ranks
    assert len(svg) < 150_000


def test_labels_stand_on_the_first_trace_only() -> None:
    svg = picture(overlay({"plan": simulate(gpipe(2, 2)), "run": simulate(gpipe(2, 2))}))
    texts = [node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert [texts.count(name) for name in ("F0", "B1", "0F0")] == [2, 2, 0]
