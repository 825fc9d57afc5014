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

Status = Literal["running", "blocked", "finished"]
Code = Literal["backward", "mismatch", "missing", "unlike", "cycle", "alone", "late"]


class Call(NamedTuple):
    """A collective that a rank is inside of."""

    name: str
    """``all_reduce``."""
    what: str
    """What must agree between ranks: ``float32[4], sum, ring``."""
    number: int
    """n-th collective of this group on this rank, from 0."""
    group: tuple[int, ...]
    """World ranks of the group."""
    site: str
    """Source line of the call."""

    def same_as(self, other: Call) -> bool:
        """Whether the two calls can be two sides of one collective."""
        return self[:4] == other[:4]

    def __str__(self) -> str:
        return f"{self.name} #{self.number + 1} of {self.what}" + (f" at {self.site}" if self.site else "")


class Due(NamedTuple):
    """A differentiable movement of data (`partkit.functional`): its forward has run, and its backward needs all ranks again."""

    name: str
    """``all_gather``."""
    number: int
    """n-th movement of this name in this group on this rank, from 0."""
    group: tuple[int, ...]
    """World ranks that take part."""
    site: str
    """Source line of the forward."""

    def same_as(self, other: Due | None) -> bool:
        """Whether the two can be two sides of one movement."""
        return other is not None and self[:3] == other[:3]

    def __str__(self) -> str:
        return f"{self.name} #{self.number + 1}" + (f" (at {self.site})" if self.site else "")


class Operation(NamedTuple):
    """A message that a rank has posted and that has not met its other side."""

    op: Literal["send", "recv"]
    peer: int
    tag: str
    what: str
    """dtype and shape: ``float32[4]``."""
    site: str
    wire: str = ""
    """What must be equal on both sides for them to meet."""

    def __str__(self) -> str:
        where = "to" if self.op == "send" else "from"
        tag = f" with tag {self.tag!r}" if self.tag else ""
        return f"{self.op} {self.what} {where} rank {self.peer}{tag}" + (f" at {self.site}" if self.site else "")


class RankState(NamedTuple):
    """What one rank is doing."""

    rank: int
    status: Status
    blocked_on: Operation | None = None
    posted: tuple[Operation, ...] = ()
    """Everything posted and not done, the operation it is blocked on included."""
    call: Call | None = None
    """The collective it is inside of."""
    num_calls: int = 0
    """Collectives it has entered so far."""
    progress: int = 0
    """Grows with every operation; equal in two looks means that nothing happened between them."""
    backward_of: Due | None = None
    """The movement whose backward it is in."""
    due: tuple[Due, ...] = ()
    """Movements whose backward it has not run."""


class Diagnosis(NamedTuple):
    """Why a run can't go on."""

    code: Code
    ranks: tuple[int, ...]
    """The ranks to look at first."""
    reason: str


def is_stuck(states: Sequence[RankState]) -> bool:
    """True if no rank can ever move: all blocked or finished, at least one blocked, and no send meets its receive."""
    return any(s.status == "blocked" for s in states) and all(s.status != "running" for s in states) and not _in_flight(states)


def explain(states: Sequence[RankState]) -> Diagnosis:
    """Say why the ranks of a stuck run wait. Call it when `is_stuck`."""
    by_rank = {state.rank: state for state in states}
    for reason in (_backward, _mismatch, _missing, _unlike, _cycle):
        found = reason(by_rank)
        if found is not None:
            return found
    return _alone(by_rank)


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
    lines = [_fold(blocked)] + [f"  {_ranks([s.rank])}: busy with something that is no message, after {_calls(s.num_calls)}" for s in busy]
    head = f"the others waited for {'it' if len(busy) == 1 else 'them'} longer than {seconds:g} s:" if busy else f"no message came within {seconds:g} s:"
    return Diagnosis("late", tuple(s.rank for s in busy or blocked), "\n".join([head, *lines]))


def _in_flight(states: Sequence[RankState]) -> bool:
    sends = {(s.rank, o.peer, o.wire) for s in states for o in s.posted if o.op == "send"}
    return any((o.peer, s.rank, o.wire) in sends for s in states for o in s.posted if o.op == "recv")


