"""Whom to look at first when nothing moves: from who waits for whom to those who quarrel with most others. Pure.

Four ranks, and rank 2 calls all_reduce on float64 where the others call it on float32. Each waits for those who have not come
to its own call:

    0 -> 2    1 -> 2    3 -> 2    2 -> 0, 1, 3

[1] Two ranks *quarrel* if one waits for the other, which will never come: it has finished, or has made that call differently, or
    waits for the first in something else. Here 2 quarrels with 0, 1 and 3, and each of these with 2 alone. Whoever only waits
    for a rank that is held up itself quarrels with nobody.
[2] Those with most quarrels are suspect: rank 2. So is a rank that makes one call more than all others, or one less. If it is a
    draw, all of them; those who have finished, if some of them have.
[3] Ranks that call a collective at the same line, each always in one group, are expected to share out among groups. One whose
    group overlaps those of others has them against it, too.
[4] If nobody quarrels, three or more wait in a circle. It is found by following the arrows to where they lead nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from partkit.rank_state import Call, RankState, Slot

States = Mapping[int, RankState]
Arrows = Mapping[int, Collection[int]]
Made = Mapping[int, Mapping[Slot, Call]]


class Suspects(NamedTuple):
    """Who is at the bottom of it when nothing moves.

    Example:
        >>> def call(what: str) -> Call:
        ...     return Call("all_reduce", what, 0, (0, 1, 2), "train.py:7")
        >>> found = Suspects.among({r: RankState(r, "blocked", call=call("int64[1]" if r == 1 else "float32[1]")) for r in range(3)})
        >>> found.first, found.involved
        ((1,), (0, 1, 2))
    """

    first: tuple[int, ...]
    """Ranks to look at first."""
    involved: tuple[int, ...]
    """These, and those that they quarrel with; of a circle all ranks in it."""
    calls: dict[Slot, Call]
    """By slot: calls in which ranks involved wait for others that have not come to them, earlier ones first; none if all wait for messages."""
    made: Made
    """By rank: the call that it made in each slot, the one that it is in included."""

    @staticmethod
    def among(states: States) -> Suspects:
        """Look at all ranks of a run in which nothing moves."""
        made = {rank: {call.slot: call for call in (*state.calls, *([state.call] if state.call else []))} for rank, state in states.items()}
        waits = who_waits_for_whom(states, made)
        against = quarrels(states, waits, made)
        if against:
            involved = _reachable(against, max(against, key=lambda rank: (len(against[rank]), -rank)))
            for rank in tuple(involved):
                call = states[rank].call
                against[rank].update(() if call is None else _overlapping(call, made))  # [3]
            most = max(len(against[rank]) for rank in involved)
            first = {rank for rank in involved if len(against[rank]) == most}
            involved |= {other for rank in first for other in against[rank]}
        else:
            first = involved = circle(waits)
        gone = {rank for rank in first if states[rank].status == "finished"}
        calls = [call for rank in involved if (call := states[rank].call) and any(not _came(made[peer], call) for peer in waits.get(rank, ()))]
        earlier_first = {call.slot: call for call in sorted(calls, key=lambda call: call.number)}
        return Suspects(tuple(sorted(gone or first)), tuple(sorted(involved)), earlier_first, made)


def who_waits_for_whom(states: States, made: Made) -> dict[int, frozenset[int]]:
    """By blocked rank: those who have not come to the collective that it is in; if all have, the other side of its message."""
    absent: dict[Call, frozenset[int]] = {}
    waits: dict[int, frozenset[int]] = {}
    for rank, state in states.items():
        if state.status != "blocked":
            continue
        found: frozenset[int] = frozenset()
        if state.call is not None:
            call = state.call._replace(site="")
            if call not in absent:
                absent[call] = frozenset(peer for peer in call.group if peer in states and not _came(made[peer], call))
            found = absent[call]
        if not found and state.blocked_on is not None and state.blocked_on.peer in states:
            found = frozenset([state.blocked_on.peer])
        waits[rank] = found
    return waits


def quarrels(states: States, waits: Arrows, made: Made) -> dict[int, set[int]]:
    """By rank: those it can never agree with [1]; only ranks that have any.

    Example:
        >>> states = {0: RankState(0, "finished"), 1: RankState(1, "blocked"), 2: RankState(2, "blocked")}
        >>> quarrels(states, {1: {0}, 2: {1}}, {0: {}, 1: {}, 2: {}})
        {0: {1}, 1: {0}}
    """
    against: dict[int, set[int]] = defaultdict(set)
    for rank, awaited in waits.items():
        call = states[rank].call
        posted = () if call is not None else states[rank].posted
        left = {operation.peer for operation in posted if operation.peer in states and states[operation.peer].status == "finished"}
        for peer in left.union(awaited):
            if states[peer].status == "finished" or rank in waits.get(peer, ()) or (call is not None and call.slot in made[peer]):
                against[rank].add(peer)
                against[peer].add(rank)
    return dict(sorted(against.items()))


def circle(waits: Arrows) -> set[int]:
    """Ranks from which the arrows lead nowhere else: some that wait for each other, or one that waits for nobody [4].

    Example:
        >>> circle({0: [1], 1: [2], 2: [3], 3: [1], 4: [0]})
        {1, 2, 3}
    """
    back: dict[int, set[int]] = defaultdict(set)
    for rank, awaited in waits.items():
        for peer in awaited:
            back[peer].add(rank)
    start = min(waits)
    while True:
        ahead = _reachable(waits, start)
        beyond = ahead - _reachable(back, start)
        if not beyond:
            return ahead
        start = min(beyond)  # from here on there are fewer


def _reachable(arrows: Arrows, start: int) -> set[int]:
    found, todo = {start}, [start]
    while todo:
        new = set(arrows.get(todo.pop(), ())) - found
        found |= new
        todo.extend(new)
    return found


def _overlapping(call: Call, made: Made) -> set[int]:
    """Ranks that have made this call at the same line in another group with some of the same ranks; none if some rank makes it in several."""
    groups = {rank: {other.group for other in calls.values() if (other.name, other.site) == (call.name, call.site)} for rank, calls in made.items()}
    if any(len(own) > 1 for own in groups.values()):
        return set()
    return {rank for rank, own in groups.items() if own and call.group not in own and not set(*own).isdisjoint(call.group)}


def _came(made: Mapping[Slot, Call], call: Call) -> bool:
    other = made.get(call.slot)
    return other is not None and other.same_as(call)
