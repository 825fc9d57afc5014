"""Rings told to the wire as one thing are the same as exchanges one by one: results, events, times, and who stands still for whom."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import torch
from torch import Tensor

from partkit.cluster import COSTS, Cluster, Link
from partkit.collectives.all_gather import all_gather
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Blocks, Communicator, pass_round
from partkit.tracing import Event
from partkit.transport.simulated.leg import Leg
from partkit.transport.simulated.relays import Relays, Stream
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.simulated import SimulatedWorld

CLUSTER = Cluster(link=Link(latency=1.0, bandwidth=4))
MANY = "partkit.communicator.ring.MANY"
Program = Callable[..., object]


def both_ways(monkeypatch: pytest.MonkeyPatch, size: int, program: Program, *args: object, numbers: bool = True) -> tuple[list[object], list[Event]]:
    """What ranks return and all events; the same by relays and by exchanges."""
    found = []
    for many in (10**6, 2):
        monkeypatch.setattr(MANY, many)
        world = SimulatedWorld(size, CLUSTER, numbers=numbers)
        found.append((list(world.run(program, *args)), list(world.trace.events)))
    assert found[0] == found[1]
    return found[1]


@pytest.fixture
def advanced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps were done, turn by turn; also what is done before standing still counts as none."""
    steps: list[int] = []
    plain = Leg.advance

    def counted(leg: Leg) -> object:
        before, waiting = leg.done, plain(leg)
        steps.append(leg.done - before)
        return waiting

    monkeypatch.setattr(Leg, "advance", counted)
    return steps


@pytest.mark.parametrize("op", ["sum", "product", "max"])
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_results_and_events_are_those_of_exchanges(monkeypatch: pytest.MonkeyPatch, advanced: list[int], op: str, size: int) -> None:
    def program(comm: Communicator, numel: int) -> list[float]:
        comm.compute("late", seconds=0.25 * (comm.rank * 7 % 4))
        x = (torch.arange(float(numel), dtype=torch.float64) + 1.1) / (comm.rank + 1)
        total = all_reduce(x, comm, op, algorithm="ring")  # type: ignore[arg-type]
        comm.compute("between", seconds=0.5 * (comm.rank % 2))
        pieces = [1 + rank % 3 for rank in range(comm.size)]
        mine = torch.full((pieces[comm.rank],), float(comm.rank) + total.sum().item())
        return [*total.tolist(), *all_gather(mine, comm, sizes=pieces, algorithm="ring").tolist()]

    for numel in (0, 1, size - 1, size, 3 * size + 1):
        advanced.clear()
        both_ways(monkeypatch, size, program, numel)
        assert sum(advanced) > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8, torch.bool, torch.complex64])
def test_every_dtype_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    def program(comm: Communicator) -> bytes:
        generator = torch.Generator().manual_seed(comm.rank)
        x = (torch.rand(37, generator=generator) * 5).to(dtype)
        total = all_reduce(x, comm, "product", algorithm="ring")
        return bytes(total.view(torch.uint8).tolist())

    results, _ = both_ways(monkeypatch, 5, program)
    assert len(set(results)) == 1


def test_shapes_move_like_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(comm: Communicator) -> tuple[int, ...]:
        return tuple(all_reduce(torch.ones(7), comm, algorithm="ring").shape)

    _, events = both_ways(monkeypatch, 4, program, numbers=False)
    assert events == both_ways(monkeypatch, 4, program)[1]


def test_many_steps_are_one(advanced: list[int]) -> None:
    """Two passes of a ring: each rank has two or three turns a pass, where exchanges one by one would be p - 1 calls."""
    size = 24
    with SimulatedWorld(size, CLUSTER) as world:
        world.run(lambda comm: all_reduce(torch.ones(comm.size), comm, algorithm="ring"))
        assert len(advanced) <= 6 * size < 2 * (size - 1) * size
        cost = COSTS["all_reduce"]["ring"](size, 4, size, CLUSTER.link)
        assert world.trace.makespan == pytest.approx(cost.seconds, rel=1e-12)
        assert world.trace.num_messages() == 2 * (size - 1) * size


def test_a_rank_that_comes_late_finds_what_its_neighbour_has_sent_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 begins only when rank 6, which is none of the ring's, has had its turn; by then rank 0 has had a second one."""
    most = []
    plain = Leg._take

    def counted(leg: Leg, stream: Stream) -> object:
        most.append(len(stream.parcels))
        return plain(leg, stream)

    monkeypatch.setattr(Leg, "_take", counted)

    def program(comm: Communicator) -> list[float] | None:
        if comm.rank == 6:
            comm.send(torch.ones(1), 1)
            return None
        if comm.rank == 1:
            comm.recv(torch.empty(1), 6)
        return all_reduce(torch.arange(18.0) * (comm.rank + 1), comm.subgroup(range(6)), algorithm="ring").tolist()

    both_ways(monkeypatch, 7, program)
    assert max(most) > 1


