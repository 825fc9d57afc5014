"""Runs in the background: waiting, awaiting, stopping, and failures that nobody looked at."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.worlds.errors import RankError
from partkit.worlds.results import Results
from partkit.worlds.world import World
from tests.worlds.failing import total, works

pytestmark = pytest.mark.live
Live = Callable[[int], World]


def until_told(comm: Communicator, flag: str) -> int:
    """Go on until the test makes a file."""
    import os

    while not os.path.exists(flag):
        time.sleep(0.005)
    return comm.rank


@contextmanager
def going_on(world: World, folder: Path) -> Iterator[object]:
    flag = folder / "end"
    run = world.start(until_told, str(flag))
    yield run
    flag.touch()
    assert list(run.wait(30)) == list(range(world.size))


def test_start_returns_while_the_ranks_work(live_world: Live, tmp_path: Path) -> None:
    world = live_world(2)
    with going_on(world, tmp_path) as run:
        assert not run.done and world.busy and repr(run) == "Run(2 ranks, going on)" and not run.trace.finished.is_set()  # type: ignore[attr-defined]
        with pytest.raises(TimeoutError, match=r"not over after 0\.01 s; it goes on"):
            run.wait(0.01)  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError, match=r"the run is not over; wait\(\) for it"):
            run.results()  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError, match=r"a run goes on in this world: wait for it with run\.wait\(\), or end it with run\.stop\(\)"):
            world.run(total)
    assert run.done and not world.busy and repr(run) == "Run(2 ranks, over)"  # type: ignore[attr-defined]
    assert isinstance(run.wait(), Results) and works(world)  # type: ignore[attr-defined]


def test_a_run_can_be_awaited_while_others_go_on(live_world: Live, tmp_path: Path) -> None:
    world, flag = live_world(2), tmp_path / "end"

    async def both() -> tuple[list[int], int]:
        run = world.start(until_told, str(flag))
        steps = 0
        while steps < 10:
            await asyncio.sleep(0)
            steps += 1
        flag.touch()
        return list(await run), steps

    assert asyncio.run(both()) == ([0, 1], 10)


def test_cancelling_the_wait_stops_the_run(live_world: Live, tmp_path: Path) -> None:
    world = live_world(2)

    async def cancelled() -> bool:
        run = world.start(until_told, str(tmp_path / "never"))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run._ended(), 0.05)
        return run.stopped and run.done

    assert asyncio.run(cancelled())
    assert works(world)


@pytest.mark.parametrize("where", ["in Python", "asleep", "in a receive", "in torch's own collective"])
def test_stop_ends_a_run_wherever_it_is_and_variables_stay(live_world: Live, where: str) -> None:
    def stay(comm: Communicator, where: str) -> None:
        torch.partkit_test_memory = comm.rank  # type: ignore[attr-defined]
        comm.send(torch.ones(1), 0) if comm.rank else comm.recv(torch.empty(1), 1)
        with comm.span("begun"):
            pass
        while where == "in Python":
            pass
        if where == "asleep" or comm.rank == 0:
            time.sleep(600)
        comm.recv(torch.ones(1), 0) if where == "in a receive" else torch.distributed.all_reduce(torch.ones(1))

    world = live_world(2)
    pids = world.pids
    run = world.start(stay, where)
    deadline = time.monotonic() + 30
    while sum(kind == 3 for kind in run.trace.columns["kind"]) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    run.stop()
    assert run.done
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    assert works(world) and world.pids == pids
    assert list(world.run(lambda comm: torch.partkit_test_memory)) == [0, 1]  # type: ignore[attr-defined]


def test_stopping_a_run_that_is_over_does_nothing(live_world: Live) -> None:
    run = live_world(2).start(total)
    run.wait()
    run.stop()
    assert list(run.wait()) == [2.0, 2.0]


def test_a_stop_that_was_cut_short_by_another_is_waited_for(live_world: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop button pressed twice: the second press interrupts the wait for the end."""
    world = live_world(2)
    run = world.start(lambda comm: time.sleep(600))
    run.stopped = True
    run.supervisor.stop(time.monotonic())  # what stop() does before it waits
    assert works(world)


def test_case_W14_a_failure_in_the_background_makes_the_next_call_fail(live_world: Live) -> None:
    world = live_world(2)
    run = world.start(lambda comm: 1 // comm.rank)
    assert run.trace.finished.wait(30)
    with pytest.raises(RankError, match="rank 0: ZeroDivisionError"):
        world.run(total)
    assert works(world)


def test_a_background_failure_that_was_seen_is_not_raised_again(live_world: Live) -> None:
    world = live_world(2)
    with pytest.raises(RankError):
        world.start(lambda comm: 1 // 0).wait()
    assert works(world)


def test_a_run_may_be_waited_for_from_another_thread(live_world: Live) -> None:
    world, found = live_world(2), []
    thread = threading.Thread(target=lambda: found.append(list(world.run(total))))
    thread.start()
    thread.join()
    assert found == [[2.0, 2.0]]


def test_the_trace_grows_while_the_run_goes_on(live_world: Live, tmp_path: Path) -> None:
    world, flag = live_world(2), tmp_path / "end"

    def reduce_then_wait(comm: Communicator, flag: str) -> int:
        all_reduce(torch.ones(2), comm, algorithm="ring")
        return until_told(comm, flag)

    run = world.start(reduce_then_wait, str(flag))
    assert world.trace is run.trace
    deadline = time.monotonic() + 30
    while len(run.trace) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    early = len(run.trace)
    assert not run.done
    flag.touch()
    run.wait()
    assert early == len(run.trace) == 10  # on each rank: two sends, two receives, the call


def test_nothing_is_traced_where_nobody_wants_it(live_world: Live) -> None:
    world = live_world(2)
    world.run(total)
    before = world.trace
    assert list(world.ask(total)) == [2.0, 2.0]
    assert world.trace is before and len(before) == 6
