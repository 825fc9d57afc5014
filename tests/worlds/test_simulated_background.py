"""Runs of simulated ranks that go on while whoever started them does something else."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
import torch

import partkit as pk
from partkit.communicator import Communicator
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld

GATE = threading.Event()
"""Simulated ranks share the process, so a test can hold them."""


def total(comm: Communicator) -> float:
    print("here", comm.rank)
    return pk.all_reduce(torch.ones(3), comm, algorithm="ring").sum().item()


def held(comm: Communicator) -> int:
    sys.modules[__name__].GATE.wait(10)
    return comm.rank


def endless(comm: Communicator) -> None:
    while comm.rank == 1:
        pass
    comm.recv(torch.empty(1), 1)


def test_the_end_is_the_same_as_that_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedWorld(3) as world:
        right, events = list(world.run(total)), list(world.trace.events)
        printed = capsys.readouterr().out
        run = world.start(total)
        assert world.trace is run.trace
        assert list(run.wait()) == right and run.done
        assert list(run.wait()) == right
        assert [event._replace(site="") for event in run.trace.events] == [event._replace(site="") for event in events]
        assert capsys.readouterr().out == printed == "[0] here 0\n[1] here 1\n[2] here 2\n"


def test_it_goes_on_meanwhile() -> None:
    GATE.clear()
    with SimulatedWorld(2) as world:
        run = world.start(held)
        assert not run.done and world.busy and "going on" in repr(run) and not run.trace.finished.is_set()
        for ask in (lambda: world.run(held), lambda: world.start(held), run.results):
            with pytest.raises(RuntimeError, match=r"goes on|not over"):
                ask()
        with pytest.raises(TimeoutError, match="it goes on"):
            run.wait(timeout=0)
        GATE.set()
        assert list(run.wait()) == [0, 1] and run.trace.finished.is_set() and not world.busy


def test_it_can_be_stopped() -> None:
    with SimulatedWorld(3) as world:
        run = world.start(endless)
        run.stop()
        assert run.done and run.trace.finished.is_set()
        with pytest.raises(KeyboardInterrupt):
            run.wait()
        assert list(world.run(lambda comm: comm.rank)) == [0, 1, 2]
        run = world.start(endless)
    assert run.done  # the end of the world is its end


def test_it_can_be_awaited() -> None:
    async def ask(world: SimulatedWorld) -> list[float]:
        return list(await world.start(total))

    async def give_up(world: SimulatedWorld) -> None:
        await asyncio.wait_for(world.start(endless), timeout=0.05)

    with SimulatedWorld(3) as world:
        assert asyncio.run(ask(world)) == [9.0] * 3
        with pytest.raises(TimeoutError):
            asyncio.run(give_up(world))
        assert not world.busy


def test_what_went_wrong_is_told_to_whoever_asks_next() -> None:
    def fails(comm: Communicator) -> None:
        raise ArithmeticError("no")

    with SimulatedWorld(2) as world:
        with pytest.raises(RankError, match="no"):
            world.start(fails).wait()
        run = world.start(lambda comm: comm.recv(torch.empty(1), 1 - comm.rank))
        assert run.trace.finished.wait(20)
        run._thread.join()
        with pytest.raises(RanksStuck, match="a cycle"):
            world.run(total)
        assert list(world.run(lambda comm: comm.rank)) == [0, 1]
