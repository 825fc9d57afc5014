"""Who waits for whom, as data: from states of ranks, and from runs in both worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import partkit as pk
from partkit.communicator import Communicator
from partkit.diagnosis import Call, Operation, RankState, explain, late
from partkit.wait_graph import Edge, WaitGraph, nbytes, shortest_circle, wait_graph
from partkit.worlds.errors import RanksStuck
from partkit.worlds.simulated import SimulatedWorld
from partkit.worlds.world import World


def wait(rank: int, op: Any, peer: int, what: str = "float32[4]", tag: str = "", call: Call | None = None) -> RankState:
    operation = Operation(op, peer, tag, what, f"f.py:{rank}", f"{tag}|{what}")
    return RankState(rank, "blocked", operation, (operation,), call)


def done(rank: int) -> RankState:
    return RankState(rank, "finished", num_calls=2)


def arrows(graph: WaitGraph) -> list[tuple[int, int]]:
    return [(edge.src, edge.dst) for edge in graph.edges]


def test_a_circle_of_messages_with_a_tail() -> None:
    graph = wait_graph([wait(0, "recv", 1), wait(1, "recv", 2), wait(2, "send", 0, "int64[2, 3]", "x"), wait(3, "recv", 0)])
    assert graph.circle == (0, 1, 2) and arrows(graph) == [(0, 1), (1, 2), (2, 0), (3, 0)]
    assert graph.edges[2] == Edge(2, 0, "send", "int64[2, 3]", "x", 48, "f.py:2", "rank 0 would have to receive int64[2, 3] with tag 'x' from rank 2")
    assert graph.nodes[0].doing == "in recv float32[4] from rank 1 at f.py:0"


def test_who_has_left_is_where_the_arrows_end() -> None:
    graph = wait_graph([done(0), wait(1, "recv", 0)])
    assert (graph.circle, graph.first, arrows(graph)) == ((), (0,), [(1, 0)])
    assert graph.edges[0].needs == "rank 0 would have to send float32[4] to rank 1, but has finished"
    assert graph.nodes[0].doing == "has finished after 2 collective calls"


def test_in_a_collective_the_arrows_go_to_those_who_have_not_come() -> None:
    group = (0, 1, 2)
    here = Call("all_reduce", "float32[4], sum, ring", 0, group, "f.py:7")
    other = Call("all_reduce", "float64[4], sum, ring", 0, group, "f.py:9")
    graph = wait_graph([wait(0, "recv", 2, call=here), wait(1, "recv", 0, "float64[2]", call=other), wait(2, "recv", 1, call=here)])
    assert arrows(graph) == [(0, 1), (1, 0), (1, 2), (2, 1)] and graph.first == (1,) and graph.circle == (0, 1)
    assert graph.edges[0][2:] == (
        "all_reduce",
        "float32[4], sum, ring",
        "",
        16,
        "f.py:7",
        "rank 1 would have to call all_reduce #1 of float32[4], sum, ring",
    )


def test_inside_of_the_same_call_it_is_the_message_that_counts() -> None:
    call = Call("barrier", "", 0, (0, 1), "f.py:1")
    graph = wait_graph([wait(0, "recv", 1, call=call), wait(1, "recv", 0, call=call)])
    assert [edge.operation for edge in graph.edges] == ["recv", "recv"] and graph.circle == (0, 1)


def test_a_rank_that_is_busy_is_waited_for_and_no_circle() -> None:
    states = [wait(0, "recv", 1), RankState(1, "running", num_calls=1)]
    graph = wait_graph(states)
    assert (graph.circle, graph.first, graph.edges[0].needs) == ((), (1,), "rank 1 would have to send float32[4] to rank 0, but is still busy")
    assert graph.nodes[1].doing == "busy after 1 collective call"
    assert wait_graph(late(states, 3.0).states) == graph


def test_of_several_circles_a_shortest_is_told() -> None:
    assert shortest_circle({0: [1], 1: [2], 2: [0, 1]}) == (1, 2)
    assert shortest_circle({0: [1, 2], 1: [3], 2: [3], 3: [4]}) == ()
    assert shortest_circle({5: [6], 6: [7], 7: [5]}) == (5, 6, 7)


@pytest.mark.parametrize(("what", "size"), [("complex64[2]", 16), ("uint8[3]", 3), ("float8_e4m3fn[5]", 5), ("float64[0, 3]", 0), ("bool[2, 2], max", 4)])
def test_bytes_are_read_off_the_words(what: str, size: int) -> None:
    assert nbytes(what) == size


def test_a_long_circle_is_shown_in_part_and_closed_by_an_arrow_for_the_rest() -> None:
    graph = wait_graph([wait(rank, "recv", (rank + 1) % 50) for rank in range(50)])
    part = graph.around(10)
    assert len(graph.circle) == 50 and part.circle == tuple(range(10)) and [node.rank for node in part.nodes] == list(range(10))
    assert part.edges[-1][:3] == (9, 0, "... 40 more ...") and len(part.edges) == 10
    assert graph.around(50) == graph


def test_what_is_left_out_first_is_what_is_far_from_the_circle() -> None:
    states = [wait(0, "recv", 1), wait(1, "recv", 0), wait(2, "recv", 3), wait(3, "recv", 4), wait(4, "recv", 0)]
    part = wait_graph(states).around(3)
    assert [node.rank for node in part.nodes] == [0, 1, 4] and arrows(part) == [(0, 1), (1, 0), (4, 0)]


def test_a_diagnosis_keeps_the_states_it_was_made_from() -> None:
    states = (wait(0, "recv", 1), wait(1, "recv", 0))
    assert explain(states).states == states


# -- both worlds -----------------------------------------------------------------------------------------------------


def head_to_head(comm: Communicator) -> None:
    if comm.rank < 2:
        comm.send(torch.ones(3), 1 - comm.rank, "head")
    else:
        comm.recv(torch.empty(3), 0)


def leaves_early(comm: Communicator) -> None:
    if comm.rank != 1:
        pk.all_reduce(torch.ones(4), comm, algorithm="ring")


def other_type(comm: Communicator) -> None:
    pk.all_reduce(torch.ones(4, dtype=torch.float64 if comm.rank == 2 else torch.float32), comm, algorithm="ring")


def graph_of(world: Any, fn: Callable[[Communicator], None]) -> WaitGraph:
    with pytest.raises(RanksStuck) as found:
        world.run(fn)
    diagnosis = found.value.diagnosis
    assert diagnosis is not None
    return wait_graph(diagnosis.states)


@pytest.mark.live
def test_live_and_simulated_ranks_give_the_same_graph(live_world: Callable[[int], World]) -> None:
    for fn, circle, first in ((head_to_head, (0, 1), (0, 1)), (leaves_early, (), (1,)), (other_type, (0, 2), (2,))):
        live, simulated = graph_of(live_world(3), fn), graph_of(SimulatedWorld(3), fn)
        assert live == simulated, fn.__name__
        assert (live.circle, live.first) == (circle, first), fn.__name__
        assert all(edge.site.startswith("test_wait_graph.py:") and edge.nbytes for edge in live.edges)
