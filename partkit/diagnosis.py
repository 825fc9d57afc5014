"""Why nothing moves: from what each rank waits for to a sentence that names the mistake. Pure; both worlds use it.

Each rank gives a `RankState`: running, finished, or blocked in one operation, with the collective it is inside of. When all
ranks that are left are blocked and no posted send meets a posted receive, `explain` says why, most telling reason first:

    backward     ranks run the backward of a movement, others never do       which movement, and how to have all take part
    mismatch     ranks are inside collectives that are not the same call     shapes, dtypes, operations, order side by side
    missing      some ranks have finished, others still wait for them        who left after how many calls
    unlike       a send and a receive that nearly match                      sizes, dtypes or tags side by side
    cycle        rank 0 waits for 1, 1 for 2, 2 for 0                        the cycle, with each operation
    alone        a wait whose partner never comes                            what the partner is doing instead

A rank that merely takes long is no deadlock; where a time-out was set, `late` says whom the others have waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from partkit.rank_state import Call as Call
from partkit.rank_state import Due as Due
from partkit.rank_state import Operation as Operation
from partkit.rank_state import RankState as RankState
from partkit.rank_state import Status as Status
from partkit.rank_state import name_ranks as name_ranks
from partkit.suspects import Suspects

MOST_LINES = 12
"""A reason with more lines of ranks is cut short in the middle; `Diagnosis.states` has them all."""

Code = Literal["backward", "mismatch", "missing", "unlike", "cycle", "alone", "late"]


class Diagnosis(NamedTuple):
    """Why a run can't go on."""

    code: Code
    ranks: tuple[int, ...]
    """The ranks to look at first."""
    reason: str
    states: tuple[RankState, ...] = ()
    """What each rank was doing: what the wait-for graph is drawn from (`partkit.wait_graph`)."""


def is_stuck(states: Sequence[RankState]) -> bool:
    """True if no rank can ever move: all blocked or finished, at least one blocked, no send meets its receive, nobody stirs."""
    return any(s.status == "blocked" for s in states) and all(s.status != "running" and not s.awake for s in states) and not _in_flight(states)


def explain(states: Sequence[RankState]) -> Diagnosis:
    """Say why the ranks of a stuck run wait. Call it when `is_stuck`."""
    by_rank = {state.rank: state for state in states}
    for reason in (_backward, _parted, _unlike, _cycle):
        found = reason(by_rank)
        if found is not None:
            return found._replace(states=tuple(states))
    return _alone(by_rank)._replace(states=tuple(states))


def late(states: Sequence[RankState], seconds: float) -> Diagnosis:
    """Say for whom ranks have waited longer than ``seconds``: for those that are busy with something that is no message.

    Example:
        >>> recv = Operation("recv", 1, "", "float32[4]", "train.py:7")
        >>> print(late([RankState(0, "blocked", recv), RankState(1, "running")], seconds=3).reason)
        the others waited for it longer than 3 s:
          rank 0: recv float32[4] from rank 1 at train.py:7
          rank 1: busy with something that is no message, after 0 collective calls
    """
    blocked = [s for s in states if s.status == "blocked"]
    awaited = {peer for s in blocked for peer in (*(s.call.group if s.call else ()), *((s.blocked_on.peer,) if s.blocked_on else ()))}
    busy = [s for s in states if s.status == "running" and s.rank in awaited]
    lines = [_fold(blocked)] + [f"  {name_ranks([s.rank])}: busy with something that is no message, after {_calls(s.num_calls)}" for s in busy]
    head = f"the others waited for {'it' if len(busy) == 1 else 'them'} longer than {seconds:g} s:" if busy else f"no message came within {seconds:g} s:"
    return Diagnosis("late", tuple(s.rank for s in busy or blocked), "\n".join([head, *lines]), tuple(states))


def _in_flight(states: Sequence[RankState]) -> bool:
    """Whether a message that somebody waits for has been posted on its other side, too. Those that nobody waits for yet set nobody free."""
    by_rank = {state.rank: state for state in states}
    return any(state.blocked_on is not None and _has_met(state.blocked_on, state.rank, by_rank) for state in states)


