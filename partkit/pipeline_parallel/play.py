"""The lists played without a clock: each rank goes on as far as it can. Who is left standing, and what the circle is.

    rank 0: 0B0 ...   needs 1I0   ->   rank 1: 1F1 1B0 ...   needs 0F1   ->   rank 0: ... 0F1

A rank stands before an action when another rank has not yet made what the action needs. If nobody can move, every rank that stands
waits for another one that stands, and following that leads into a circle: the deadlock.

What nobody makes, and what a rank itself makes too late, is not waited for: it is named elsewhere (`validate`).
"""

from __future__ import annotations

from collections.abc import Iterator

from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.rules import gives, needs, receiver, sender
from partkit.pipeline_parallel.schedule import Schedule

Waiting = tuple[Action, Action, int]
"""What a rank stands before, what that needs, and the rank it should come from."""


def stuck(schedule: Schedule, lines: list[list[Action]], blocking: bool = False) -> Iterator[tuple[int, Action, str]]:
    """Every circle of ranks that wait for each other: a rank of it, its action, and the circle in words.

    Args:
        schedule: for its stages.
        lines: the actions of each rank, overlapped pairs taken apart; stages that do not exist are passed over.
        blocking: whether SEND and RECV hold their rank until both sides have come to them.
    """
    known = [[action for action in line if action.stage < len(schedule.placement)] for line in lines]
    waits = _Play(schedule, known, blocking).waits()
    seen: set[int] = set()
    for rank in waits:
        path: list[int] = []
        while rank in waits and rank not in seen:
            seen.add(rank)
            path.append(rank)
            rank = waits[rank][2]
        if rank in path:
            circle = path[path.index(rank) :]
            lowest = circle.index(min(circle))
            circle = circle[lowest:] + circle[:lowest]
            yield circle[0], waits[circle[0]][0], "; ".join(_words(rank, *waits[rank], blocking) for rank in circle) + ": none of them can move"


def _words(rank: int, action: Action, need: Action, other: int, blocking: bool) -> str:
    if blocking and need.kind[:4] in ("SEND", "RECV"):
        return f"rank {rank} blocks in {action} until rank {other} comes to {need}"
    return f"rank {rank} stands before {action}, which needs {need} from rank {other}"


class _Play:
    """Where each rank has come to, and what has been made."""

    def __init__(self, schedule: Schedule, lines: list[list[Action]], blocking: bool) -> None:
        self.stages = schedule.num_stages
        self.placement = schedule.placement if schedule.lowered else None
        self.lines, self.blocking = lines, blocking
        self.place = [0] * len(lines)
        self.made: set[Action] = set()
        self.maker: dict[Action, int] = {}
        for rank, line in enumerate(lines):
            for action in line:
                for thing in gives(action):
                    self.maker.setdefault(thing, rank)

    def waits(self) -> dict[int, Waiting]:
        """Play until nobody moves; what each rank that has not come to its end waits for."""
        moving = set(range(len(self.lines)))
        while moving:
            moving = {rank for rank in range(len(self.lines)) if self._advance(rank)}
        found = {}
        for rank, line in enumerate(self.lines):
            if self.place[rank] < len(line) and (waiting := self._lacks(rank, line[self.place[rank]])):
                found[rank] = waiting
        return found

    def _advance(self, rank: int) -> bool:
        """As far as ``rank`` can go; whether it went at all."""
        line, begin = self.lines[rank], self.place[rank]
        while self.place[rank] < len(line) and self._lacks(rank, line[self.place[rank]]) is None:
            self.made.update(gives(line[self.place[rank]]))
            self.place[rank] += 1
        return self.place[rank] > begin

    def _lacks(self, rank: int, action: Action) -> Waiting | None:
        """What ``action`` waits for on another rank."""
        if self.blocking and action.kind[:4] in ("SEND", "RECV"):
            return self._meets(action)
        for need in needs(action, self.stages, self.placement):
            source = sender(need) if need.kind in ("RECV_F", "RECV_B") else need
            if source not in self.made and self.maker.get(source, rank) != rank:
                return action, source, self.maker[source]
        return None

    def _meets(self, action: Action) -> Waiting | None:
        """With blocking calls: the other side, unless its rank stands at it or has just left it together with us."""
        other = receiver(action) if action.kind.startswith("SEND") else sender(action)
        if other not in self.maker or other in self.made:
            return None
        rank = self.maker[other]
        at = self.place[rank]
        return None if at < len(self.lines[rank]) and self.lines[rank][at] == other else (action, other, rank)
