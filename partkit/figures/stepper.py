"""A run message by message: in which order, and what every rank holds after each. Pure: from a trace to a story.

Order. A message's round is one more than that of the messages before it, on either side: the longest chain of messages that
leads to it (Lamport's clock, counted in messages). Messages of one round do not wait for each other. So a ring of four ranks has four
messages a round, whatever the threads of the machine made of it, and the story of a run is the same each time:

    round 1    0 -> 1   1 -> 2   2 -> 3   3 -> 0
    round 2    0 -> 1   ...

A run whose messages somebody let go one by one is told in the order of their arrival.

Boards. A recorded run (`partkit.recording`) also has sights of every rank's memory. What a rank shows after k messages is its last
sight before it is done with a message that is not among these k: all that it computed from what has come so far, and nothing later.

Reference: Lamport 1978, "Time, clocks, and the ordering of events in a distributed system", section on logical clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partkit.tracing import KIND_CODE, Event, Sight, Strip, Trace

MOST_STEPS = 2000
"""Messages of a story."""

Key = tuple[int, int, str, str, int]
"""src, dst, tag, group, seq: the name of a message."""


class Step(NamedTuple):
    """One message of a story."""

    src: int
    dst: int
    round: int
    """From 1."""
    send: Event
    what: str = ""
    """dtype and shape; empty if the run was not recorded."""
    who: int = 0
    """Ranks whose data is in it, as a set of bits."""
    values: tuple[str, ...] = ()
    """Of a small message: what it carries."""
    sets: tuple[int, ...] = ()
    """Of a small message: for each element the ranks whose data is in it."""
    taken: tuple[int, int] = (-1, 0)
    """Of the source: the strip from which it was read, and the first element; -1 if that is not small."""
    put: tuple[int, int] = (-1, 0)
    """Of the destination: the same for where it was written."""


class Board(NamedTuple):
    """What one rank holds from some step on."""

    since: int
    """Messages that have gone before."""
    strips: tuple[Strip, ...]


class Waiting(NamedTuple):
    """A message of a run that goes on: posted, not arrived."""

    sight: Sight
    held: bool
    """It waits until it is let go; else it is on its way."""


class Story(NamedTuple):
    """A run message by message."""

    size: int
    steps: tuple[Step, ...]
    boards: tuple[tuple[Board, ...], ...]
    """For each rank; empty if nothing is known."""
    waiting: tuple[Waiting, ...]
    recorded: bool
    """Whether values are known."""
    num_left_out: int
    """Messages after the last step."""

    @property
    def num_rounds(self) -> int:
        """Rounds of messages."""
        return max((step.round for step in self.steps), default=0)


def story(trace: Trace) -> Story:
    """The story of a run so far.

    Example:
        >>> ring = [(0, 1), (1, 0)]
        >>> events = [Event(src, "send", 0.0, 1.0, dst, 8) for src, dst in ring] + [Event(dst, "recv", 0.0, 1.0, src, 8) for src, dst in ring]
        >>> [(step.src, step.dst, step.round) for step in story(Trace.from_events(events)).steps]
        [(0, 1, 1), (1, 0, 1)]
    """
    sights, is_over = list(trace.sights), trace.finished.is_set()
    if sights and not is_over:
        trace = _with_sends_under_way(trace)
    pairs, rounds, num_pairs = _ordered(trace, by_arrival=any(sight.number >= 0 for sight in sights))
    sends = [trace.event(trace.columns[row]) for row in pairs[:, 0]]
    order = {_key_of(send): index for index, send in enumerate(sends)}
    by_rank = [[sight for sight in sights if sight.rank == rank] for rank in range(trace.size)] if sights else []
    payloads = _payloads(by_rank)
    steps = tuple(_step(send, int(number), payloads) for send, number in zip(sends, rounds, strict=True))
    boards = tuple(_boards(own, order) for own in by_rank)
    waiting = () if is_over else tuple(_waiting(by_rank))
    return Story(trace.size, steps, boards, waiting, bool(sights), num_pairs - len(steps))


def _with_sends_under_way(trace: Trace) -> Trace:
    """A message counts once it has arrived, also if its sender has not waited for it yet and so has noted nothing."""
    rows = trace.columns
    received = np.setdiff1d(np.flatnonzero(rows["kind"] == KIND_CODE["recv"]), trace.pairs()[:, 1])
    sends = rows[received].copy()
    sends["kind"], sends["rank"], sends["peer"] = KIND_CODE["send"], rows["peer"][received], rows["rank"][received]
    return Trace.from_columns(np.concatenate((rows, sends)), trace.strings, size=trace.size, clock=trace.clock)


# -- order -----------------------------------------------------------------------------------------------------------


def _ordered(trace: Trace, *, by_arrival: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """The first `MOST_STEPS` messages in order as rows (send, receive) of shape (steps, 2), their rounds, and how many there are."""
    rows, pairs = trace.columns, trace.pairs()
    arrival = rows["end"][pairs[:, 1]]
    first = np.argsort(arrival, kind="stable")[:MOST_STEPS]
    chosen = pairs[first]
    number = rounds(rows["rank"][chosen], rows["start"][chosen], rows["end"][chosen])
    if by_arrival:
        order = np.argsort(arrival[first], kind="stable")
    else:
        sent, received = rows[chosen[:, 0]], rows[chosen[:, 1]]
        order = np.lexsort((sent["seq"], sent["tag"], received["rank"], sent["rank"], number))  # the last key counts most
    return chosen[order], number[order], len(pairs)


def rounds(ranks: npt.NDArray[np.int32], posted: npt.NDArray[np.float64], done: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The round of each message, from 1.

    Args:
        ranks: of both sides, send then receive. Shape (messages, 2).
        posted: when each side posted it. Shape (messages, 2).
        done: when each side was done with it. Shape (messages, 2).

    Example:
        >>> chain = np.array([[0, 1], [1, 2]], dtype=np.int32)          # rank 1 sends on what it has got
        >>> rounds(chain, np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])).tolist()
        [1, 2]
    """
    level = dict.fromkeys(np.unique(ranks).tolist(), 0)
    before = np.zeros(ranks.shape, dtype=np.int64)
    for message, side, is_done in _points(posted, done):
        rank = int(ranks[message, side])
        if is_done:
            level[rank] = max(level[rank], int(before[message].max()) + 1)
        else:
            before[message, side] = level[rank]
    found: npt.NDArray[np.int64] = before.max(axis=1, initial=0) + 1
    return found


