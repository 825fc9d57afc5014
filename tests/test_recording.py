"""What a recorded run leaves in the trace, and messages that are held: on live ranks."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import partkit as pk
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.diagnosis import Diagnosis
from partkit.recording import RecordingTransport, as_text, record, run_held, run_recorded
from partkit.tracing import Sight
from partkit.transport.base import Transport
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.run import Run
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World

pytestmark = pytest.mark.live
Live = Callable[[int], World]


def shift(comm: Communicator) -> Any:
    """Each rank gets its left neighbour's numbers and adds its own to the second."""
    mine = torch.tensor([10.0, 11.0]) + 100 * comm.rank
    got = comm.sendrecv(mine, (comm.rank + 1) % comm.size, torch.empty(2), (comm.rank - 1) % comm.size, tag="shift")
    got[1:].add_(mine[1:])
    return got


def ring(comm: Communicator) -> Any:
    return all_reduce(torch.arange(4.0) + 10 * comm.rank, comm, algorithm="ring")


def of(world: World | SimulatedWorld, rank: int, moment: str, kind: str = "") -> list[Sight]:
    return [sight for sight in world.trace.sights if (sight.rank, sight.moment, sight.kind) == (rank, moment, kind)]


def held(run: Run, number: int) -> list[tuple[int, int, int]]:
    """Source, destination and number of the messages that wait, once they are ``number``."""
    deadline = time.monotonic() + 30
    while True:
        let = {(s.rank, s.number) for s in run.trace.sights if s.moment == "go"}
        found = [(s.rank, s.peer, s.number) for s in run.trace.sights if s.moment == "post" and s.number >= 0 and (s.rank, s.number) not in let]
        if len(found) == number or time.monotonic() > deadline:
            return sorted(found)
        time.sleep(0.01)


