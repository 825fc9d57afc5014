"""The benchmarks run, in their quick form, and give what the command line prints: numbers, not judgements of this machine."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from partkit.bench import _measure, collectives, launch, tracing
from partkit.bench.bare_wire import Shares, Step, replay, shares, taped
from partkit.cluster import COSTS
from partkit.collectives.all_to_all import all_to_all
from partkit.communicator import Communicator
from partkit.worlds.world import World


@pytest.mark.live
def test_launch_measures_every_kind_of_start() -> None:
    found = launch.run(["--quick"])
    assert [row["start"] for row in found["starts"]] == ["import torch, once", "World, cold", "World, warm", "World, warm", "torch.multiprocessing.spawn"]
    assert all(row["seconds"] > 0 for row in found["starts"]) and all(row["PSS MB"] > 10 for row in found["memory"])
    assert {row["holds"] for row in found["claims"]} <= {"yes", "NO"} and len(found["claims"]) == 5
    json.dumps(found)


@pytest.mark.live
def test_collectives_compares_all_operations_at_every_size() -> None:
    found = collectives.run(["--quick", "--floor", "--choices", "--where"])
    assert [(row["operation"], row["bytes"]) for row in found["collectives, ms"]] == [(name, nbytes) for name in collectives.PAIRS for nbytes in (1000, 16000)]
    numbers = ("partkit", "torch", "partkit / torch", "bare wire / torch", "chosen / fastest", "posting", "waiting", "elsewhere")
    assert all(row[column] > 0 for row in found["collectives, ms"] for column in numbers)
    assert all(row["fastest"] in COSTS[row["operation"]] for row in found["collectives, ms"])
    json.dumps(found)


@pytest.mark.live
def test_the_bare_wire_carries_the_messages_of_the_collective_in_its_order(live_world: Callable[[int], World]) -> None:
    def tapes(comm: Communicator) -> list[list[Step]]:
        first = taped(lambda: all_to_all(torch.arange(6), comm, algorithm="pairwise"), comm)
        return [first, taped(lambda: replay(first, comm)(), comm)]

    for rank, (first, again) in enumerate(live_world(3).run(tapes)):
        left, right = (rank - 1) % 3, (rank + 1) % 3
        assert [(step.what, step.nbytes, step.peer) for step in first] == [
            *(("recv", 16, left), ("recv", 16, right), ("send", 16, right), ("send", 16, left)),
            *(("wait", 0, message) for message in range(4)),
        ]
        assert [step[:4] for step in again] == [step[:4] for step in first]


def test_the_shares_of_a_call_are_told_apart_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks whenever it is read: begin and end of the call, of two posts and of two waits."""
    ticks = itertools.count()
    monkeypatch.setattr("partkit.bench.bare_wire.time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    message = SimpleNamespace(wait=lambda: None)
    group = SimpleNamespace(send=lambda tensors, dst, tag: message, recv=lambda tensors, src, tag: message)
    wire = SimpleNamespace(_group=group)

    def call() -> None:
        posted = [wire._group.recv([torch.zeros(2)], 1, 0), wire._group.send([torch.zeros(2)], 1, 0)]
        next(ticks)  # something else takes a tick
        for work in posted:
            work.wait()

    comm: Any = SimpleNamespace(_context=SimpleNamespace(transport=wire))
    assert shares(call, comm) == Shares(posting=2, waiting=2, elsewhere=6)
    assert wire._group is group


def test_the_claims_on_collectives_name_the_worst_size() -> None:
    ratios = {("all_reduce", 4, 4_000): 0.4, ("all_reduce", 4, 1_000_000): 1.2, ("reduce_scatter", 2, 1_000): 3.0, ("reduce_scatter", 2, 1_000_000): 0.6}
    rows = [dict(zip(("operation", "ranks", "bytes", "partkit / torch"), (*key, ratio), strict=True)) for key, ratio in ratios.items()]
    found = {claim.claim: (claim.measured, claim.row()["holds"]) for claim in collectives.claims(rows)}
    assert found == {
        "all_reduce at any size, 4 ranks": (1.2, "NO"),
        "all_reduce of 4 kB, 4 ranks": (0.4, "yes"),
        "reduce_scatter from 1 MB up, 2 ranks": (0.6, "yes"),
    }


@pytest.mark.live
def test_tracing_is_measured_on_work_that_leaves_many_events() -> None:
    found = tracing.run(["--quick"])
    assert [row["workload"] for row in found["tracing"]] == list(tracing.WORKLOADS) and all(row["events"] > 1000 for row in found["tracing"])
    json.dumps(found)


def test_measurements_are_taken_by_turns() -> None:
    order: list[str] = []
    numbers = iter(range(100))
    first, second = _measure.by_turns(3, lambda: order.append("a") or next(numbers), lambda: order.append("b") or next(numbers))  # type: ignore[func-returns-value]
    assert order == ["a", "b"] * 3 and (first, second) == (2, 3)


def test_a_claim_says_whether_it_holds() -> None:
    assert _measure.Claim("c", 1.0, 2.0, "s").row()["holds"] == "yes"
    assert _measure.Claim("c", 3.0, 2.0, "s").row()["holds"] == "NO"


def test_a_failed_measurement_says_why() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        _measure.fresh("1 / 0")
