"""Calls that do not match and deadlocks, on live ranks: one error that says which rank does what, and the next run works."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from partkit.collectives.all_reduce import all_reduce
from partkit.collectives.barrier import barrier
from partkit.communicator import Communicator
from partkit.worlds.errors import RankError, RanksStuck
from partkit.worlds.world import World
from tests.worlds.failing import failure, stuck, works

pytestmark = pytest.mark.live
Live = Callable[[int], World]
ALGORITHMS = ("ring", "naive", "native")


def reduce_own(comm: Communicator, inputs: list[torch.Tensor], algorithm: Any = "ring") -> list[Any]:
    """Every rank reduces the tensor that is meant for it."""
    result: list[Any] = all_reduce(inputs[comm.rank], comm, algorithm=algorithm).tolist()
    return result


# -- collectives that do not match -----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("case", "inputs", "words"),
    [
        ("H01", [torch.ones(4), torch.ones(8)], ["rank 0: all_reduce #1 of float32[4], sum", "rank 1: all_reduce #1 of float32[8], sum"]),
        ("H02", [torch.ones(2, 3), 2 * torch.ones(3, 2)], ["rank 0: all_reduce #1 of float32[2, 3]", "rank 1: all_reduce #1 of float32[3, 2]"]),
        ("H03", [torch.ones(4), torch.ones(4, dtype=torch.int32)], ["rank 0: all_reduce #1 of float32[4]", "rank 1: all_reduce #1 of int32[4]"]),
    ],
)
def test_case_H01_H02_H03_unlike_tensors_are_never_summed(live_world: Live, case: str, inputs: list[torch.Tensor], words: list[str], algorithm: str) -> None:
    code, ranks, text = stuck(live_world(2), reduce_own, inputs, algorithm)
    assert (code, ranks) == ("mismatch", (0, 1)), case
    assert all(f"{line}, " in text.replace(", sum", ", ") or line in text for line in words), text
    assert text.count(f"{algorithm} at test_stuck.py") == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H04_operations_in_another_order(live_world: Live, algorithm: str) -> None:
    def other_order(comm: Communicator, algorithm: Any) -> None:
        def reduce() -> None:
            all_reduce(torch.ones(2), comm, algorithm=algorithm)

        def tell() -> None:
            with comm.collective("broadcast", torch.ones(2), "from rank 0"):
                for dst in range(1, comm.size) if comm.rank == 0 else ():
                    comm.send(torch.ones(2), dst)
                if comm.rank:
                    comm.recv(torch.empty(2), 0)

        for operation in (reduce, tell) if comm.rank == 0 else (tell, reduce):
            operation()

    code, ranks, text = stuck(live_world(2), other_order, algorithm)
    assert (code, ranks) == ("mismatch", (0, 1))
    assert f"rank 0: all_reduce #1 of float32[2], sum, {algorithm} at test_stuck.py" in text
    assert "rank 1: broadcast #1 of float32[2], from rank 0 at test_stuck.py" in text


def test_case_H04_calls_of_the_same_shape_are_told_apart_in_the_trace_by_their_lines(live_world: Live) -> None:
    """Swapped calls of the same kind can't be refused: each rank may well mean the other's. The trace shows their lines."""

    def swapped(comm: Communicator) -> tuple[float, float]:
        a, b = torch.tensor(1.0 + comm.rank), torch.tensor(10.0 + comm.rank)
        if comm.rank == 0:
            a = all_reduce(a, comm)
            b = all_reduce(b, comm)
        else:
            b = all_reduce(b, comm)
            a = all_reduce(a, comm)
        return a.item(), b.item()

    def right(comm: Communicator) -> tuple[float, float]:
        return all_reduce(torch.tensor(1.0 + comm.rank), comm).item(), all_reduce(torch.tensor(10.0 + comm.rank), comm).item()

    world = live_world(2)
    world.run(swapped)
    sites = {(e.seq, e.rank): e.site for e in world.trace.events if e.kind == "collective"}
    assert sites[0, 0] != sites[0, 1] and sites[1, 0] != sites[1, 1]
    assert list(world.run(right)) == [(3.0, 21.0)] * 2


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([{"op": "sum", "algorithm": "ring"}, {"op": "max", "algorithm": "ring"}], ["float32[2], sum, ring", "float32[2], max, ring"]),
        ([{"algorithm": "ring"}, {"algorithm": "naive"}], ["float32[2], sum, ring", "float32[2], sum, naive"]),
        ([{"algorithm": "native"}, {"algorithm": "ring"}], ["float32[2], sum, native", "float32[2], sum, ring"]),
        ([{"op": "max", "algorithm": "native"}, {"op": "min", "algorithm": "native"}], ["float32[2], max, native", "float32[2], min, native"]),
    ],
)
def test_operations_and_algorithms_must_agree(live_world: Live, calls: list[dict[str, Any]], words: list[str]) -> None:
    code, _, text = stuck(live_world(2), lambda comm, calls: all_reduce(torch.ones(2), comm, **calls[comm.rank]), calls)
    assert code == "mismatch"
    assert [f"  rank {rank}: all_reduce #1 of {word} at test_stuck.py" for rank, word in enumerate(words)] == text.splitlines()[1:]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ranks_that_agree_are_folded(world4: World, algorithm: str) -> None:
    code, ranks, text = stuck(world4, reduce_own, [torch.ones(4), torch.ones(4), torch.ones(8), torch.ones(4)], algorithm)
    assert (code, ranks) == ("mismatch", (2,))
    assert text.startswith("rank 2: its call differs from that of ranks 0-1, 3:")
    assert [line.split(" of ")[0] for line in text.splitlines()[1:]] == ["  rank 2: all_reduce #1", "  ranks 0-1, 3: all_reduce #1"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_mismatch_inside_a_group_names_the_group_s_ranks_only(world4: World, algorithm: str) -> None:
    def in_pairs(comm: Communicator, algorithm: Any) -> float:
        pair = comm.subgroup([0, 1] if comm.rank < 2 else [2, 3])
        return all_reduce(torch.ones(3 if comm.rank == 3 else 2), pair, algorithm=algorithm).sum().item()

    code, ranks, text = stuck(world4, in_pairs, algorithm)
    assert (code, ranks) == ("mismatch", (2, 3))
    assert "rank 2: all_reduce #1 of float32[2]" in text and "rank 3: all_reduce #1 of float32[3]" in text


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_another_number_of_calls_names_who_left(live_world: Live, algorithm: str) -> None:
    def uneven(comm: Communicator, algorithm: Any) -> None:
        for _ in range(2 + comm.rank):
            all_reduce(torch.ones(2), comm, algorithm=algorithm)

    code, ranks, text = stuck(live_world(2), uneven, algorithm)
    assert (code, ranks) == ("missing", (0,))
    assert text.startswith("rank 0: finished after 2 collective calls, but others still wait for it:")
    assert f"rank 1: all_reduce #3 of float32[2], sum, {algorithm} at test_stuck.py" in text


# -- messages that do not match --------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["send", "recv"])
def test_case_H11_head_to_head(live_world: Live, op: str) -> None:
    def head_to_head(comm: Communicator, op: str) -> None:
        first, second = (comm.send, comm.recv) if op == "send" else (comm.recv, comm.send)
        first(torch.ones(1), 1 - comm.rank)
        second(torch.ones(1), 1 - comm.rank)

    code, ranks, text = stuck(live_world(2), head_to_head, op)
    where = "to" if op == "send" else "from"
    assert (code, ranks) == ("cycle", (0, 1))
    assert f"rank 0 waits in {op} float32[1] {where} rank 1" in text and f"rank 1 waits in {op} float32[1] {where} rank 0" in text


@pytest.mark.parametrize(
    ("sent", "buffer"),
    [(torch.arange(8.0), torch.empty(4)), (torch.arange(4.0), torch.empty(8)), (torch.ones(4), torch.empty(4, dtype=torch.int32))],
)
def test_case_H14_a_buffer_that_does_not_fit(live_world: Live, sent: torch.Tensor, buffer: torch.Tensor) -> None:
    code, ranks, text = stuck(live_world(2), lambda comm, x, y: comm.send(x, 1) if comm.rank == 0 else comm.recv(y, 0), sent, buffer)
    assert (code, ranks) == ("unlike", (0, 1))
    kinds = [str(x.dtype).removeprefix("torch.") + str(list(x.shape)) for x in (sent, buffer)]
    assert f"rank 0: send {kinds[0]} to rank 1 at" in text and f"rank 1: recv {kinds[1]} from rank 0 at" in text


def test_case_H13_tags_that_differ(live_world: Live) -> None:
    code, _, text = stuck(live_world(2), lambda comm: comm.send(torch.ones(1), 1, "5") if comm.rank == 0 else comm.recv(torch.ones(1), 0, "6"))
    assert code == "unlike"
    assert "rank 0: send float32[1] to rank 1 with tag '5'" in text and "rank 1: recv float32[1] from rank 0 with tag '6'" in text


def test_messages_of_two_groups_do_not_meet(live_world: Live) -> None:
    def across(comm: Communicator) -> None:
        group = comm.subgroup([0, 1], "pair")
        if comm.rank == 0:
            group.send(torch.ones(1), 1)
        else:
            comm.recv(torch.ones(1), 0)

    assert stuck(live_world(2), across)[0] == "unlike"


def ring_of_sends(comm: Communicator) -> None:
    comm.send(torch.ones(1), (comm.rank + 1) % comm.size)


def from_the_wrong_side(comm: Communicator) -> None:
    pending = comm.isend(torch.ones(1), (comm.rank + 1) % comm.size)
    comm.recv(torch.empty(1), (comm.rank + 1) % comm.size)
    pending.wait()


def one_never_sends(comm: Communicator) -> None:
    if comm.rank < 3:
        comm.recv(torch.empty(1), 3)


def chain_without_an_end(comm: Communicator) -> None:
    if comm.rank > 0:
        comm.recv(torch.empty(1), comm.rank - 1)


def to_oneself(comm: Communicator) -> None:
    comm.isend(torch.ones(1), comm.rank).wait()


def two_and_two(comm: Communicator) -> None:
    comm.recv(torch.empty(1), comm.rank ^ 1)


def only_some_reduce(comm: Communicator) -> None:
    if comm.rank != 2:
        all_reduce(torch.ones(1), comm)


def inside_and_outside(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.recv(torch.empty(1), 1)
    else:
        all_reduce(torch.ones(1), comm)


def second_message_missing(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.send(torch.ones(1), 1)
    elif comm.rank == 1:
        for _ in range(2):
            comm.recv(torch.empty(1), 0)


def one_loop_longer(comm: Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(4 if comm.rank == 1 else 3):
        comm.sendrecv(torch.ones(1), right, torch.empty(1), left)


def groups_that_overlap(comm: Communicator) -> None:
    for ranks in ([0, 1], [1, 2]) if comm.rank != 2 else ([1, 2], [0, 1]):
        group = comm.subgroup(ranks)
        if comm.rank in group:
            all_reduce(torch.ones(1 + (comm.rank == 2)), group)


def backwards_in_a_pipeline(comm: Communicator) -> None:
    """All forwards first on one stage, forward and backward by turns on the next: with blocking sends, a deadlock."""
    for _ in range(2):
        if comm.rank == 0:
            comm.send(torch.ones(1), 1, "activation")
        elif comm.rank == 1:
            comm.recv(torch.empty(1), 0, "activation")
            comm.send(torch.ones(1), 0, "gradient")


def overlapped_and_another_collective(comm: Communicator) -> None:
    """The message has arrived, but both wait for it only after a collective, in which they do not agree."""
    pending = comm.isend(torch.ones(2), 1) if comm.rank == 0 else comm.irecv(torch.empty(2), 0) if comm.rank == 1 else None
    all_reduce(torch.ones(2 if comm.rank == 0 else 1), comm)
    if pending is not None:
        pending.wait()


@pytest.mark.parametrize(
    ("hang", "code", "words"),
    [
        (overlapped_and_another_collective, "mismatch", "rank 0: its call differs from that of ranks 1-3"),
        (ring_of_sends, "cycle", "rank 0 waits in send float32[1] to rank 1"),
        (from_the_wrong_side, "cycle", "rank 0 waits in recv float32[1] from rank 1"),
        (one_never_sends, "alone", "rank 0 waits in recv float32[1] from rank 3 at test_stuck.py; rank 3 has finished"),
        (chain_without_an_end, "alone", "rank 1 waits in recv float32[1] from rank 0 at test_stuck.py; rank 0 has finished"),
        (to_oneself, "cycle", "rank 0 waits in send float32[1] to rank 0"),
        (two_and_two, "cycle", "rank 1 waits in recv float32[1] from rank 0"),
        (only_some_reduce, "missing", "rank 2: finished after 0 collective calls"),
        (inside_and_outside, "mismatch", "rank 0: recv float32[1] from rank 1"),
        (second_message_missing, "alone", "rank 1 waits in recv float32[1] from rank 0 at test_stuck.py; rank 0 has finished"),
        (one_loop_longer, "alone", "rank 1 waits in recv float32[1] from rank 0 at test_stuck.py; rank 0 has finished"),
        (groups_that_overlap, "mismatch", "rank 2: all_reduce #1 of float32[2]"),
        (backwards_in_a_pipeline, "cycle", "with tag 'gradient'"),
    ],
)
def test_thirteen_ways_to_hang_each_explained(world4: World, hang: Callable[[Communicator], None], code: str, words: str) -> None:
    found, _, text = stuck(world4, hang)
    assert (found, words in text) == (code, True), f"{found}: {text}"


# -- what is no deadlock ---------------------------------------------------------------------------------------------


def test_a_rank_that_is_merely_slow_is_waited_for(live_world: Live) -> None:
    """Longer than every patience of the supervisor, awake and asleep, before and inside collectives."""

    def slow(comm: Communicator) -> float:
        until = time.perf_counter() + 1.5
        if comm.rank == 0:
            while time.perf_counter() < until:
                pass
        x = all_reduce(torch.ones(1), comm)
        if comm.rank == 1:
            time.sleep(1.5)
        return all_reduce(x, comm, algorithm="native").item()

    assert list(live_world(2).run(slow)) == [4.0, 4.0]


def test_many_small_messages_and_large_ones_are_no_silence(live_world: Live) -> None:
    def busy(comm: Communicator) -> float:
        for _ in range(300):
            all_reduce(torch.ones(1), comm)
        return all_reduce(torch.ones(4_000_000), comm).mean().item()

    assert list(live_world(2).run(busy)) == [2.0, 2.0]


def test_arguments_that_take_long_to_send_are_no_deadlock(live_world: Live) -> None:
    """The first rank waits for the others long before they have even got their task."""
    payload = torch.zeros(60_000_000, dtype=torch.uint8)
    assert list(live_world(2).run(lambda comm, x: (all_reduce(torch.ones(1), comm).item(), x.numel()), payload)) == [(2.0, 60_000_000)] * 2


def test_a_caught_mismatch_of_dtype_leaves_nothing_behind(live_world: Live) -> None:
    def careful(comm: Communicator) -> float:
        with contextlib.suppress(ValueError):
            all_reduce(torch.ones(2).to(torch.uint16), comm)
        return comm.sendrecv(torch.tensor([1.0 + comm.rank]), 1 - comm.rank, torch.empty(1), 1 - comm.rank).item()

    assert list(live_world(2).run(careful)) == [2.0, 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_orders_that_are_right_never_look_stuck(world4: World, seed: int) -> None:
    """Random traffic between random pairs, posted in each rank's own order, waited for in another."""

    def traffic(comm: Communicator, seed: int) -> bool:
        plan = torch.Generator().manual_seed(seed)
        messages = [(int(torch.randint(4, (), generator=plan)), int(torch.randint(4, (), generator=plan)), i) for i in range(40)]
        mine = torch.Generator().manual_seed(100 * seed + comm.rank)
        pending = []
        for at in torch.randperm(len(messages), generator=mine).tolist():
            src, dst, i = messages[at]
            if comm.rank == dst:
                pending.append(comm.irecv(torch.empty(1), src, str(i)))
            if comm.rank == src:
                pending.append(comm.isend(torch.tensor([float(i)]), dst, str(i)))
        received = [pending[at].wait() for at in torch.randperm(len(pending), generator=mine).tolist()]
        return len(received) == sum((comm.rank == src) + (comm.rank == dst) for src, dst, _ in messages)

    assert list(world4.run(traffic, seed)) == [True] * 4