def until(run: Run, condition: Callable[[Sight], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not any(map(condition, list(run.trace.sights))) and time.monotonic() < deadline:
        time.sleep(0.01)
    return any(map(condition, list(run.trace.sights)))


# -- what is recorded ------------------------------------------------------------------------------------------------


def test_values_and_whose_data_they_are_travel_with_the_messages(live_world: Live) -> None:
    world = live_world(3)
    assert [got.tolist() for got in world.run(run_recorded, shift, (), {})] == [[210.0, 222.0], [10.0, 122.0], [110.0, 322.0]]
    (posted,) = of(world, 1, "post", "send")
    assert (posted.peer, posted.tag, posted.what, posted.nbytes, posted.who) == (2, "shift", "float32[2]", 8, 0b010)
    (done,) = of(world, 1, "done", "recv")
    (arrived,) = (strip for strip in done.strips if strip.number == done.strip)
    assert (arrived.values, arrived.who) == (("10", "11"), (0b001, 0b001))
    (end,) = of(world, 1, "end")
    assert [(strip.values, strip.who) for strip in end.strips] == [(("10", "122"), (0b001, 0b011))]


def test_memory_that_nobody_has_written_has_no_values(live_world: Live) -> None:
    world = live_world(3)
    world.run(run_recorded, shift, (), {})
    (posted,) = of(world, 0, "post", "recv")
    (buffer,) = (strip for strip in posted.strips if strip.number == posted.strip)
    assert (buffer.values, buffer.who, posted.num_elements) == (("", ""), (0, 0), 2)


def test_messages_bytes_and_results_are_those_of_a_run_that_is_not_recorded(live_world: Live) -> None:
    world = live_world(3)
    plain = world.run(ring)
    counts = [world.trace.num_messages(rank) for rank in range(3)], [world.trace.bytes_sent(rank) for rank in range(3)]
    assert world.trace.sights == []
    recorded = world.run(run_recorded, ring, (), {})
    assert ([world.trace.num_messages(rank) for rank in range(3)], [world.trace.bytes_sent(rank) for rank in range(3)]) == counts
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
    assert all(sight.strips[-1].who == (0b111,) * 4 for rank in range(3) for sight in of(world, rank, "done", "recv")[-1:])


def algorithms() -> list[tuple[str, str]]:
    return [(operation, name) for operation, table in pk.cluster.COSTS.items() for name in table if operation != "barrier"]


@pytest.mark.parametrize(("operation", "algorithm"), algorithms())
@pytest.mark.parametrize("size", [3, 4])
def test_every_algorithm_can_be_recorded_and_sums_name_all_who_are_in_them(operation: str, algorithm: str, size: int) -> None:
    def run(comm: Communicator) -> Any:
        return getattr(pk, operation)(torch.arange(8.0) + 10 * comm.rank, comm, algorithm=algorithm)

    with SimulatedWorld(size) as world:
        plain, messages = world.run(run), world.trace.num_messages()
        recorded = world.run(run_recorded, run, (), {})
        assert world.trace.num_messages() == messages
        assert all(a is b is None or torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
        held = [strip for sight in world.trace.sights for strip in sight.strips]
    if operation in ("all_reduce", "reduce", "reduce_scatter"):
        assert any(set(strip.who) == {(1 << size) - 1} for strip in held)


@pytest.mark.parametrize(("operation", "algorithm"), [pair for pair in algorithms() if pair[0] in ("all_reduce", "reduce", "reduce_scatter", "all_gather")])
def test_the_digits_of_a_sum_say_the_same_as_the_sets_at_every_moment(operation: str, algorithm: str) -> None:
    def run(comm: Communicator) -> Any:
        return getattr(pk, operation)(torch.full((4,), 10.0**comm.rank), comm, algorithm=algorithm)

    with SimulatedWorld(5) as world:
        world.run(run_recorded, run, (), {})
        seen = {(value, who) for sight in world.trace.sights for strip in sight.strips for value, who in zip(strip.values, strip.who, strict=True) if who}
    assert seen and all(int(value) == sum(10**rank for rank in range(5) if who >> rank & 1) for value, who in seen)


def test_a_receive_that_adds_unites_whose_data_is_in_the_buffer_and_leaves_no_other_memory(live_world: Live) -> None:
    def add(comm: Communicator) -> list[float]:
        x = torch.tensor([1.0, 2.0]) + 10 * comm.rank
        if comm.rank == 0:
            comm.recv(x[1:], 1, combine=torch.Tensor.add_)
        else:
            comm.send(x[1:], 0)
        return x.tolist()

    world = live_world(2)
    assert list(world.run(run_recorded, add, (), {})) == [[1.0, 14.0], [11.0, 12.0]]
    (done,) = of(world, 0, "done", "recv")
    assert [(strip.values, strip.who) for strip in done.strips] == [(("1", "14"), (0b01, 0b11))]


def test_simulated_ranks_without_numbers_are_recorded_without_values() -> None:
    with SimulatedWorld(3, numbers=False) as world:
        world.run(run_recorded, ring, (), {})
        assert all(sight.strips == () for sight in world.trace.sights)
        arrived = [sight for rank in range(3) for sight in of(world, rank, "done", "recv")]
        assert len(arrived) == 12 and all(0.0 < sight.time <= world.trace.makespan for sight in arrived)


def test_a_receive_from_anybody_is_refused_in_words() -> None:
    with SimulatedWorld(2) as world, pytest.raises(RankError, match=r"can't be recorded; look at the run without values"):
        world.run(run_recorded, lambda comm: comm.recv(torch.empty(1), None) if comm.rank else comm.send(torch.ones(1), 1), (), {})


def test_what_stands_before_a_wire_takes_what_a_wire_takes() -> None:
    for name, method in vars(Transport).items():
        own = vars(RecordingTransport).get(name)
        if own is not None and not name.startswith("_") and name != "lane":  # it takes anything, and says that it has none
            assert list(inspect.signature(own).parameters) == list(inspect.signature(method).parameters), name


def large(comm: Communicator) -> int:
    with record(comm, values=2):
        x = torch.ones(3) if comm.rank == 0 else torch.empty(3)
        if comm.rank == 0:
            comm.send(x, 1)
            return 0
        comm.recv(x, 0)
        y = x[:1].clone()  # small; its data is known to be rank 0's all the same
        return int(y.item())


def test_of_a_large_message_only_the_ranks_are_known(live_world: Live) -> None:
    world = live_world(2)
    assert list(world.run(large)) == [0, 1]
    (posted,) = of(world, 0, "post", "send")
    assert (posted.who, posted.strip, posted.strips) == (0b01, -1, ())
    (end,) = of(world, 1, "end")
    assert end.strips == () or all(strip.who == (0b01,) for strip in end.strips)
    assert of(world, 1, "done", "recv")[0].who == 0b01


def to_itself(comm: Communicator) -> float:
    x = torch.tensor([5.0])
    return comm.sendrecv(x, comm.rank, torch.empty(1), comm.rank).item()


def test_a_message_to_oneself_is_recorded_and_never_held(live_world: Live) -> None:
    world = live_world(2)
    assert list(world.run(run_recorded, to_itself, (), {})) == [5.0, 5.0]
    assert list(world.run(run_held, to_itself, (), {})) == [5.0, 5.0]


# -- what is refused -------------------------------------------------------------------------------------------------


def nested(comm: Communicator) -> None:
    with record(comm), record(comm):
        pass


def negative(comm: Communicator) -> None:
    with record(comm, values=-1):
        pass


def gateless(comm: Communicator) -> None:
    gate, comm._context.gate = comm._context.gate, None
    try:
        with record(comm, held=True):
            pass
    finally:
        comm._context.gate = gate


@pytest.mark.parametrize(
    ("fn", "words"),
    [(nested, "recorded already"), (negative, "values=-1.*at least 0"), (gateless, "nobody can let messages go here")],
)
def test_refusals(live_world: Live, fn: Callable[[Communicator], None], words: str) -> None:
    with pytest.raises(RankError, match=words):
        live_world(2).run(fn)


def one_records(comm: Communicator) -> None:
    if comm.rank == 0:
        with record(comm):
            comm.send(torch.ones(1), 1)
    else:
        comm.recv(torch.ones(1), 0)


def test_both_sides_must_be_recorded_and_who_forgets_is_told(live_world: Live) -> None:
    with pytest.raises(RanksStuck):
        live_world(2).run(one_records)


# -- held messages ---------------------------------------------------------------------------------------------------


def test_messages_go_when_they_are_let_go_and_arrive_at_once(live_world: Live) -> None:
    run = live_world(3).start(run_held, ring, (), {})
    assert held(run, 3) == [(0, 1, 0), (1, 2, 0), (2, 0, 0)]
    run.allow({1: (0,)})
    assert until(run, lambda sight: (sight.rank, sight.moment, sight.kind) == (2, "done", "recv"))
    assert held(run, 2) == [(0, 1, 0), (2, 0, 0)] and not run.done
    run.allow()
    assert [result.tolist() for result in run.wait()] == [[30.0, 33.0, 36.0, 39.0]] * 3


def test_a_gate_can_be_closed_again(live_world: Live) -> None:
    run = live_world(2).start(run_held, ring, (), {})
    held(run, 2)
    run.allow()
    run.allow({0: (), 1: ()})
    run.allow({0: (0,), 1: (0,)})
    assert until(run, lambda sight: sight.number == 1)  # the second message of each
    run.allow({0: (), 1: ()})
    run.allow()
    run.wait()


def test_stop_ends_a_held_run_and_the_next_run_is_not_held(live_world: Live) -> None:
    world = live_world(3)
    run = world.start(run_held, ring, (), {})
    held(run, 3)
    run.stop()
    assert run.done
    assert world.run(ring)[0].tolist() == [30.0, 33.0, 36.0, 39.0]


def heads_on(comm: Communicator) -> None:
    comm.send(torch.ones(1), 1 - comm.rank)


def test_case_H11_a_deadlock_is_found_while_messages_are_held(live_world: Live) -> None:
    """Both ranks send first: whoever lets messages go, neither ever receives."""
    run = live_world(2).start(run_held, heads_on, (), {})
    with pytest.raises(RanksStuck):
        run.wait(timeout=30)
    diagnosis = run.supervisor.diagnosis
    assert isinstance(diagnosis, Diagnosis) and diagnosis.code == "cycle"


def test_numbers_as_people_read_them() -> None:
    assert [as_text(value) for value in (0.0, -1.5, 2.0e-9, 123456.0, -10010.0, 1234567.0, -0.0, 7, False, 1 + 2j, 1 - 0.5j, float("nan"))] == (
        ["0", "-1.5", "2e-09", "123456", "-10010", "1.235e+06", "-0", "7", "0", "1+2i", "1-0.5i", "nan"]
    )