def _points(posted: npt.NDArray[np.float64], done: npt.NDArray[np.float64]) -> Iterable[tuple[int, int, bool]]:
    """Posts and dones of all messages in order of time: message, side, whether it is done. At one moment, what is done counts for what is posted."""
    shape = posted.shape
    times = np.concatenate((posted.ravel(), done.ravel()))
    at_once = (done == posted).ravel()
    phase = np.concatenate((np.ones(posted.size), np.where(at_once, 2, 0)))
    for point in np.lexsort((phase, times)).tolist():
        message, side = divmod(point % posted.size, shape[1])
        yield message, side, point >= posted.size


# -- what was carried ------------------------------------------------------------------------------------------------


def _key_of(send: Event) -> Key:
    return send.rank, -1 if send.peer is None else send.peer, send.tag, send.group, send.seq


def _key(sight: Sight) -> Key:
    src, dst = (sight.rank, sight.peer) if sight.kind == "send" else (sight.peer, sight.rank)
    return src, dst, sight.tag, sight.group, sight.seq


class _Payload(NamedTuple):
    sight: Sight
    values: tuple[str, ...] = ()
    sets: tuple[int, ...] = ()


def _payloads(by_rank: list[list[Sight]]) -> dict[tuple[str, Key], _Payload]:
    """What each side of each message was about when it was posted, by kind and key."""
    found: dict[tuple[str, Key], _Payload] = {}
    for sights in by_rank:
        held: dict[int, Strip] = {}
        for sight in sights:
            held.update((strip.number, strip) for strip in sight.strips)
            if sight.moment == "post":
                strip, part = held.get(sight.strip), slice(sight.first, sight.first + sight.num_elements)
                found[sight.kind, _key(sight)] = _Payload(sight) if strip is None else _Payload(sight, strip.values[part], strip.who[part])
    return found


def _step(send: Event, number: int, payloads: Mapping[tuple[str, Key], _Payload]) -> Step:
    key = _key_of(send)
    sent, received = payloads.get(("send", key)), payloads.get(("recv", key))
    step = Step(key[0], key[1], number, send)
    if sent is not None:
        step = step._replace(what=sent.sight.what, who=sent.sight.who, values=sent.values, sets=sent.sets, taken=(sent.sight.strip, sent.sight.first))
    return step if received is None else step._replace(put=(received.sight.strip, received.sight.first))


def _boards(sights: list[Sight], order: Mapping[Key, int]) -> tuple[Board, ...]:
    """What one rank holds after each number of messages, where that changes."""
    shown = _relevant(sights)
    held: dict[int, Strip] = {}
    boards: list[Board] = []
    since = 0
    for sight in sights:
        if sight.moment == "done":
            since = max(since, order.get(_key(sight), -1) + 1)
        held.update((strip.number, strip) for strip in sight.strips)
        for number in sight.gone:
            held.pop(number, None)
        board = Board(since, tuple(held[number] for number in sorted(held) if number in shown))
        if boards and boards[-1].since == since:
            boards[-1] = board
        elif not boards or boards[-1].strips != board.strips:
            boards.append(board)
    return tuple(boards)


def _relevant(sights: list[Sight]) -> set[int]:
    """The strips that a message was ever read from or written to, and those that ever held another rank's data."""
    out = {sight.strip for sight in sights}
    for sight in sights:
        out.update(strip.number for strip in sight.strips if any(who & ~(1 << sight.rank) for who in strip.who))
    return out


def _waiting(by_rank: list[list[Sight]]) -> Iterable[Waiting]:
    """Sends that are not done on either side, in the order of their ranks."""
    done = {_key(sight) for sights in by_rank for sight in sights if sight.moment == "done"}
    for sights in by_rank:
        under_way = {_key(sight): sight for sight in sights if sight.moment in ("post", "go") and sight.kind == "send"}
        yield from (Waiting(sight, sight.moment == "post" and sight.number >= 0) for key, sight in under_way.items() if key not in done)