def test_a_stuck_run_is_one_exception_with_data(live_world: Live) -> None:
    error = failure(live_world(2), lambda comm: comm.recv(torch.ones(1), 1 - comm.rank), kind=RanksStuck)
    assert isinstance(error, RankError) and error.diagnosis is not None
    assert (error.diagnosis.code, error.ranks, error.suffered, error.killed) == ("cycle", (0, 1), (), ())
    assert str(error).startswith("ranks 0-1: each waits for the next, a cycle:")
    assert works(live_world(2))


# -- time-outs -------------------------------------------------------------------------------------------------------


def in_a_barrier(comm: Communicator) -> None:
    barrier(comm)


def in_a_receive(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.recv(torch.empty(1), 1)


def in_messages_posted_together(comm: Communicator) -> None:
    for pending in [comm.isend(torch.ones(1), 1), comm.irecv(torch.empty(1), 1)] if comm.rank == 0 else []:
        pending.wait()


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (in_a_barrier, "barrier #1 of uint8[0], dissemination"),
        (in_a_receive, "recv float32[1] from rank 1"),
        (in_messages_posted_together, "send float32[1] to rank 1"),
    ],
)
def test_case_H16_a_rank_that_comes_too_late_is_named(live_world: Live, wait: Callable[[Communicator], None], words: str) -> None:
    """Rank 2 goes on and on, so it is never quiet; rank 1 would sleep for longer than the test may take."""

    def late(comm: Communicator) -> None:
        if comm.rank == 1:
            time.sleep(600)
        wait(comm.subgroup([0, 1])) if comm.rank == 0 else None
        while comm.rank == 2:
            comm.compute("busy", seconds=0.01)

    world = live_world(3)
    world.timeout = 2.0  # seconds: the healthy run that `stuck` has after it must fit in, too
    try:
        code, ranks, text = stuck(world, late)
    finally:
        world.timeout = None
    assert (code, ranks) == ("late", (1,))
    assert f"rank 0: {words}" in text and "rank 1: busy with something that is no message, after 0 collective calls" in text