def by_hand(comm: Communicator, x: Tensor, blocks: Blocks, first: int, tag: str, *, one_by_one: bool) -> None:
    """What `pass_round` stands for."""
    outgoing, right, left = x, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(1, comm.size):
        incoming = blocks[(first - step + 1) % comm.size]
        if one_by_one:
            received, sent = comm.irecv(incoming, left, f"{tag} {step}"), comm.isend(outgoing, right, f"{tag} {step}")
            received.wait()
            sent.wait()
        else:
            comm.sendrecv(outgoing, right, incoming, left, f"{tag} {step}")
        outgoing = incoming


def rings(comm: Communicator, seed: int, ways: int) -> list[int]:
    """Rings under the same tag and another one; each rank by a relay, by exchanges or one by one, as chance has it."""
    shared, own, found = Random(seed), Random(seed * 100 + comm.rank), []
    with comm.collective("rings", torch.ones(1), "test"):
        for turn in range(4):
            tag = shared.choice(["same", f"turn {turn}"])
            numels = [shared.choice([0, 1, 2]) for _ in range(comm.size)]
            blocks = Blocks(torch.full((sum(numels),), comm.rank), numels)
            if own.random() < 0.3:
                comm.compute("busy", seconds=own.choice([0.5, 1.25]))
            way = own.randrange(ways)
            mine = blocks[comm.rank].clone()
            if way == 0:
                pass_round(comm, mine, blocks, comm.rank - 1, tag)
            else:
                by_hand(comm, mine, blocks, comm.rank - 1, tag, one_by_one=way == 2)
            found += blocks.flat.tolist()
    return found


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_ranks_may_differ(monkeypatch: pytest.MonkeyPatch, ways: int) -> None:
    unrolled: list[object] = []
    plain = Relays.unroll
    monkeypatch.setattr(Relays, "unroll", lambda self, relay: (unrolled.append(relay), plain(self, relay)))
    for seed in range(6):
        for size in (2, 3, 5):
            both_ways(monkeypatch, size, rings, seed, ways)
    assert unrolled


@pytest.mark.parametrize("wrong", ["sizes", "dtype", "tag", "missing"])
def test_what_does_not_fit_is_told(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """The same words, whichever way it was done."""

    def program(comm: Communicator) -> None:
        odd = comm.rank == 2
        numels = [2, 1, 1, 1] if odd and wrong == "sizes" else [1, 2, 1, 1]
        blocks = Blocks(torch.ones(5, dtype=torch.float64 if odd and wrong == "dtype" else torch.float32), numels)
        with comm.collective("ring", torch.ones(1), "test"):
            if not (odd and wrong == "missing"):
                pass_round(comm, blocks[comm.rank].clone(), blocks, comm.rank - 1, "odd" if odd and wrong == "tag" else "even")

    told = []
    for many in (10**6, 2):
        monkeypatch.setattr(MANY, many)
        with pytest.raises(RanksStuck) as stuck:
            SimulatedWorld(4, CLUSTER).run(program)
        told.append(str(stuck.value))
    assert told[0] == told[1]


def test_what_is_sent_first_may_be_overwritten_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(comm: Communicator) -> list[int]:
        blocks = Blocks(torch.arange(comm.size) * 10 + comm.rank, [1] * comm.size)
        with comm.collective("ring", torch.ones(1), "test"):
            pass_round(comm, blocks[comm.rank - 3], blocks, comm.rank - 2, "round")  # comes in at step 2
        return blocks.flat.tolist()

    both_ways(monkeypatch, 5, program)


def test_a_rank_that_raises_while_it_combines_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MANY, 2)

    def refuse(mine: Tensor, theirs: Tensor) -> None:
        raise ArithmeticError(f"no {len(mine) + len(theirs)}")

    def program(comm: Communicator) -> None:
        blocks, own = (Blocks(torch.ones(comm.size), [1] * comm.size) for _ in range(2))
        with comm.collective("ring", torch.ones(1), "test"):
            pass_round(comm, torch.ones(1), blocks, comm.rank - 1, "round", refuse if comm.rank == 1 else Tensor.add_, own)

    with pytest.raises(RankError, match=r"rank 1: ArithmeticError: no"):
        SimulatedWorld(3, CLUSTER).run(program)
