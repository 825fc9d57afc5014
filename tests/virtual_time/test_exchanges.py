"""Exchanges in a table get the times that the event loop gives them message by message, to the last bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from partkit.cluster import Cluster, Jitter, Link, SlowLink
from partkit.virtual_time import Engine, Entry, Network, Run, Side
from partkit.virtual_time.exchanges import pack
from partkit.virtual_time.program import NOBODY, meet

Round = tuple[list[int], list[float], list[int]]
"""To whom each rank sends, for how long it computes before, how many bytes it sends; a rank that sends to itself does nothing."""


class Chain:
    """Links of different speeds."""

    steady = True

    def message(self, src: int, dst: int, nbytes: int, start: float) -> float:
        return 1.0 + abs(src - dst) / 8 + nbytes / 7

    def computation(self, rank: int, work: object, start: float) -> float:
        return work if isinstance(work, float) else 0.0

    def death(self, rank: int) -> float:
        return float("inf")


def some_rounds(seed: int, size: int) -> list[Round]:
    """Rounds in which everybody sends to somebody and receives from somebody."""
    random = Random(seed)
    rounds: list[Round] = []
    for _ in range(random.randrange(1, 9)):
        to = list(range(size))
        random.shuffle(to)
        rounds.append((to, [random.choice([0.0, 0.0, 0.3, 1.1]) for _ in to], [random.choice([0, 8, 100]) for _ in to]))
    return rounds


def by_sides(rounds: Sequence[Round], size: int, network: Network, cut: int) -> list[npt.NDArray[np.float64]]:
    """As messages; rank 0 leaves out its last ``cut`` rounds. Its computations stay."""
    engine = Engine(size, network)
    for number, (to, busy, nbytes) in enumerate(rounds):
        sends = {rank: Side(rank, dst, nbytes[rank], True) for rank, dst in enumerate(to) if rank != dst}
        recvs = {send.peer: Side(send.peer, rank, send.nbytes, False) for rank, send in sends.items()}
        for send in sends.values():
            meet(send, recvs[send.peer])
        for rank in range(size):
            engine.lists[rank] += [busy[rank]] if busy[rank] else []
            if rank in sends and (rank or number < len(rounds) - cut):
                engine.lists[rank] += [recvs[rank], sends[rank], recvs[rank], sends[rank]]
    assert engine.run() is None
    return [engine.times_of(rank) for rank in range(size)]


def by_table(rounds: Sequence[Round], size: int, network: Network, cut: int, runs: int = 1) -> list[npt.NDArray[np.float64]]:
    """As rows of a table; ``runs``: the engine goes on so many times meanwhile."""
    engine = Engine(size, network)
    table, marks, open_runs = engine.exchanges, Counter[int](), dict[int, Run]()

    def close(rank: int) -> None:
        if rank in open_runs:
            table.close(open_runs[rank], ends.pop(rank))
            del open_runs[rank]

    ends: dict[int, int] = {}
    for number, (to, busy, nbytes) in enumerate(rounds):
        active = [rank for rank in range(size) if to[rank] != rank and (rank or number < len(rounds) - cut)]
        row = {rank: len(table) + k for k, rank in enumerate(active)}
        for rank in range(size):
            if busy[rank]:
                close(rank)
                engine.lists[rank].append(busy[rank])
                marks[rank] += 1
            if rank in row:
                close(rank)  # others have written rows meanwhile
                source = row.get(to.index(rank), NOBODY)
                src = to.index(rank)
                table.rows += pack(rank, src, to[rank], source if source < row[rank] else NOBODY, marks[rank], 0, 0, nbytes[src], nbytes[rank])
                if source > row[rank]:
                    table.late.append((row[rank], source))
                open_runs[rank] = Run(row[rank], marks[rank])
                ends[rank] = row[rank] + 1
                engine.lists[rank].append(open_runs[rank])
                marks[rank] += 4
        if number % runs == 0 and runs > 1:
            for rank in list(open_runs):
                close(rank)
            engine.run()
    for rank in list(open_runs):
        close(rank)
    assert engine.run() is None
    return [engine.times_of(rank) for rank in range(size)]


@pytest.mark.parametrize("size", [2, 3, 5, 16])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_table_and_messages_one_by_one_take_the_same_times(size: int, cut: int) -> None:
    for seed in range(25):
        rounds = some_rounds(seed, size)
        right = by_sides(rounds, size, Chain(), cut)
        for runs in (1, 2):
            found = by_table(rounds, size, Chain(), cut, runs)
            assert [times.tolist() for times in found] == [times.tolist() for times in right], (seed, runs)


def test_one_run_of_many_rows() -> None:
    """Two ranks that exchange a hundred times in a row: the second one's rows come after all of the first one's."""
    engine = Engine(2, Cluster(link=Link(latency=0.25, bandwidth=8)).network(2))
    table, count = engine.exchanges, 100
    for rank in range(2):
        entries: list[Entry] = [Run(rank * count, rank)]
        for k in range(count):
            table.rows += pack(rank, 1 - rank, 1 - rank, NOBODY if rank == 0 else k, 4 * k + rank, 0, 0, 2, 2)
        assert isinstance(entries[0], Run)
        table.close(entries[0], (rank + 1) * count)
        engine.lists[rank] += [*([0.5] if rank else []), *entries, 1.0]
    table.late += [(k, count + k) for k in range(count)]
    assert engine.run() is None
    assert engine.clock == [0.5 + count * 0.5 + 1.0] * 2
    assert engine.times_of(0).tolist() == [0.0, *(t for k in range(count) for t in (0.5 * k + 0.5 * (k > 0),) * 2 + (0.5 * k + 1.0,) * 2), 51.5]


def test_conditions_that_come_and_go_make_a_network_unsteady() -> None:
    assert Cluster().network(2).steady and Cluster(conditions=(SlowLink(0, 1, factor=2.0),)).network(2).steady
    assert not Cluster(conditions=(Jitter(0.1, seed=1),)).network(2).steady
    assert not Cluster(conditions=(SlowLink(0, 1, factor=2.0, since=0.5),)).network(2).steady