def _backward(states: Mapping[int, RankState]) -> Diagnosis | None:
    """The youngest movement first: backward runs them from the last to the first, so there the ranks parted."""
    waiting = [(state.backward_of, state.rank) for state in states.values() if state.status == "blocked" and state.backward_of is not None]
    for movement, rank in sorted(waiting, key=lambda pair: -pair[0].number):
        absent = [s for s in states.values() if s.rank in movement.group and any(map(movement.same_as, s.due)) and not movement.same_as(s.backward_of)]
        if absent:
            doing = _in_short([f"{name_ranks([s.rank])} {_doing_instead(s)}" for s in absent])
            names = name_ranks([s.rank for s in absent])
            advice = f"If its result is not part of the loss on {names}, say so there: loss = pk.functional.tie(loss, result)"
            reason = f"rank {rank} is in the backward of {movement}, in which {names} must take part and did not:{doing}\n{advice}"
            return Diagnosis("backward", tuple(s.rank for s in absent), reason)
    return None


def _doing_instead(state: RankState) -> str:
    if state.status == "finished":
        return "has finished without it"
    inside = f", in the backward of {state.backward_of}" if state.backward_of is not None else ""
    return f"waits in {state.call or state.blocked_on}{inside}"


def _parted(states: Mapping[int, RankState]) -> Diagnosis | None:
    """Ranks that wait for each other in collectives which are not the same call: who parted from the others comes first."""
    suspects = Suspects.among(states)
    first, rest = suspects.first, [rank for rank in suspects.involved if rank not in suspects.first]
    if not suspects.calls:
        return None
    if all(states[rank].status == "finished" for rank in first):
        waiting = [rank for rank, state in states.items() if state.status == "blocked"]
        head = f"{_finished(states, first)}, but others still wait for {'it' if len(first) == 1 else 'them'}:"
        return Diagnosis("missing", first, f"{head}\n{_side_by_side(suspects, states, [*waiting, *(rank for rank in first if states[rank].calls)])}")
    if rest and all(states[rank].status == "finished" and not suspects.made[rank].keys() & suspects.calls.keys() for rank in rest):
        head = f"{'goes' if len(first) == 1 else 'go'} on, but {name_ranks(rest)} {_finished(states, rest)}:"
        return Diagnosis("missing", first, f"{head}\n{_side_by_side(suspects, states, [*first, *rest])}")
    members = {rank for call in suspects.calls.values() for rank in call.group if rank in states}
    ordered = [*first, *sorted(members.union(rest).difference(first))]
    differs = "its call differs" if len(first) == 1 else "their calls differ"
    head = f"{differs} from that of {name_ranks(ordered[len(first) :])}:" if rest else "ranks called different collectives:"
    if any(states[rank].status == "blocked" and states[rank].call is None for rank in ordered):
        head = "some ranks are in a collective, others wait for a message outside of it:"
    return Diagnosis("mismatch", first, f"{head}\n{_side_by_side(suspects, states, ordered)}")


def _finished(states: Mapping[int, RankState], ranks: Sequence[int]) -> str:
    """``finished after 1 collective call``, ``finished after 3 or 4 collective calls``."""
    counts = sorted({states[rank].num_calls for rank in ranks})
    return f"finished after {''.join(f'{count} or ' for count in counts[:-1])}{_calls(counts[-1])}"


def _side_by_side(suspects: Suspects, states: Mapping[int, RankState], ranks: Sequence[int]) -> str:
    """What ranks called where the others wait, or else what they do now; one line for those that did the same."""
    doing: dict[int, Call | None] = {}
    for rank in ranks:
        here = next((made for slot in suspects.calls if (made := suspects.made[rank].get(slot)) is not None), states[rank].call)
        doing[rank] = here or next(reversed(states[rank].calls), None) if states[rank].status == "finished" else here
    groups = {call.group for call in doing.values() if call is not None}
    lines: dict[str, list[int]] = {}
    for rank, call in doing.items():
        text = str(states[rank].blocked_on) if call is None else call.among(name_ranks(call.group) if len(groups) > 1 else "")
        if states[rank].status == "finished" and (call is None or call.slot not in suspects.calls):
            text = _finished(states, [rank]) + ("" if call is None else f", the last {text}")
        lines.setdefault(text, []).append(rank)
    return "\n".join(f"  {name_ranks(same)}: {text}" for text, same in lines.items())


