"""Who waits for whom when nothing moves, as a graph: data for a picture, a table and a text. Pure; both worlds give the same.

    rank 0 --recv float32[4]--> rank 1 --recv float32[4]--> rank 2          each arrow: a rank that stands still, and the rank
       ^                                                       |            that would have to do something for it to go on
       '-----------------------recv float32[4]-----------------'

An arrow goes from a rank to the other side of the message that it is blocked in, or, inside of a collective, to the ranks that have
not come to that call. Ranks in a circle of arrows can never go on, and neither can whoever waits for one of them. Where there is
no circle, the arrows end at a rank that has finished, or is busy. The states are those from which `partkit.diagnosis.explain` makes
its sentence.

Source: Knapp 1987, "Deadlock detection in distributed databases".
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from partkit.rank_state import Operation, RankState, Status
from partkit.suspects import Suspects, who_waits_for_whom

_WHAT = re.compile(r"([a-z]+)(\d*)\w*\[([\d, ]*)\]")


class Node(NamedTuple):
    """A rank."""

    rank: int
    status: Status
    doing: str
    """In words."""


class Edge(NamedTuple):
    """One rank waits for another."""

    src: int
    """The rank that waits."""
    dst: int
    """For whom."""
    operation: str
    """``recv``, ``send``, or the name of the collective."""
    what: str
    """``float32[4]``; of a collective also what else must agree."""
    tag: str
    nbytes: int
    """Of the message, or of one rank's tensor."""
    site: str
    """Source line."""
    needs: str
    """What would have to happen."""


class WaitGraph(NamedTuple):
    """Who waits for whom."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    circle: tuple[int, ...]
    """Ranks each of which waits for the next, and the last for the first; empty if there is no circle."""
    first: tuple[int, ...]
    """Ranks to look at first."""

    def around(self, most: int) -> WaitGraph:
        """The part with the circle, the ranks to look at first, and then those next to them: at most so many ranks.

        A circle that is longer is closed by an arrow that stands for the ranks left out.
        """
        near = dict.fromkeys((*self.circle, *self.first))
        near.update(dict.fromkeys(rank for edge in self.edges if edge.src in near or edge.dst in near for rank in (edge.src, edge.dst)))
        kept = set([*near, *(node.rank for node in self.nodes if node.rank not in near)][:most])
        edges = [edge for edge in self.edges if edge.src in kept and edge.dst in kept]
        circle = self.circle[:most]
        if left := len(self.circle) - len(circle):
            edges.append(Edge(circle[-1], circle[0], f"... {left} more ...", "", "", 0, "", ""))
        return self._replace(nodes=tuple(node for node in self.nodes if node.rank in kept), edges=tuple(edges), circle=circle)


def wait_graph(states: Iterable[RankState]) -> WaitGraph:
    """The graph of a run in which nothing moves, or in which somebody has waited for too long.

    Args:
        states: of all ranks.

    Example:
        >>> def wait(rank: int, peer: int) -> RankState:
        ...     return RankState(rank, "blocked", Operation("recv", peer, "x", "float32[4]", f"train.py:{rank}"))
        >>> graph = wait_graph([wait(0, 1), wait(1, 2), wait(2, 1)])
        >>> graph.circle, [(edge.src, edge.dst, edge.nbytes) for edge in graph.edges]
        ((1, 2), [(0, 1, 16), (1, 2, 16), (2, 1, 16)])
        >>> graph.edges[0].needs
        "rank 1 would have to send float32[4] with tag 'x' to rank 0"
    """
    by_rank = {state.rank: state for state in states}
    made = {rank: {call.slot: call for call in (*state.calls, *([state.call] if state.call else []))} for rank, state in by_rank.items()}
    waits = who_waits_for_whom(by_rank, made)
    edges = tuple(_edge(by_rank, rank, peer) for rank, peers in sorted(waits.items()) for peer in sorted(peers))
    nodes = tuple(Node(rank, state.status, doing(state)) for rank, state in sorted(by_rank.items()))
    stuck = bool(waits) and all(state.status != "running" for state in by_rank.values())
    first = Suspects.among(by_rank).first if stuck else tuple(sorted({edge.dst for edge in edges if by_rank[edge.dst].status == "running"}))
    return WaitGraph(nodes, edges, shortest_circle({rank: sorted(peers) for rank, peers in waits.items()}), first)


def doing(state: RankState) -> str:
    """What a rank is doing, in words: ``in all_reduce #1 of float32[4], sum, ring at train.py:7``."""
    if state.status == "blocked":
        return f"in {state.call}" if state.call is not None else f"in {state.blocked_on}"
    return f"{'has finished' if state.status == 'finished' else 'busy'} after {state.num_calls} collective call{'' if state.num_calls == 1 else 's'}"


def nbytes(what: str) -> int:
    """Bytes of a tensor from its dtype and shape in words; 0 if they tell nothing.

    Example:
        >>> nbytes("float32[4]"), nbytes("bfloat16[2, 3], sum"), nbytes("bool[]"), nbytes("nothing")
        (16, 12, 1, 0)
    """
    found = _WHAT.match(what)
    if found is None:
        return 0
    kind, bits, shape = found.groups()
    each = int(bits) // 8 if bits else int(kind == "bool")
    return each * math.prod(int(n) for n in shape.split(",") if n.strip())


def shortest_circle(waits: Mapping[int, Iterable[int]]) -> tuple[int, ...]:
    """A shortest circle of arrows, from its lowest rank on; empty if there is none.

    Example:
        >>> shortest_circle({0: [1], 1: [2], 2: [3], 3: [1, 4]}), shortest_circle({0: [1]})
        ((1, 2, 3), ())
    """
    best: tuple[int, ...] = ()
    for start in sorted(waits):
        came: dict[int, int] = {}  # from where each rank was reached first
        todo = deque([start])
        while todo and start not in came:
            rank = todo.popleft()
            for peer in waits.get(rank, ()):
                if peer not in came:
                    came[peer] = rank
                    todo.append(peer)
        if start in came:
            ring = [start]
            while came[ring[-1]] != start:
                ring.append(came[ring[-1]])
            if not best or len(ring) < len(best):
                best = (start, *reversed(ring[1:]))
        if len(best) == 2:
            break
    return best


def _edge(states: Mapping[int, RankState], rank: int, peer: int) -> Edge:
    state, other = states[rank], states[peer]
    call, operation = state.call, state.blocked_on
    but = {"finished": ", but has finished", "running": ", but is still busy"}.get(other.status, "")
    if call is not None and (operation is None or operation.peer != peer or not _is_inside(other, state)):
        needs = f"rank {peer} would have to call {call._replace(site='')}{but}"
        return Edge(rank, peer, call.name, call.what, "", nbytes(call.what), call.site, needs)
    assert operation is not None  # who waits for nobody has no arrow
    return Edge(rank, peer, operation.op, operation.what, operation.tag, nbytes(operation.what), operation.site, _needs(rank, operation) + but)


def _is_inside(other: RankState, state: RankState) -> bool:
    """Whether the other rank has come to the same collective."""
    return other.call is not None and state.call is not None and other.call.same_as(state.call)


def _needs(rank: int, operation: Operation) -> str:
    tag = f" with tag {operation.tag!r}" if operation.tag else ""
    verb, way = ("send", "to") if operation.op == "recv" else ("receive", "from")
    return f"rank {operation.peer} would have to {verb} {operation.what}{tag} {way} rank {rank}"