def _backward(states: Mapping[int, RankState]) -> Diagnosis | None:
    """The youngest movement first: backward runs them from the last to the first, so there the ranks parted."""
    waiting = [(state.backward_of, state.rank) for state in states.values() if state.status == "blocked" and state.backward_of is not None]
    for movement, rank in sorted(waiting, key=lambda pair: -pair[0].number):
        absent = [s for s in states.values() if s.rank in movement.group and any(map(movement.same_as, s.due)) and not movement.same_as(s.backward_of)]
        if absent:
            doing = "".join(f"\n  {_ranks([s.rank])} {_doing_instead(s)}" for s in absent)
            names = _ranks([s.rank for s in absent])
            advice = f"If its result is not part of the loss on {names}, say so there: loss = pk.functional.tie(loss, result)"
            reason = f"rank {rank} is in the backward of {movement}, in which {names} must take part and did not:{doing}\n{advice}"
            return Diagnosis("backward", tuple(s.rank for s in absent), reason)
    return None


def _doing_instead(state: RankState) -> str:
    if state.status == "finished":
        return "has finished without it"
    inside = f", in the backward of {state.backward_of}" if state.backward_of is not None else ""
    return f"waits in {state.call or state.blocked_on}{inside}"


def _mismatch(states: Mapping[int, RankState]) -> Diagnosis | None:
    for state in states.values():
        if state.status != "blocked" or state.call is None:
            continue
        peers = [states[rank] for rank in state.call.group if rank in states and states[rank].status == "blocked"]
        if any(p.call is None for p in peers):
            return Diagnosis(
                "mismatch", tuple(p.rank for p in peers), "some ranks are in a collective, others wait for a message outside of it:\n" + _fold(peers)
            )
        if not all(p.call is not None and p.call.same_as(state.call) for p in peers):
            return Diagnosis("mismatch", tuple(p.rank for p in peers), "ranks called different collectives:\n" + _fold(peers))
    return None


def _missing(states: Mapping[int, RankState]) -> Diagnosis | None:
    for state in states.values():
        if state.status != "blocked" or state.call is None:
            continue
        gone = [rank for rank in state.call.group if rank in states and states[rank].status == "finished"]
        if gone:
            left = "; ".join(f"{_ranks([r])} finished after {_calls(states[r].num_calls)}" for r in gone)
            waiting = [s for s in states.values() if s.status == "blocked"]
            return Diagnosis("missing", tuple(gone), f"{left}, but others still wait for {'it' if len(gone) == 1 else 'them'}:\n" + _fold(waiting))
    return None


def _unlike(states: Mapping[int, RankState]) -> Diagnosis | None:
    for state in states.values():
        for mine in state.posted:
            for theirs in states[mine.peer].posted if mine.op == "send" and mine.peer in states else ():
                same_step = mine.tag == theirs.tag or not _same_call(state, states[mine.peer])  # other steps of a collective wait, too
                if theirs.op == "recv" and theirs.peer == state.rank and same_step:
                    reason = f"a send and a receive that do not fit:\n  rank {state.rank}: {mine}\n  rank {mine.peer}: {theirs}"
                    return Diagnosis("unlike", (state.rank, mine.peer), reason)
    return None


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
                lines = "".join(f"\n  rank {r} waits in {states[r].blocked_on}" for r in ring)
                return Diagnosis("cycle", tuple(ring), f"each waits for the next, a cycle:{lines}")
    return None


def _alone(states: Mapping[int, RankState]) -> Diagnosis:
    lines, ranks = [], []
    for state in states.values():
        wait = state.blocked_on
        if wait is None:
            continue
        ranks.append(state.rank)
        partner = states.get(wait.peer)
        doing = "has finished" if partner is None or partner.status == "finished" else f"waits in {partner.blocked_on}"
        lines.append(f"\n  rank {state.rank} waits in {wait}; rank {wait.peer} {doing}")
    return Diagnosis("alone", tuple(ranks), "waiting for a message that never comes:" + "".join(lines))


def _fold(states: Sequence[RankState]) -> str:
    """One line for ranks that do the same."""
    doing: dict[str, list[int]] = {}
    for state in states:
        doing.setdefault(str(state.call or state.blocked_on), []).append(state.rank)
    return "\n".join(f"  {_ranks(ranks)}: {text}" for text, ranks in doing.items())


def _calls(count: int) -> str:
    return f"{count} collective call" + ("" if count == 1 else "s")


def _ranks(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-3``, ``ranks 0, 2``, ``ranks 0-2, 5``."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    names = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(names)


name_ranks = _ranks