def _unlike(states: Mapping[int, RankState]) -> Diagnosis | None:
    """A send and a receive of the same two ranks that have met nothing, and not each other."""
    single = {rank: [own for own in state.posted if not _has_met(own, rank, states)] for rank, state in states.items()}
    for rank, state in states.items():
        for mine in single[rank]:
            for theirs in single.get(mine.peer, ()) if mine.op == "send" else ():
                same_step = mine.tag == theirs.tag or not _same_call(state, states[mine.peer])  # other steps of a collective wait, too
                if theirs.op == "recv" and theirs.peer == rank and same_step:
                    reason = f"a send and a receive that do not fit:\n  rank {rank}: {mine}\n  rank {mine.peer}: {theirs}"
                    return Diagnosis("unlike", (rank, mine.peer), reason)
    return None


def _has_met(operation: Operation, rank: int, states: Mapping[int, RankState]) -> bool:
    return operation.peer in states and any(operation.meets(rank, other, operation.peer) for other in states[operation.peer].posted)


def _same_call(one: RankState, other: RankState) -> bool:
    return one.call is not None and other.call is not None and one.call.same_as(other.call)


def _cycle(states: Mapping[int, RankState]) -> Diagnosis | None:
    for start in states:
        path: list[int] = []
        rank = start
        while rank in states and rank not in path:
            path.append(rank)
            blocked_on = states[rank].blocked_on
            if blocked_on is None:
                break
            rank = blocked_on.peer
        else:
            if rank in path:
                ring = path[path.index(rank) :]
                ring = ring[ring.index(min(ring)) :] + ring[: ring.index(min(ring))]
                lines = _in_short([f"rank {r} waits in {states[r].blocked_on}" for r in ring])
                return Diagnosis("cycle", tuple(ring), f"each waits for the next, a cycle:{lines}")
    return None


def _alone(states: Mapping[int, RankState]) -> Diagnosis:
    """Whoever has left comes first, unless one rank alone waits for several that have."""
    first, involved, *_ = Suspects.among(states)
    waiting = sorted((s for s in states.values() if s.status == "blocked"), key=lambda s: s.rank not in involved)  # who waits for the others comes last
    waits = [(s, operation) for s in waiting for operation in (s.posted if s.rank in first else (s.blocked_on,)) if operation is not None]
    lines = []
    for state, operation in waits:
        partner = states.get(operation.peer)
        doing = "has finished" if partner is None or partner.status == "finished" else f"waits in {partner.blocked_on}"
        lines.append(f"rank {state.rank} waits in {operation}; rank {operation.peer} {doing}")
    head = "waits for what never comes"
    if all(states[rank].status == "finished" for rank in first):
        it = "it" if len(first) == 1 else "them"
        ops = {operation.op for _, operation in waits if operation.peer in first}
        what = f"to exchange messages with {it}" if len(ops) == 2 else f"for a message from {it}" if "recv" in ops else f"for {it} to take a message"
        head = f"finished, but others still wait {what}"
    return Diagnosis("alone", first, f"{head}:{_in_short(lines)}")


def _in_short(lines: Sequence[str]) -> str:
    """A line for each rank, begun on a new one; of very many the first and the last."""
    left = len(lines) - 8
    shown = lines if len(lines) <= MOST_LINES else [*lines[:6], f"... {left} more; the exception's diagnosis.states has all ...", *lines[-2:]]
    return "".join(f"\n  {line}" for line in shown)


def _fold(states: Sequence[RankState]) -> str:
    """One line for ranks that do the same."""
    doing: dict[str, list[int]] = {}
    for state in states:
        doing.setdefault(str(state.call or state.blocked_on), []).append(state.rank)
    return "\n".join(f"  {name_ranks(ranks)}: {text}" for text, ranks in doing.items())


def _calls(count: int) -> str:
    return f"{count} collective call" + ("" if count == 1 else "s")
